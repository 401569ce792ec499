"""The interface of a network to the rest of the package."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree

from hackmatrix_rl.agent.networks._compute_dtype import in_compute_dtype


class ActorCritic(eqx.Module):
    """A policy and a value estimate over one observation, with or without memory.

    Both methods work on ONE environment; callers use `jax.vmap`. An `Evaluator` applies a network
    to batches and sequences (see `evaluator_of`).

    A network computes in the dtype of its parameters, so a cast of the parameters casts the
    computation (see `PrecisionPolicy`). The class sees to it that `__call__` follows jmp's rule.
    If the parameters are bfloat16 or float16, then so are the features of `EnvSpec.encode` and, in
    a network without it, the observation. Logits and value become float32.

    The carry is float32 for every dtype of the parameters: it lives for many steps, and the
    rounding errors of 16 bits would add up. A layer that reads it should get
    `carry.astype(features.dtype)`.

    The value is in the units of the `ValueScale` that the network is trained with. Only with
    `IdentityScale` these are units of reward.

    A class that is marked `typing.final` cannot be subclassed, and a final method cannot be
    overridden. So a network runs the same code when it acts and when it learns.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Applies jmp's rule to `__call__`.

        Refuses a subclass of a final class, and a method that overrides a final one.
        """
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if vars(base).get("__final__", False):
                raise TypeError(
                    f"{cls.__name__}: {base.__name__} is final, so that it learns by the function "
                    f"that it acts by. Wrap it (an ActorCritic with a {base.__name__} in one of "
                    "its fields), or write an ActorCritic or a TrunkActorCritic"
                )
            for name in vars(base):
                method = getattr(base, name)
                if getattr(method, "__final__", False) and getattr(cls, name) is not method:
                    raise TypeError(
                        f"{cls.__name__}.{name}: {base.__name__}.{name} is final. Write the "
                        f"abstract methods of {base.__name__} instead, or an ActorCritic, which "
                        "has its own __call__"
                    )
        call = vars(cls).get("__call__")
        # The final one calls a trunk, to which an evaluator applies the rule. To mypy, a method
        # cannot be assigned.
        if call is not None and not getattr(call, "__final__", False):
            cls.__call__ = in_compute_dtype(call)  # type: ignore[method-assign]

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode. The default `()` means no memory."""
        return ()

    @abstractmethod
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Evaluates one observation.

        Args:
            observation: one observation with the shapes of `EnvSpec.observation`.
            carry: the carry that the last call returned, or `initial_carry()`.

        Returns:
            The logits of all actions, including illegal ones; the value; and the next carry.
        """


def reset_carry(
    carry: PyTree[Array], initial: PyTree[Array], ended: Bool[Array, " batch"]
) -> PyTree[Array]:
    """The carries of a batch, reset to `initial` where an episode ended.

    Args:
        carry: the carries; each leaf `[batch, ...]`.
        initial: the initial carry, without the batch axis.
        ended: whether the episode of each environment ended.
    """

    def choose(leaf: Array, first: Array) -> Array:
        where = ended.reshape(-1, *(1 for _ in first.shape))
        return jnp.where(where, first[None], leaf)

    return jax.tree.map(choose, carry, initial)
