"""Precision policies: the dtype in which a network computes, and its gradient."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import jmp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from hackmatrix_rl.agent.precision._parameters import (
    parameter_paths,
    parse_policy,
    path_matches,
    path_name,
    split_trainable,
)
from hackmatrix_rl.system.errors import counts


class LossScale(eqx.Module):
    """The factor on a loss that keeps its float16 gradient within float16's small range.

    In float16, gradients below 6e-8 vanish, and gradients above 65504 become infinite. The loss is
    multiplied by the scale before it is differentiated. The gradient is divided by the scale in
    float32. The scale grows by `factor` after `interval` finite steps in a row. If a gradient is
    not finite, the trainer skips its step and the scale shrinks by `factor`. The scale thus stays
    near the largest value that does not overflow.

    Source: Micikevicius et al. 2018, "Mixed precision training", with the constants of NVIDIA
    Apex.
    """

    scale: Float32[Array, ""]  #: The factor, a power of `factor`.
    streak: Int32[Array, ""]  #: Number of finite steps in a row since the scale last changed.
    #: Number of finite steps in a row after which the scale grows.
    interval: int = eqx.field(static=True)
    #: The factor by which the scale grows and shrinks. Powers of 2 avoid rounding.
    factor: float = eqx.field(static=True)
    floor: float = eqx.field(static=True)  #: The scale does not shrink below it.
    ceiling: float = eqx.field(static=True)  #: The scale does not grow above it.

    def __init__(
        self,
        initial: float = 2.0**15,
        *,
        interval: int = 2000,
        factor: float = 2.0,
        floor: float = 1.0,
        ceiling: float = 2.0**24,
    ) -> None:
        """Starts at the scale `initial`.

        Raises:
            ValueError: an argument is out of range.
        """
        counts(interval=interval)
        if factor <= 1:
            raise ValueError(f"factor must be greater than 1, not {factor}")
        if not 0 < floor <= initial <= ceiling:
            raise ValueError(
                "floor must be positive, and initial between floor and ceiling, not "
                f"{floor}, {initial} and {ceiling}"
            )
        self.scale = jnp.asarray(initial, jnp.float32)
        self.streak = jnp.zeros((), jnp.int32)
        self.interval = interval
        self.factor = factor
        self.floor = floor
        self.ceiling = ceiling

    def adjust(self, finite: Bool[Array, ""]) -> "LossScale":
        """The scale after a step whose gradient was finite or not."""
        streak = jnp.where(finite, self.streak + 1, 0)
        grows = streak >= self.interval
        larger = jnp.minimum(self.scale * self.factor, self.ceiling)
        smaller = jnp.maximum(self.scale / self.factor, self.floor)
        scale = jnp.where(finite, jnp.where(grows, larger, self.scale), smaller)
        return eqx.tree_at(
            lambda s: (s.scale, s.streak), self, (scale, jnp.where(grows, 0, streak))
        )


M = TypeVar("M")
Aux = TypeVar("Aux")


class PrecisionPolicy(eqx.Module):
    """The dtypes of a network, for the collector, the loss and the trainer.

    The trainer stores and optimizes parameters in float32. A policy only casts the parameters: a
    network casts its inputs to their dtype, and returns float32 (see `ActorCritic`).
    Logits, log-probabilities, advantages, losses and reductions are float32 under every policy.

    A custom policy must define `cast_to_compute`. A policy that scales losses returns a `LossScale`
    as `initial_scaling`, or also defines `adjust` and `loss_factor`. The defaults do not scale.
    """

    @abstractmethod
    def cast_to_compute(self, module: M) -> M:
        """Casts the parameters of a module to the compute dtype; everything else stays equal."""

    def check(self, module: PyTree) -> None:
        """Raises a ValueError if the policy does not fit the module. Called before compilation."""

    def initial_scaling(self) -> PyTree[Array]:
        """The initial state of the loss scaling; `()` for a policy that does not scale losses.

        It is part of the training state, so a checkpoint stores its arrays.
        """
        return ()

    def adjust(self, scaling: PyTree[Array], finite: Bool[Array, ""]) -> PyTree[Array]:
        """The state of the loss scaling after a step whose gradient was finite or not."""
        return scaling.adjust(finite) if isinstance(scaling, LossScale) else scaling

    def report(self, scaling: PyTree[Array]) -> Mapping[str, Float32[Array, ""]]:
        """Metrics of the loss scaling by name; by default a `LossScale`'s factor."""
        return {"loss_scale": scaling.scale} if isinstance(scaling, LossScale) else {}

    def loss_factor(self, scaling: PyTree[Array]) -> Float32[Array, ""] | None:
        """The factor on the loss before it is differentiated; `None` for no factor."""
        return scaling.scale if isinstance(scaling, LossScale) else None

    @final
    def grad(
        self, loss: Callable[..., tuple[Float32[Array, ""], Aux]], scaling: PyTree[Array] = ()
    ) -> Callable[..., tuple[Any, Aux]]:
        """A function that returns the gradient of `loss` and its auxiliary output.

        The cast to the compute dtype is part of the differentiated function, so the gradient has
        the dtype of the parameters. The gradient is divided by the loss factor in float32. A
        gradient that overflowed stays infinite or NaN, and the trainer skips the step.

        Args:
            loss: a function of a module and further arguments that returns a scalar and an
                auxiliary output.
            scaling: state of the loss scaling.

        Returns:
            A function of the same arguments. The gradient has the structure of the module, with
            `None` for everything that is not a parameter (see `split_trainable`).
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
    """A compute dtype for a network, with exceptions for parts of it.

    If any part computes in float16, the loss is scaled dynamically. float32 and bfloat16 need no
    loss scale: bfloat16 has the range of float32.

    Source: Micikevicius et al. 2018, "Mixed precision training"; Kalamkar et al. 2019, "A
    study of bfloat16 for deep learning training".
    """

    #: The dtypes of parameters, computation and output.
    dtypes: jmp.Policy = eqx.field(static=True)
    #: Pairs of a pattern (`.heads.value*`) and the policy for the parameters whose path it matches.
    #: The last match wins. See `path_matches`.
    parts: tuple[tuple[str, jmp.Policy], ...] = eqx.field(static=True, default=())
    #: Number of finite steps in a row after which the loss scale grows.
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
        parameters, rest = split_trainable(module)

        def cast(path: Any, leaf: Array) -> Array:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):  # complex
                return leaf
            return leaf.astype(self.dtype_of(path_name(path)))

        return eqx.combine(jax.tree.map_with_path(cast, parameters), rest)

    def check(self, module: PyTree) -> None:
        """Raises a ValueError for a pattern that matches nothing, or 16-bit parameters."""
        paths = parameter_paths(module)
        more = f" and {len(paths) - 6} more" if len(paths) > 6 else ""
        for pattern, _ in self.parts:
            if not any(path_matches(pattern, path) for path in paths):
                raise ValueError(
                    f"the pattern {pattern!r} matches no parameter of the network; its "
                    f"parameters are {', '.join(list(paths)[:6]) or 'none'}{more}"
                )
        for path, leaf in paths.items():
            if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != jnp.float32:
                raise ValueError(f"parameters must be float32, but {path} is {leaf.dtype}")

    def initial_scaling(self) -> PyTree[Array]:
        """A `LossScale` if any part computes in float16, else `()`."""
        return LossScale(interval=self.growth_interval) if self.scales else ()


def precision(name: str, parts: Mapping[str, str] | None = None) -> PrecisionPolicy:
    """Returns a precision policy by name.

    `f32`, `bf16` and `f16` compute in float32, bfloat16 and float16. A name may also be a policy
    string of jmp with float32 parameters and output:
    `params=float32,compute=bfloat16,output=float32`.

    Args:
        name: name of the policy.
        parts: other policies for parts of the network, by pattern: `{".heads.value*": "f32"}`. A
            pattern must match the full path of a parameter. `*` and `?` are wildcards. The last
            match wins.

    Raises:
        ValueError: the name is unknown, or its parameters or output are not float32.
    """
    table = (parts or {}).items()
    return MixedPrecision(
        parse_policy(name), tuple((pattern, parse_policy(policy)) for pattern, policy in table)
    )


FLOAT32 = precision("f32")

_PRODUCTS = ("dot_general", "conv_general_dilated")
_MOVES = (
    *("convert_element_type", "transpose", "reshape", "squeeze", "broadcast_in_dim", "copy"),
    *("slice", "dynamic_slice", "rev"),
)
"""Operations that preserve the numbers of an array, up to rounding."""


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of all jaxprs nested in it."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield equation
        for inner in programs_within(equation):
            yield from equations(inner)


def programs_within(equation: Any) -> Iterator[Any]:
    """The programs that an equation of a traced program runs: the branches of a condition, say."""
    for parameter in equation.params.values():
        for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield inner


def weights_in_products(
    jaxpr: Any, names: Sequence[str]
) -> Mapping[str, AbstractSet[np.dtype[Any]]]:
    """The operand dtypes of the matrix products and convolutions that use each input of a jaxpr.

    `names` are the names of its first inputs. An input is followed through operations that change
    only its dtype and shape.
    """
    found: dict[str, set[np.dtype[Any]]] = {name: set() for name in names}

    def follow(jaxpr: Any, given: Sequence[str | None]) -> list[str | None]:
        """Records the products of a jaxpr with these inputs; returns the names of its outputs."""
        program = getattr(jaxpr, "jaxpr", jaxpr)
        known = dict(zip(program.invars, given, strict=False))

        def name_of(value: Any) -> str | None:
            return None if hasattr(value, "val") else known.get(value)  # a literal has a value

        for equation in program.eqns:
            names = [name_of(value) for value in equation.invars]
            if equation.primitive.name in _PRODUCTS:
                for name in filter(None, names):
                    found[name] |= {value.aval.dtype for value in equation.invars}
            elif equation.primitive.name in _MOVES:
                known[equation.outvars[0]] = names[0]
            for each in equation.params.values():
                if hasattr(each, "eqns") or hasattr(each, "jaxpr"):
                    takes = len(getattr(each, "jaxpr", each).invars)
                    results = follow(each, names[len(names) - takes :])
                    known |= zip(equation.outvars, results, strict=False)
        return [name_of(value) for value in program.outvars]

    follow(jaxpr, names)
    return found


def products(jaxpr: Any) -> list[tuple[np.dtype[Any], ...]]:
    """The operand dtypes of each matrix product and convolution in a jaxpr."""
    return [
        tuple(value.aval.dtype for value in equation.invars)
        for equation in equations(jaxpr)
        if equation.primitive.name in _PRODUCTS
    ]
