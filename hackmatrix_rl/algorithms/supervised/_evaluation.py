"""Evaluates the answers of a network to puzzles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork
from hackmatrix_rl.evaluation import Estimate, rate_of, share_of
from hackmatrix_rl.games.puzzles import ExampleStream
from hackmatrix_rl.system.errors import whole
from hackmatrix_rl.training import Hook, Metrics, Trainer

BATCH = 256
"""Batch size of an evaluation."""


@dataclass(frozen=True)
class Answers:
    """The answers of a network to some puzzles.

    Attributes:
        tokens: the predicted token of each cell, `[puzzles, cells]`.
        right: whether each token is correct, `[puzzles, cells]`.
    """

    tokens: np.ndarray
    right: np.ndarray

    @property
    def cells_right(self) -> Estimate:
        """The fraction of correct cells; the interval treats puzzles as independent samples."""
        return share_of(self.right.mean(axis=1))

    @property
    def puzzles_right(self) -> Estimate:
        """The fraction of puzzles in which every cell is correct."""
        return rate_of(self.right.all(axis=1))

    def as_dict(self) -> dict[str, Any]:
        """The numbers in the format of a run's summary."""
        found = {"cells_right": self.cells_right, "puzzles_right": self.puzzles_right}
        return {
            "episodes": len(self.right),
            **{name: estimate.as_dict() for name, estimate in found.items()},
        }

    def __str__(self) -> str:
        cells, puzzles = self.cells_right, self.puzzles_right
        return (
            f"{puzzles.mean:.1%} [{puzzles.low:.1%}, {puzzles.high:.1%}] of {len(self.right):,} "
            f"fresh puzzles right, and {cells.mean:.2%} of their cells"
        )


def answers(policy: AnswerNetwork, stream: ExampleStream, *, steps: int = 16) -> Answers:
    """A network's answers to each puzzle of a stream, without augmentation.

    Every puzzle gets all `steps`: the halting logit is ignored.

    Args:
        policy: the network.
        stream: the puzzles.
        steps: calls of the network per puzzle, each from the latent states of the previous call.

    Raises:
        TypeError: `steps` is not a whole number.
        ValueError: it is less than 1.
    """
    whole("steps", steps)
    found = []
    for part in stream.batches(BATCH):
        inputs = np.zeros((min(BATCH, len(stream)), part.inputs.shape[1]), np.int32)
        inputs[: len(part.inputs)] = part.inputs  # padded: one size compiles once
        given = jnp.asarray(inputs), jnp.asarray(steps, jnp.int32)
        found.append(np.asarray(_answer(policy, *given))[: len(part.inputs)])
    tokens = np.concatenate(found)
    return Answers(tokens, tokens == np.asarray(stream.labels))


@eqx.filter_jit
def _answer(
    policy: AnswerNetwork, inputs: Int32[Array, "rows cells"], steps: Int32[Array, ""]
) -> Int32[Array, "rows cells"]:
    def one(tokens: Int32[Array, " cells"]) -> Int32[Array, " cells"]:
        def call(_: Int32[Array, ""], found: Any) -> Any:
            logits, _, thought = policy(tokens, found[1])
            return logits, thought

        none = jnp.zeros(policy.cells * policy.heads.label.weight.shape[1], jnp.float32)
        logits, _ = jax.lax.fori_loop(0, steps, call, (none, policy.initial_carry()))
        return jnp.argmax(logits.reshape(policy.cells, -1), axis=-1).astype(jnp.int32)

    return jax.vmap(one)(inputs)


@final
class EvaluateAnswers(Hook):
    """Evaluates the network on other puzzles during training; see `answers`.

    Args:
        updates: updates between two evaluations.
        stream: the puzzles.
        steps: supervision steps per puzzle.

    Raises:
        TypeError: `updates` or `steps` is not a whole number.
        ValueError: it is less than 1.
    """

    def __init__(self, updates: int, stream: ExampleStream, *, steps: int = 16) -> None:
        self._updates = whole("updates", updates)
        self._stream, self._steps = stream, whole("steps", steps)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates until the next evaluation."""
        return self._updates - int(trainer.state.update) % self._updates

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """The numbers if an evaluation is due, else `None`."""
        if metrics.updates % self._updates:
            return None
        policy = trainer.policy
        assert isinstance(policy, AnswerNetwork)
        return evaluation_numbers(answers(policy, self._stream, steps=self._steps))


def evaluation_numbers(found: Answers) -> dict[str, float]:
    """The metrics of an evaluation, by name."""
    numbers: dict[str, float] = {"eval/puzzles": len(found.right)}
    for name, each in {
        "cells_right": found.cells_right,
        "puzzles_right": found.puzzles_right,
    }.items():
        numbers[f"eval/{name}"] = each.mean
        numbers |= {f"eval/{name}_low": each.low, f"eval/{name}_high": each.high}
    return numbers
