"""What all processes of a run must do at the same update, agreed on by all."""

from dataclasses import dataclass

import jax
import numpy as np
from jax.experimental import multihost_utils


@dataclass(frozen=True)
class Wishes:
    """What a process would like to happen now.

    Attributes:
        stop: number of the signal that asked it to stop; 0 if none did.
        save: a checkpoint is due by its clock.
        unhealthy: training has gone wrong.
    """

    stop: int = 0
    save: bool = False
    unhealthy: bool = False


def agree(mine: Wishes) -> Wishes:
    """What is to happen, the same in every process.

    Clocks differ and a signal may reach one process alone, while each save and each update is
    a joint act: one process that went its own way would leave the others waiting. Process 0
    says when to save and whether training is healthy; a signal that reached any process counts.

    Args:
        mine: what this process would like.
    """
    if jax.process_count() == 1:
        return mine
    wishes = np.array([mine.stop, mine.save, mine.unhealthy], np.int32)
    everyone = np.asarray(multihost_utils.process_allgather(wishes))
    return Wishes(
        stop=int(everyone[:, 0].max()), save=bool(everyone[0, 1]), unhealthy=bool(everyone[0, 2])
    )
