"""The learner of every algorithm, and one step of gradient descent."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import REMAT, ActorCritic, rematerialized
from hackmatrix_rl.agent.precision import PrecisionPolicy, parameters_of, path_name, split_trainable
from hackmatrix_rl.system.errors import finite
from hackmatrix_rl.training._optimizer import UnitRate
from hackmatrix_rl.training._report import StepReport
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    ByBlock,
    by_block,
    check_offload,
    constrain,
    devices_of_one,
    fsdp_shardings,
    move,
    on_each_device,
    on_host,
    replicated_shardings,
    specs_of,
)

B = TypeVar("B", bound=eqx.Module)


@runtime_checkable
class PreparedLoss(Protocol):
    """A loss that must see a whole batch before it is cut into parts."""

    def prepare(self, batch: Any) -> "tuple[Loss, Any]":
        """A loss and a batch for which the mean over equal parts equals the loss of the whole."""
        ...

    def __call__(self, policy: Any, batch: Any, *context: Any) -> tuple[Any, ...]:
        """The loss of a policy on a batch, as `Loss`."""
        ...


Loss = PreparedLoss | Callable[..., tuple[Any, ...]]
"""A function of an evaluator of the policy, a batch and perhaps a context. It returns a scalar, a
tree of scalars to report, and perhaps a tree of arrays with one entry for each sample."""


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

    The loss of a batch must be the mean over its samples or environments. A loss with `prepare`
    is cut over the devices of the mesh: each takes the gradient on its own samples, and the
    gradients are averaged once, in float32 (those of gathered blocks along `fsdp` in each part). A
    loss without `prepare` may look at the whole batch at once; then the compiler decides about the
    communication, and `grad_accum` gives the loss one part after another.

    Attributes:
        optimizer: turns a gradient into a change of the parameters.
        precision: the dtypes of the network's computation, and the scaling of the loss.
        mesh: the devices that share the batch, and perhaps the parameters, which are gathered for
            the computation: block by block if the network has blocks, unless `remat` is `full`.
        grad_accum: number of equal parts of each device's samples. Their gradients are computed
            one after another, and averaged in float32.
        remat: the parts of the network to recompute (see `rematerialized`).
        offload: whether the optimizer's state lies in the host's memory between two steps.
        ema: decay of the exponential moving average of the parameters, which `Learner.played` has;
            `None` for no average. It starts at the first parameters.

    Raises:
        TypeError: `ema` is no number.
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
        by_device = devices_of_one(self.mesh) > 1 and isinstance(loss, PreparedLoss)
        if isinstance(loss, PreparedLoss):
            loss, batch = loss.prepare(batch)
        given = (self.mesh, loss, learner.policy, learner.scaling, context)
        if not by_device:
            (gradient, metrics), samples = self._accumulate(*given, batch)
        else:
            # A loop over steps around the blocks would gather them in each step.
            blocks = None if self.remat == "full" else by_block(self.mesh, learner.policy)
            cut: Any = REPLICATED
            sums: Any = BY_ENVIRONMENT
            if blocks is not None:
                cut = (REPLICATED, blocks.policy, REPLICATED, REPLICATED)
                sums = (blocks.gradient, BY_ENVIRONMENT)

            def on_one(loss: Loss, policy: Any, scaling: Any, context: Any, fields: Any) -> Any:
                own = type(batch)(**fields)
                means, samples = self._accumulate(None, loss, policy, scaling, context, own, blocks)
                return jax.tree.map(lambda leaf: leaf[None], means), samples

            means, samples = on_each_device(
                self.mesh,
                on_one,
                given[1:],
                vars(batch),
                cut=cut,
                takes=specs_of(_sample_axes(batch)),
                returns=(sums, BY_ENVIRONMENT),
            )
            gradient, metrics = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), means)
        return constrain(gradient, fsdp_shardings(self.mesh, gradient)), metrics, samples

    def _accumulate(
        self,
        mesh: Mesh | None,
        loss: Loss,
        policy: ActorCritic,
        scaling: PyTree[Array],
        context: tuple[Any, ...],
        batch: eqx.Module,
        blocks: ByBlock | None = None,
    ) -> tuple[tuple[Any, Any], list[Any]]:
        """The mean gradient and metrics over the parts, and the arrays of the samples."""

        def evaluate(policy: ActorCritic, batch: eqx.Module) -> tuple[Any, tuple[Any, list[Any]]]:
            if mesh is not None:  # after the cast, because 16 bits are less to send
                policy = constrain(policy, replicated_shardings(mesh, policy))
            if blocks is not None:
                policy = blocks.gathering(policy, twice=self.remat == "none")
            value, metrics, *samples = loss(rematerialized(policy, self.remat), batch, *context)
            return value, (metrics, samples)

        gradient_of = self.precision.grad(evaluate, scaling)

        def on_part(batch: eqx.Module) -> tuple[tuple[Any, Any], list[Any]]:
            gradient, (metrics, samples) = gradient_of(policy, batch)
            return (gradient, metrics), samples

        if self.grad_accum == 1:
            return on_part(batch)

        def add(sums: Any, part: Int32[Array, ""]) -> tuple[Any, list[Any]]:
            (gradient, metrics), samples = on_part(part_of(batch, part, self.grad_accum))
            if mesh is not None:  # with cut parameters, each device adds up only its part
                gradient = constrain(gradient, fsdp_shardings(mesh, gradient))
            return jax.tree.map(jnp.add, sums, (gradient, metrics)), samples

        shapes, _ = eqx.filter_eval_shape(on_part, part_of(batch, 0, self.grad_accum))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        parts = jnp.arange(self.grad_accum, dtype=jnp.int32)
        sums, samples = jax.lax.scan(add, nothing, parts)
        means: tuple[Any, Any] = jax.tree.map(lambda leaf: leaf / self.grad_accum, sums)
        # `part_of` deals the samples out in turns.
        return means, jax.tree.map(
            lambda leaf: jnp.swapaxes(leaf, 0, 1).reshape(-1, *leaf.shape[2:]), samples
        )

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
            include: whether to report the metrics; by default those of an active step.
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

    def reported_rate(
        self, learner: Learner, rate: Float32[Array, ""]
    ) -> dict[str, Float32[Array, ""]]:
        """The learning rate of the last step as a metric, `learning_rate`.

        Args:
            learner: after the step.
            rate: factor on the optimizer's change.

        Returns:
            Empty where only the optimizer knows its rate: it keeps none in its state, as
            `optax.inject_hyperparams` does, or several.
        """
        if isinstance(self.optimizer, UnitRate):
            return {"learning_rate": rate}
        own = [
            leaf
            for path, leaf in jax.tree.leaves_with_path(learner.optimizer_state)
            if path_name(path).endswith(".hyperparams['learning_rate']")
        ]
        return {"learning_rate": rate * own[0].astype(jnp.float32)} if len(own) == 1 else {}

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


def mean_weights(valid: Float32[Array, " samples"]) -> Float32[Array, " samples"]:
    """Weights whose mean with any values is the mean over the valid samples; 0 without one.

    `valid` is 1 for each valid sample, 0 for the others.
    """
    return valid * (valid.size / jnp.maximum(jnp.sum(valid), 1.0))


def part_of(batch: B, part: Int32[Array, ""] | int, parts: int) -> B:
    """One of several equal parts of a batch, from 0: only every `parts`-th sample.

    If the samples are cut over devices in blocks, each device has its share of every part, and
    nothing moves. Raises a ValueError if the samples do not divide into equal parts.
    """

    def pick(leaf: Array, axis: int) -> Array:
        size = leaf.shape[axis]
        if size % parts:
            raise ValueError(f"{size} samples of a batch do not divide into {parts} parts")
        apart = leaf.reshape(*leaf.shape[:axis], size // parts, parts, *leaf.shape[axis + 1 :])
        return jax.lax.dynamic_index_in_dim(apart, part, axis=axis + 1, keepdims=False)

    picked = {
        name: jax.tree.map(partial(pick, axis=axis), getattr(batch, name))
        for name, axis in _sample_axes(batch).items()
        if axis is not None
    }
    return replace(batch, **picked)


def _sample_axes(batch: Any) -> dict[str, int | None]:
    """The axis of samples of each field; `None` for a field without this axis."""
    if hasattr(batch, "environment_axes"):
        return batch.environment_axes()
    return dict.fromkeys(vars(batch), 0)


def learner_shardings(
    mesh: Mesh, learner: Learner, *, offload: bool = False
) -> PyTree[NamedSharding]:
    """The shardings of a learner between two gradient steps; `None` for what is no array.

    `offload` puts the optimizer's state into the hosts' memory.
    """
    shardings = fsdp_shardings(mesh, learner)
    if not offload:
        return shardings
    return eqx.tree_at(
        lambda learner: learner.optimizer_state,
        shardings,
        on_host(shardings.optimizer_state, learner.optimizer_state),
    )


def is_value_head(name: str) -> bool:
    """Whether the parameter with this name (see `path_name`) belongs only to the value head."""
    return name.startswith(VALUE_HEAD)
