"""The learner of every algorithm, and one step of gradient descent."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import REMAT, ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameters_of, split_trainable
from hackmatrix_rl.system.errors import finite
from hackmatrix_rl.training._mean_gradient import Loss, MeanGradient
from hackmatrix_rl.training._report import StepReport
from hackmatrix_rl.training._state_shardings import learner_shardings
from hackmatrix_rl.training.sharding import check_offload, constrain, fsdp_shardings, move

VALUE_HEAD = ".heads.value"
"""Where the names of the value head's parameters begin."""


class Learner(eqx.Module):
    """The policy, and the state that changes with it.

    Attributes:
        policy: the network, its parameters in float32.
        optimizer_state: of the optimizer, for the policy's parameters.
        value_scale: units of the network's value.
        scaling: state of the loss scaling; `()` without one.
        skipped: gradient steps that were not taken because a gradient was not finite.
        average: exponential moving averages of the policy's parameters, in its structure; `None`
            if the gradient step keeps none.
    """

    policy: ActorCritic
    optimizer_state: PyTree[Array]
    value_scale: ValueScale
    scaling: PyTree[Array]
    skipped: Int32[Array, ""]
    average: PyTree[Array] | None = None

    @property
    def played(self) -> ActorCritic:
        """The policy to evaluate and to play: with the averages in place of the parameters."""
        if self.average is None:
            return self.policy
        _, rest = split_trainable(self.policy)
        averaged: ActorCritic = eqx.combine(self.average, rest)
        return averaged


class GradientStep(eqx.Module):
    """Computes the gradient of a loss, and applies it with an optimizer.

    `MeanGradient` says what a loss must be, and how several devices share a batch.

    Attributes:
        optimizer: maps a gradient to changes of the parameters.
        precision: the dtypes of the network's computation, and the loss scaling.
        mesh: the devices that share the batch, and the parameters along `fsdp`. These are gathered
            for the computation: block by block if the network has blocks, unless `remat` is `full`.
        grad_accum: number of equal parts of each device's samples. Their gradients are computed
            sequentially and averaged in float32.
        remat: the parts of the network to recompute (see `rematerialized`).
        offload: whether the optimizer's state is in host memory between two steps.
        ema: decay of the exponential moving average of the parameters (`Learner.played`), which
            starts at the initial parameters; `None` for no average.

    Raises:
        TypeError: `ema` is not a number.
        ValueError: `grad_accum`, `remat` or `ema` is out of range, or the devices cannot offload.
    """

    optimizer: optax.GradientTransformation = eqx.field(static=True)
    precision: PrecisionPolicy
    mesh: Mesh = eqx.field(static=True)
    grad_accum: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")
    offload: bool = eqx.field(static=True, default=False)
    ema: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.grad_accum < 1:
            raise ValueError(f"grad_accum must be at least 1, not {self.grad_accum}")
        if self.remat not in REMAT:
            raise ValueError(f"unknown remat {self.remat!r}; choose one of {', '.join(REMAT)}")
        if self.ema is not None and not 0 < finite("ema", self.ema) < 1:
            raise ValueError(f"ema must be between 0 and 1 (0.999, say), not {self.ema}")
        if self.offload:
            check_offload(self.mesh.local_devices[0])

    def init(self, policy: ActorCritic, value_scale: ValueScale) -> Learner:
        """The learner before the first step, from a policy and the units of its value."""
        parameters = parameters_of(policy)
        return Learner(
            policy=policy,
            optimizer_state=self.optimizer.init(parameters),
            value_scale=value_scale,
            scaling=self.precision.initial_scaling(),
            skipped=jnp.zeros((), jnp.int32),
            # A copy: the state is donated, and no array may be in it twice.
            average=None if self.ema is None else jax.tree.map(jnp.copy, parameters),
        )

    def gradient(
        self, learner: Learner, loss: Loss, batch: eqx.Module, *context: Any
    ) -> tuple[Any, Any, list[Any]]:
        """The gradient of a loss on a batch.

        Args:
            learner: has the policy, its parameters in float32.
            loss: the loss.
            batch: the samples. Where `environment_axes` does not say otherwise, each array has
                them along its first axis.
            context: further arguments of the loss, whole on each device.

        Returns:
            The gradient in the structure of the policy, the metrics of the loss, and its arrays
            with one entry for each sample.

        Raises:
            ValueError: the samples do not divide into equal parts.
        """
        mean = MeanGradient(self.precision, self.mesh, self.grad_accum, self.remat)
        return mean(loss, learner.policy, learner.scaling, batch, context)

    def apply(
        self,
        learner: Learner,
        gradient: PyTree[Array],
        metrics: PyTree[Array],
        rate: Float32[Array, ""],
        *,
        active: Bool[Array, ""],
        include: Bool[Array, ""] | None = None,
        trained: PyTree[Bool[Array, ""]] | None = None,
    ) -> tuple[Learner, StepReport]:
        """The learner after a gradient step. A gradient that is not finite changes no parameter.

        Args:
            learner: before the step.
            gradient: what `gradient` returned.
            metrics: its metrics.
            rate: factor on the optimizer's change.
            active: whether to take the step; if not, only the loss scale may change.
            include: whether to report the metrics; by default if the step is active.
            trained: for each parameter, whether it changes, in the structure of the gradient.
                The optimizer sees the whole gradient all the same: its averages must not start
                from 0 when the rest follows. `None`: all change.
        """
        norm = optax.tree.norm(gradient)
        is_finite = jnp.isfinite(norm)
        applied, skipped = active & is_finite, (active & ~is_finite).astype(jnp.int32)
        measured = applied if include is None else include & is_finite

        before = self._with_optimizer_state(learner, offload=False)
        # Optax relies on implicit promotion of dtypes, which our own code does not.
        with jax.numpy_dtype_promotion("standard"):
            change, optimizer_state = self.optimizer.update(
                gradient, before.optimizer_state, parameters_of(before.policy)
            )
        if trained is not None:
            change = jax.tree.map(lambda own, leaf: jnp.where(own, leaf, 0.0), trained, change)
        change = jax.tree.map(lambda leaf: jnp.where(applied, rate * leaf, 0.0), change)
        policy = eqx.apply_updates(before.policy, change)
        after = Learner(
            policy=policy,
            optimizer_state=jax.tree.map(
                partial(jnp.where, applied), optimizer_state, before.optimizer_state
            ),
            value_scale=before.value_scale,
            scaling=self.precision.adjust(before.scaling, is_finite),
            skipped=before.skipped + skipped,
            average=self._averaged(before.average, policy, applied),
        )
        after = constrain(after, fsdp_shardings(self.mesh, after))
        after = self._with_optimizer_state(after, offload=True)

        # Not a product: what is left out may be NaN.
        metrics, norm = jax.tree.map(lambda leaf: jnp.where(measured, leaf, 0), (metrics, norm))
        counts = measured.astype(jnp.int32), applied.astype(jnp.int32), skipped
        return after, StepReport(metrics, norm, *counts)

    def _averaged(
        self, average: PyTree[Array] | None, policy: ActorCritic, applied: Bool[Array, ""]
    ) -> PyTree[Array] | None:
        """The averages after a step, if it was taken."""
        if self.ema is None:
            return average
        share = jnp.where(applied, jnp.float32(1.0 - self.ema), 0.0)
        return jax.tree.map(
            lambda mean, now: mean + share * (now - mean), average, parameters_of(policy)
        )

    def _with_optimizer_state(self, learner: Learner, *, offload: bool) -> Learner:
        """The learner with the optimizer's state on the host, or on the device."""
        if not self.offload:
            return learner
        where = learner_shardings(self.mesh, learner, offload=offload).optimizer_state
        moved = move(learner.optimizer_state, where)
        return eqx.tree_at(lambda x: x.optimizer_state, learner, moved)


def is_value_head(name: str) -> bool:
    """Whether the parameter with this name (see `path_name`) belongs only to the value head."""
    return name.startswith(VALUE_HEAD)
