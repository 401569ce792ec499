"""How many puzzles a network solves."""

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
"""Puzzles that are answered at once."""


@dataclass(frozen=True)
class Answers:
    """The answers of a network to some puzzles.

    Attributes:
        tokens: the answered token of each cell, `[puzzles, cells]`.
        right: whether it is right.
    """

    tokens: np.ndarray
    right: np.ndarray

    @property
    def cells_right(self) -> Estimate:
        """The share of cells that are right; its interval takes puzzles as independent."""
        return share_of(self.right.mean(axis=1))

    @property
    def puzzles_right(self) -> Estimate:
        """The share of puzzles of which every cell is right."""
        return rate_of(self.right.all(axis=1))

    def as_dict(self) -> dict[str, Any]:
        """The numbers as the summary of a run holds them."""
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
    """A network's answers to each puzzle of a stream, unchanged, after all supervision steps.

    Halting has no part in it.

    Args:
        policy: the network.
        stream: the puzzles.
        steps: calls of the network for each puzzle, each from the thought of the one before.

    Raises:
        TypeError: `steps` is no whole number.
        ValueError: it is less than 1.
    """
    whole("steps", steps)
    found = []
    for part in stream.batches(BATCH):
        inputs = np.zeros((min(BATCH, len(stream)), part.inputs.shape[1]), np.int32)
        inputs[: len(part.inputs)] = part.inputs  # of one size, which is compiled once
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
    """Measures answers to fresh puzzles during training; see `answers`.

    Args:
        updates: updates between two evaluations.
        stream: the puzzles.
        steps: supervision steps of each.

    Raises:
        TypeError: `updates` is no whole number.
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
    """The numbers of an evaluation, by their names in the metrics."""
    numbers: dict[str, float] = {"eval/puzzles": len(found.right)}
    for name, each in {
        "cells_right": found.cells_right,
        "puzzles_right": found.puzzles_right,
    }.items():
        numbers[f"eval/{name}"] = each.mean
        numbers |= {f"eval/{name}_low": each.low, f"eval/{name}_high": each.high}
    return numbers
