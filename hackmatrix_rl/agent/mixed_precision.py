"""In which dtype a network computes, and how its gradient is taken under it."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jmp
from jaxtyping import Array, Bool, Float32, PyTree

M = TypeVar("M")
Aux = TypeVar("Aux")


class PrecisionPolicy(eqx.Module):
    """The face that the collector, the loss and the trainer see of mixed precision.

    Parameters are kept and optimized in float32. A network computes in the dtype of the
    parameters it is handed and returns float32 (see `ActorCritic`), so that casting the
    parameters is all there is to do. Logits, log-probabilities, advantages, losses and
    reductions are float32 under every policy.
    """

    @abstractmethod
    def cast_to_compute(self, module: M) -> M:
        """The module to compute with: its floating-point arrays cast, all else as it is."""

    @abstractmethod
    def initial_scaling(self) -> PyTree[Array]:
        """State of the loss scaling; `()` where losses are not scaled."""

    @abstractmethod
    def grad(
        self,
        loss: Callable[..., tuple[Float32[Array, ""], Aux]],
        scaling: PyTree[Array] = (),
    ) -> Callable[..., tuple[Any, Aux]]:
        """A function that returns the gradient of `loss`, and what else `loss` returned.

        The cast to the compute dtype happens inside the differentiated function, so that the
        gradient arrives in the dtype of the parameters.

        Args:
            loss: from a module and further arguments to a scalar and anything else.
            scaling: state of the loss scaling.

        Returns:
            A function of the same arguments. The gradient has the structure of the module,
            with `None` for what is no floating-point array.
        """

    @abstractmethod
    def adjust(self, scaling: PyTree[Array], finite: Bool[Array, ""]) -> PyTree[Array]:
        """The state of the loss scaling after a step whose gradient was finite or not."""


class UnscaledPrecision(PrecisionPolicy):
    """One compute dtype for the whole network, and no loss scaling.

    Enough for float32 and for bfloat16, whose range is that of float32.

    Source: Micikevicius et al. 2018, "Mixed precision training"; Kalamkar et al. 2019, "A
    study of bfloat16 for deep learning training".

    Attributes:
        dtypes: of parameters, computation and output.
    """

    dtypes: jmp.Policy = eqx.field(static=True)

    def cast_to_compute(self, module: M) -> M:
        """The module with its floating-point arrays in the compute dtype."""
        cast: M = self.dtypes.cast_to_compute(module)
        return cast

    def initial_scaling(self) -> tuple[()]:
        """Nothing: losses are not scaled."""
        return ()

    def grad(
        self,
        loss: Callable[..., tuple[Float32[Array, ""], Aux]],
        scaling: PyTree[Array] = (),
    ) -> Callable[..., tuple[Any, Aux]]:
        """The gradient of `loss` computed under this policy."""

        def cast_loss(module: Any, *arguments: Any) -> tuple[Float32[Array, ""], Aux]:
            return loss(self.cast_to_compute(module), *arguments)

        return eqx.filter_grad(cast_loss, has_aux=True)

    def adjust(self, scaling: PyTree[Array], finite: Bool[Array, ""]) -> PyTree[Array]:
        """Nothing to adjust."""
        return scaling


# The output is named: jmp lets it follow the compute dtype otherwise.
POLICIES = {
    "f32": "params=float32,compute=float32,output=float32",
    "bf16": "params=float32,compute=bfloat16,output=float32",
}


def precision(name: str) -> PrecisionPolicy:
    """The precision policy of that name: `f32` or `bf16`.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in POLICIES:
        raise ValueError(f"unknown precision {name!r}; choose one of {', '.join(POLICIES)}")
    return UnscaledPrecision(jmp.get_policy(POLICIES[name]))


FLOAT32 = precision("f32")
