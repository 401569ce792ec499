"""The gradient of a loss on a minibatch, with more or less memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float32, Int32, PyTree

from hackmatrix_rl.agent import Batch
from hackmatrix_rl.agent.networks import (
    REMAT,
    ActorCritic,
    Evaluator,
    rematerialized,
)
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.training._one_by_one import add_up
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    constrain,
    fsdp_shardings,
    replicated_shardings,
    specs_of,
)


@runtime_checkable
class PreparedLoss(Protocol):
    """A loss that must see a whole minibatch before it is cut into parts.

    A loss without `prepare` gets one part after another, so it normalises over a part.
    """

    def prepare(self, batch: Batch) -> "tuple[Loss, Batch]":
        """A loss and a batch for which the mean over equal parts equals the loss of the whole."""
        ...

    def __call__(self, policy: Evaluator, batch: Batch) -> tuple[Float32[Array, ""], PyTree[Array]]:
        """The loss of a policy on a whole batch."""
        ...


Loss = PreparedLoss | Callable[[Evaluator, Batch], tuple[Float32[Array, ""], PyTree[Array]]]


class MinibatchGradient(eqx.Module):
    """Takes the gradient of a loss on a minibatch.

    On a mesh, each device takes the gradient of its own environments (perhaps in parts),
    and the gradients are averaged once, in float32. A loss without `prepare` may use the whole
    minibatch at once; then the compiler decides about the communication.

    Attributes:
        loss: the loss.
        precision: the dtypes of the network's computation.
        parts: number of equal parts of the minibatch, cut along its environments. Their
            gradients are computed one after another and averaged in float32.
        remat: the parts of the network to recompute (see `rematerialized`).
        mesh: the devices that share the minibatch, and perhaps the parameters, which are
            gathered for the computation. `None`: one device.
    """

    loss: Loss
    precision: PrecisionPolicy
    parts: int = eqx.field(static=True, default=1)
    remat: str = eqx.field(static=True, default="none")
    mesh: Mesh | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, not {self.parts}")
        if self.remat not in REMAT:
            raise ValueError(f"unknown remat {self.remat!r}; choose one of {', '.join(REMAT)}")

    def __call__(
        self, policy: ActorCritic, batch: Batch, scaling: PyTree[Array]
    ) -> tuple[Any, PyTree[Array]]:
        """The gradient, in the structure of the policy, and the metrics of the loss.

        Args:
            policy: the policy with parameters in float32.
            batch: the minibatch.
            scaling: state of the loss scaling.

        Raises:
            ValueError: the minibatch does not divide into equal parts.
        """
        if not isinstance(self.loss, PreparedLoss):
            return self._in_parts(self.loss, policy, batch, scaling)
        loss, batch = self.loss.prepare(batch)
        if self.mesh is None or self.mesh.size == 1:
            return self._in_parts(loss, policy, batch, scaling)

        arrays, code = eqx.partition((loss, policy, scaling), eqx.is_array)

        def on_one(arrays: Any, fields: dict[str, Any]) -> Any:
            loss, policy, scaling = eqx.combine(arrays, code)
            found = replace(self, mesh=None)._in_parts(loss, policy, Batch(**fields), scaling)
            return jax.tree.map(lambda leaf: leaf[None], found)

        fields = vars(batch)
        found = jax.shard_map(
            on_one,
            mesh=self.mesh,
            in_specs=(
                REPLICATED,
                specs_of(batch.environment_axes()),
            ),
            out_specs=BY_ENVIRONMENT,  # one after another, like the environments
            check_vma=False,
        )(arrays, fields)
        mean: tuple[Any, PyTree[Array]] = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), found)
        return mean

    def _in_parts(
        self, loss: Loss, policy: ActorCritic, batch: Batch, scaling: PyTree[Array]
    ) -> tuple[Any, PyTree[Array]]:
        """The mean over the parts."""

        def evaluate(policy: ActorCritic, batch: Batch) -> tuple[Float32[Array, ""], PyTree[Array]]:
            if self.mesh is not None:  # after the cast, because 16 bits are less to send
                policy = constrain(policy, replicated_shardings(self.mesh, policy))
            return loss(rematerialized(policy, self.remat), batch)

        gradient = self.precision.grad(evaluate, scaling)
        if self.parts == 1:
            return gradient(policy, batch)

        def of_part(part: Int32[Array, ""]) -> tuple[tuple[Any, PyTree[Array]], None]:
            found, metrics = gradient(policy, part_of(batch, part, self.parts))
            if self.mesh is not None:  # with cut parameters, each device adds up only its part
                found = constrain(found, fsdp_shardings(self.mesh, found))
            return (found, metrics), None

        sums, _ = add_up(of_part, jnp.arange(self.parts, dtype=jnp.int32))
        mean: tuple[Any, PyTree[Array]] = jax.tree.map(lambda leaf: leaf / self.parts, sums)
        return mean


def part_of(batch: Batch, part: Int32[Array, ""] | int, parts: int) -> Batch:
    """One of several equal parts of a batch: only every `parts`-th environment.

    If the environments are cut over devices in blocks, each device has its share of every part,
    and nothing moves.

    Args:
        batch: the batch.
        part: number of the part, from 0.
        parts: number of parts.

    Raises:
        ValueError: the environments do not divide into equal parts.
    """

    def take(leaf: Array, axis: int) -> Array:
        size = leaf.shape[axis]
        if size % parts:
            raise ValueError(f"{size} environments of a minibatch do not divide into {parts} parts")
        apart = leaf.reshape(*leaf.shape[:axis], size // parts, parts, *leaf.shape[axis + 1 :])
        return jax.lax.dynamic_index_in_dim(apart, part, axis=axis + 1, keepdims=False)

    return batch.along_environments(take)
