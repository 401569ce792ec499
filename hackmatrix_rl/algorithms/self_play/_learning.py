"""The sizes, the loss and the gradient steps of self-play."""

from dataclasses import dataclass, fields, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.algorithms.self_play._buffer import Buffer, Outcomes, Sample
from hackmatrix_rl.env import Symmetry
from hackmatrix_rl.system.errors import share, whole
from hackmatrix_rl.training import (
    GradientStep,
    Learner,
    StepReport,
    check_capacity,
    mean_weights,
    scan_and_sum,
)
from hackmatrix_rl.training.sharding import Blocks, on_each_device


@dataclass(frozen=True)
class Sizes:
    """The sizes of an update; see `SelfPlay`. Whole numbers, at least 1."""

    game_batch_size: int
    moves_per_update: int
    buffer_size: int
    training_batch_size: int
    train_steps: int

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, whole(each.name, getattr(self, each.name)))
        check_capacity(
            self.buffer_size,
            game_batch_size=self.game_batch_size,
            moves_per_update=self.moves_per_update,
        )
        self.in_blocks.check(environments="games", samples="positions")

    @property
    def in_blocks(self) -> Blocks:
        """The blocks of games from which a batch is sampled."""
        return Blocks(
            "game_batch_size", self.game_batch_size, "training_batch_size", self.training_batch_size
        )

    @property
    def length(self) -> int:
        """Moves per game in the buffer, a multiple of `moves_per_update`."""
        moves = self.moves_per_update
        return self.buffer_size // (self.game_batch_size * moves) * moves


_SMALLEST = float(np.finfo(np.float32).tiny)


class Losses(eqx.Module):
    """Weighted means over the valid positions.

    The policy loss is the cross-entropy between the search policy and the network's policy. It and
    the entropies are in nats. The value loss is a squared error.
    """

    policy_loss: Float32[Array, "*steps"]
    value_loss: Float32[Array, "*steps"]
    entropy: Float32[Array, "*steps"]
    search_entropy: Float32[Array, "*steps"]


class SearchLoss(eqx.Module):
    """Cross-entropy to the search policy, plus `vf_coef` times the squared error of the value.

    Source: Silver et al. 2018, "A general reinforcement learning algorithm that masters chess,
    shogi, and Go through self-play"; of `surprise_weight`, Wu 2020, "Other methods implemented in
    KataGo" (policy surprise weighting); of `value_mix`, Willemsen, Baier and Kaisers 2022, "Value
    targets in off-policy AlphaZero: a new greedy backup".

    Attributes:
        vf_coef: weight of the value loss.
        surprise_weight: fraction of a position's weight that is proportional to `Found.surprise`,
            so positions in which the search disagrees most with the network weigh most. The
            weights have mean 1 over a batch.
        value_mix: fraction of `Found.expected` in the value target; the rest is the game's result.
            The search value has less variance than the result, but the bias of the network.
    """

    vf_coef: float = eqx.field(static=True, default=1.0)
    surprise_weight: float = eqx.field(static=True, default=0.0)
    value_mix: float = eqx.field(static=True, default=0.0)

    def __check_init__(self) -> None:
        if not self.vf_coef >= 0:
            raise ValueError(f"vf_coef must not be negative, but is {self.vf_coef}")
        for name in ("surprise_weight", "value_mix"):
            share(name, getattr(self, name))

    @property
    def keeps(self) -> tuple[str, ...]:
        """The fields of `OPTIONAL` that the loss needs."""
        wanted = {"expected": self.value_mix, "surprise": self.surprise_weight}
        return tuple(name for name, share in wanted.items() if share)

    def prepare(self, sample: Sample) -> tuple["SearchLoss", Sample]:
        """The loss, and the sample with weights whose mean over it is that over valid positions."""
        weight, policy_weight, value = sample.valid, sample.policy_weight, sample.value
        if sample.surprise is not None:
            mean = jnp.sum(weight * sample.surprise) / jnp.maximum(jnp.sum(weight), 1.0)
            relative = sample.surprise / jnp.maximum(mean, _SMALLEST)
            weight = weight * (1.0 - self.surprise_weight + self.surprise_weight * relative)
        if policy_weight is not None:
            policy_weight = _with_mean_1(weight * policy_weight)
        if sample.expected is not None:
            value = (1.0 - self.value_mix) * value + self.value_mix * sample.expected
        valid = mean_weights(weight) if sample.surprise is None else _with_mean_1(weight)
        return self, replace(sample, valid=valid, policy_weight=policy_weight, value=value)

    def __call__(
        self, policy: ActorCritic | Evaluator, sample: Sample
    ) -> tuple[Float32[Array, ""], Losses]:
        """The weighted mean over the positions, and its parts; positions not valid contribute 0."""
        evaluator = evaluator_of(policy)
        one_step = jax.tree.map(lambda leaf: leaf[None], sample.observation)
        carry, done = evaluator.policy.initial_carry(), jnp.zeros((1, sample.value.size), bool)
        logits, value = (leaf[0] for leaf in evaluator.unroll(one_step, carry, done))
        pi = MaskedCategorical(logits, sample.mask)
        weights = jnp.maximum(sample.weights, _SMALLEST)
        found = MaskedCategorical(jnp.log(weights), sample.mask)
        losses = Losses(
            policy_loss=pi.cross_entropy(sample.weights),
            value_loss=(value - sample.value) ** 2,
            entropy=pi.entropy(),
            search_entropy=found.entropy(),
        )
        by_policy = sample.valid if sample.policy_weight is None else sample.policy_weight
        by_field = Losses(by_policy, sample.valid, by_policy, by_policy)
        means = jax.tree.map(lambda weight, leaf: jnp.mean(weight * leaf), by_field, losses)
        return means.policy_loss + self.vf_coef * means.value_loss, means


def _with_mean_1(weights: Float32[Array, " positions"]) -> Float32[Array, " positions"]:
    """The weights, scaled to mean 1; 0 if all are 0."""
    total = jnp.sum(weights)
    return weights * (weights.size / jnp.where(total > 0, total, 1.0))


class LearnFromBuffer(eqx.Module):
    """Takes gradient steps on positions from the buffer; each device samples from its own games.

    `symmetry` augments the sampled positions; `None`: no augmentation.
    """

    loss: SearchLoss
    symmetry: Symmetry | None
    sizes: Sizes = eqx.field(static=True)

    def __call__(
        self,
        step: GradientStep,
        learner: Learner,
        buffer: Buffer,
        rate: Float32[Array, ""],
        key: Key[Array, ""],
    ) -> tuple[Learner, StepReport]:
        """The learner after the gradient steps of an update, and their report."""
        mesh, sizes = step.mesh, self.sizes
        outcomes = on_each_device(mesh, lambda buffer: buffer.outcomes(), (), buffer)

        def draw(symmetry: Symmetry | None, given: tuple[Buffer, Outcomes, Any]) -> Sample:
            buffer, outcomes, keys = given
            return buffer.draw(outcomes, sizes.in_blocks.of_each, symmetry, keys=keys)

        def descend(learner: Learner, number: Int32[Array, ""]) -> tuple[Learner, StepReport]:
            keys = jax.random.split(jax.random.fold_in(key, number), sizes.in_blocks.number)
            sample = on_each_device(mesh, draw, (self.symmetry,), (buffer, outcomes, keys))
            gradient, losses, _ = step.gradient(learner, self.loss, sample)
            active = jnp.any(sample.valid > 0)
            return step.apply(learner, gradient, losses, rate, active=active)

        steps = jnp.arange(sizes.train_steps, dtype=jnp.int32)
        return scan_and_sum(descend, learner, steps)
