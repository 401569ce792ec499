"""In which dtype a network computes, and how its gradient is taken under it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import jmp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent.precision._loss_scale import LossScale
from hackmatrix_rl.agent.precision._names import (
    parse_policy,
    path_matches,
)
from hackmatrix_rl.agent.precision._trainable import (
    parameter_paths,
    path_name,
    split_trainable,
)

M = TypeVar("M")
Aux = TypeVar("Aux")


class PrecisionPolicy(eqx.Module):
    """Mixed precision, as the collector, the loss and the trainer use it.

    Parameters are kept and optimized in float32. A network computes in the dtype of the
    parameters it is handed and returns float32 (see `ActorCritic`), so that casting the
    parameters is all there is to do. Logits, log-probabilities, advantages, losses and
    reductions are float32 under every policy.

    A custom policy must have `cast_to_compute`. One that scales losses also has
    `initial_scaling`, `adjust` and `loss_factor`; their defaults scale nothing.
    """

    @abstractmethod
    def cast_to_compute(self, module: M) -> M:
        """The module to compute with: its parameters cast, all else as it is."""

    def check(self, module: PyTree) -> None:
        """Raises a ValueError, before anything is compiled, if the policy does not suit it."""

    def initial_scaling(self) -> PyTree[Array]:
        """State of the loss scaling; `()` where losses are not scaled.

        It is part of the training state: array leaves are in the checkpoint.
        """
        return ()

    def adjust(self, scaling: PyTree[Array], finite: Bool[Array, ""]) -> PyTree[Array]:
        """The state of the loss scaling after a step whose gradient was finite or not."""
        return scaling

    def report(self, scaling: PyTree[Array]) -> Mapping[str, Float32[Array, ""]]:
        """What to log of the loss scaling, by name."""
        return {}

    def loss_factor(self, scaling: PyTree[Array]) -> Float32[Array, ""] | None:
        """What the loss is multiplied by before it is differentiated; `None`: nothing."""
        return None

    @final
    def grad(
        self,
        loss: Callable[..., tuple[Float32[Array, ""], Aux]],
        scaling: PyTree[Array] = (),
    ) -> Callable[..., tuple[Any, Aux]]:
        """A function that returns the gradient of `loss`, and what else `loss` returned.

        The cast to the compute dtype happens inside the differentiated function, so that the
        gradient arrives in the dtype of the parameters. The gradient is divided by the loss
        factor in float32. One that overflowed stays as it is: not finite, which the trainer
        sees.

        Args:
            loss: from a module and further arguments to a scalar and anything else.
            scaling: state of the loss scaling.

        Returns:
            A function of the same arguments. The gradient has the structure of the module,
            with `None` for what is no parameter (see `split_trainable`).
        """
        factor = self.loss_factor(scaling)

        def gradient(module: M, *arguments: Any) -> tuple[M, Aux]:
            parameters, rest = split_trainable(module)

            def of_parameters(parameters: M) -> tuple[Float32[Array, ""], Aux]:
                compute = self.cast_to_compute(eqx.combine(parameters, rest))
                value, aux = loss(compute, *arguments)
                return value if factor is None else factor * value, aux

            found: M
            found, aux = eqx.filter_grad(of_parameters, has_aux=True)(parameters)
            if factor is not None:
                found = jax.tree.map(lambda leaf: leaf / factor, found)
            return found, aux

        return gradient


class MixedPrecision(PrecisionPolicy):
    """A compute dtype for the network, and other dtypes for named parts of it.

    float16 anywhere brings a dynamic loss scale; float32 and bfloat16, which has the range of
    float32, need none.

    Source: Micikevicius et al. 2018, "Mixed precision training"; Kalamkar et al. 2019, "A
    study of bfloat16 for deep learning training".

    Attributes:
        dtypes: of parameters, computation and output.
        parts: pairs of a pattern of paths (`.heads.value*`) and what holds instead where it
            matches; the last match counts. See `path_matches`.
        growth_interval: finite steps in a row after which the loss scale grows.
    """

    dtypes: jmp.Policy = eqx.field(static=True)
    parts: tuple[tuple[str, jmp.Policy], ...] = eqx.field(static=True, default=())
    growth_interval: int = eqx.field(static=True, default=2000)

    @property
    def scales(self) -> bool:
        """Whether losses are scaled."""
        policies = [self.dtypes, *(policy for _, policy in self.parts)]
        return any(jnp.dtype(policy.compute_dtype) == jnp.float16 for policy in policies)

    def dtype_of(self, path: str) -> Any:
        """The compute dtype of the parameter at a path."""
        policies = [self.dtypes, *(p for pattern, p in self.parts if path_matches(pattern, path))]
        return jnp.dtype(policies[-1].compute_dtype)

    def cast_to_compute(self, module: M) -> M:
        """The module with its parameters in the compute dtype of their part."""
        parameters, rest = split_trainable(module)

        def cast(path: Any, leaf: Array) -> Array:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):  # complex
                return leaf
            return leaf.astype(self.dtype_of(path_name(path)))

        cast_parameters = jax.tree_util.tree_map_with_path(cast, parameters)
        combined: M = eqx.combine(cast_parameters, rest)
        return combined

    def check(self, module: PyTree) -> None:
        """Raises a ValueError for a pattern that matches nothing, or 16-bit parameters."""
        paths = parameter_paths(module)
        for pattern, _ in self.parts:
            if not any(path_matches(pattern, path) for path in paths):
                raise ValueError(
                    f"the pattern {pattern!r} matches no parameter of the network; its "
                    f"parameters are {_some(list(paths))}"
                )
        for path, leaf in paths.items():
            if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != jnp.float32:
                raise ValueError(f"parameters must be float32, but {path} is {leaf.dtype}")

    def initial_scaling(self) -> PyTree[Array]:
        """A `LossScale` where something computes in float16."""
        return LossScale(interval=self.growth_interval) if self.scales else ()

    def adjust(self, scaling: PyTree[Array], finite: Bool[Array, ""]) -> PyTree[Array]:
        """The loss scale after a step, where there is one."""
        return scaling.adjust(finite) if isinstance(scaling, LossScale) else scaling

    def report(self, scaling: PyTree[Array]) -> Mapping[str, Float32[Array, ""]]:
        """The loss scale, where there is one."""
        return {"loss_scale": scaling.scale} if isinstance(scaling, LossScale) else {}

    def loss_factor(self, scaling: PyTree[Array]) -> Float32[Array, ""] | None:
        """The loss scale, where there is one."""
        return scaling.scale if isinstance(scaling, LossScale) else None


def precision(name: str, parts: Mapping[str, str] | None = None) -> PrecisionPolicy:
    """The precision policy of that name.

    `f32`, `bf16` and `f16` compute in float32, bfloat16 and float16. Any policy string of jmp
    with float32 parameters and output does, too:
    `params=float32,compute=bfloat16,output=float32`.

    Args:
        name: of the policy.
        parts: names for parts of the network by pattern: `{".heads.value*": "f32"}`. A
            pattern is matched against the path of each parameter in the tree, with `*` and
            `?` as wildcards; the last match counts.

    Raises:
        ValueError: there is no such policy, or its parameters or output are not float32.
    """
    table = {} if parts is None else parts
    return MixedPrecision(
        parse_policy(name),
        tuple((pattern, parse_policy(policy)) for pattern, policy in table.items()),
    )


def _some(paths: list[str], most: int = 6) -> str:
    shown = ", ".join(paths[:most]) or "none"
    return f"{shown} and {len(paths) - most} more" if len(paths) > most else shown


FLOAT32 = precision("f32")
