"""The sizes of a training that follow its devices: games, minibatches, length."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hackmatrix_rl.training import sharding

SIZED = ("num_envs", "num_minibatches", "total_timesteps")
"""The settings that a preset in `Traits.sized_presets` takes from the devices."""

MOST_STEPS, LEAST_MINIBATCHES = 32_768, 8
"""Steps of a minibatch at most, and minibatches of a pass at least."""
LEAST_GAMES = 8
"""Games of a minibatch on a device below which fewer games save no time."""
_LEAST_OF_EACH = 64  # games of each of many trainings on a device


@dataclass(frozen=True)
class DeviceGames:
    """How many games the devices of a training play at once.

    Attributes:
        games: games on each device, over all trainings of a program; a power of two.
        devices: number of devices.
    """

    games: int
    devices: int

    def of_each(self, members: int) -> int:
        """Games of each of several trainings in one program; the devices divide them."""
        shared = 1 << (members - 1).bit_length()
        return max(self.games // shared, _LEAST_OF_EACH) * self.devices


def minibatches(num_envs: int, num_steps: int, parts: int) -> int | None:
    """The number of minibatches of at most `MOST_STEPS` steps, at least `LEAST_MINIBATCHES`.

    There are fewer if a device would have less than a few games of each. `None` if no such number
    divides the games.

    Args:
        num_envs: games of the training.
        num_steps: steps of each game.
        parts: equal parts of a minibatch: devices, times parts of a gradient step.
    """
    least = max(LEAST_MINIBATCHES, -(-num_envs * num_steps // MOST_STEPS))
    least = min(least, max(LEAST_MINIBATCHES, num_envs // (LEAST_GAMES * parts)))
    fitting = (
        number
        for number in sharding.divisors(num_envs)
        if least <= number <= 2 * least and num_envs // number % parts == 0
    )
    return next(fitting, None)


def following(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`num_minibatches` after a change of the games, if a preset took it from them.

    The settings may be unchecked.
    """
    names = "num_envs", "num_steps", "grad_accum"
    given = {"num_minibatches", "minibatch_size"} & changes.keys()
    if "num_envs" not in changes or given or settings.get("device") not in ("gpu", "tpu"):
        return {}
    sizes: list[list[Any]] = [
        [each.get(name) for name in names] for each in (settings, {**settings, **changes})
    ]
    if not all(type(value) is int and value > 0 for each in sizes for value in each):
        return {}
    before, after = (minibatches(*each) for each in sizes)
    return {"num_minibatches": after} if before == settings.get("num_minibatches") else {}
