"""The loss of an answer: cross-entropy of the cells and of halting."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, Thought, evaluator_of
from hackmatrix_rl.algorithms.supervised._names import OUTPUT_LOSSES

HALTING_WEIGHT = 0.5


def log_stablemax(logits: Float32[Array, "*axes tokens"]) -> Float32[Array, "*axes tokens"]:
    """Log-probabilities proportional to `x + 1` for `x >= 0` and to `1 / (1 - x)` for `x < 0`.

    Unlike softmax it does not saturate: the gradient of a correct answer does not vanish.

    Source: Prieto et al. 2025, "Grokking at the edge of numerical stability".
    """
    up = jnp.log1p(jnp.where(logits >= 0, logits, 0.0))
    down = -jnp.log1p(jnp.where(logits < 0, -logits, 0.0))
    return jax.nn.log_softmax(jnp.where(logits >= 0, up, down), axis=-1)


class AnswerBatch(eqx.Module):
    """Examples, and the latent states of each so far."""

    inputs: Int32[Array, "rows cells"]
    labels: Int32[Array, "rows cells"]
    thought: Thought


class Outcome(NamedTuple):
    """The results of one network call, by row.

    Attributes:
        thought: both latent states after the call.
        halt: the halting logit.
        cells: fraction of correct cells.
        solved: whether all cells are correct.
    """

    thought: Thought
    halt: Float32[Array, " rows"]
    cells: Float32[Array, " rows"]
    solved: Bool[Array, " rows"]


class AnswerLoss(eqx.Module):
    """The mean cross-entropy of the cells, plus half the binary cross-entropy of halting.

    The label of halting is whether all cells are correct. Logits and losses are float32.

    Attributes:
        output: one of `OUTPUT_LOSSES`.
    """

    output: str = eqx.field(static=True, default="stablemax")

    def __check_init__(self) -> None:
        if self.output not in OUTPUT_LOSSES:
            raise ValueError(
                f"unknown output_loss {self.output!r}; choose one of {', '.join(OUTPUT_LOSSES)}"
            )

    def prepare(self, batch: AnswerBatch) -> "tuple[AnswerLoss, AnswerBatch]":
        """The loss and the batch, unchanged: the loss is a mean over samples."""
        return self, batch

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: AnswerBatch
    ) -> tuple[Float32[Array, ""], dict[str, Float32[Array, ""]], Outcome]:
        """The loss of a network on a batch, its parts, and the outcome of each row."""
        labels = batch.labels
        flat, halt, thought, _ = evaluator_of(policy).act_step(batch.inputs, batch.thought, ())
        logits = flat.reshape(*labels.shape, -1)
        logs = jax.nn.log_softmax(logits) if self.output == "softmax" else log_stablemax(logits)
        answer = -jnp.mean(jnp.take_along_axis(logs, labels[..., None], axis=-1))
        right = jnp.argmax(logits, axis=-1) == labels
        solved = jnp.all(right, axis=-1)
        believed = jnp.mean(jax.nn.softplus(halt) - halt * solved.astype(jnp.float32))
        loss = answer + HALTING_WEIGHT * believed
        cells = jnp.mean(right.astype(jnp.float32), axis=-1)
        outcome = Outcome(thought, jax.lax.stop_gradient(halt), cells, solved)
        return loss, {"answer_loss": answer, "halting_loss": believed}, outcome
