"""How an algorithm optimizes: optimizer, learning rate, precision, memory, devices."""

import inspect
from typing import Any, TypedDict

import equinox as eqx
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float32

from hackmatrix_rl.agent import Schedule, check_policy_shapes, precision_of
from hackmatrix_rl.agent.networks import ActorCritic, rematerialized
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.system.errors import instance, similar, whole
from hackmatrix_rl.training._gradient_step import GradientStep, Learner
from hackmatrix_rl.training._optimizer import optimizer_of, reported_rate
from hackmatrix_rl.training.sharding import mesh_of


class OptimizationArguments(TypedDict, total=False):
    """The arguments of `Optimization`, which every algorithm also takes as its own."""

    optimizer: optax.GradientTransformation | None
    learning_rate: float | Schedule | optax.Schedule | None
    precision: PrecisionPolicy | str
    grad_accum: int
    remat: str
    offload_optimizer: bool
    ema: float | None
    mesh: Mesh | str | None


class Optimization(GradientStep):
    """Optimizer, learning rate, precision, memory and devices of an algorithm.

    Every algorithm takes one, or its arguments:

        settings = hm.Optimization(learning_rate=1e-3, precision="bf16", ema=0.999)
        hm.PPO(environment, policy, optimization=settings)
        hm.PPO(environment, policy, learning_rate=1e-3, precision="bf16", ema=0.999)

    Attributes:
        learning_rate: factor on the optimizer's changes, a schedule.
    """

    learning_rate: Schedule = eqx.field(kw_only=True)

    def __init__(
        self,
        optimizer: optax.GradientTransformation | None = None,
        learning_rate: float | Schedule | optax.Schedule | None = None,
        *,
        precision: PrecisionPolicy | str = FLOAT32,
        grad_accum: int = 1,
        remat: str = "none",
        offload_optimizer: bool = False,
        ema: float | None = None,
        mesh: Mesh | str | None = None,
    ) -> None:
        """Checks the arguments, and finds the devices.

        Args:
            optimizer: an optimizer of optax with its own learning rate (`optax.adam(1e-3)`); by
                default `adam()`, whose rate is `learning_rate`.
            learning_rate: a number, or a schedule over what the algorithm counts, mostly
                environment steps: one of this package, or a function such as
                `optax.cosine_decay_schedule(3e-4, 1_000_000)`; by default 3e-4. Not with an
                `optimizer`, unless it is `hackmatrix_rl.training.unit_rate(...)`.
            precision: the dtype in which the network computes: a policy, or its name (`bf16`).
            grad_accum: number of equal parts into which a minibatch is cut to save memory. Their
                gradients are averaged, which gives the gradient of the whole minibatch, up to
                rounding. Must divide the samples that a device has of a minibatch.
            remat: which activations of the network the backward pass computes again instead of
                storing them: `none`, `blocks` or `full` (see `agent.networks.rematerialized`).
            offload_optimizer: whether to keep the optimizer's state in host memory between
                gradient steps.
            ema: decay of an exponential moving average of the parameters, over gradient steps.
                `policy` then has the average, for evaluation and play; the parameters themselves
                act in training. `None` for no average.
            mesh: the devices to train on: a mesh from `hackmatrix_rl.mesh`, or its text
                (`data=2`); `None` for one device. Games and minibatches do not depend on it.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the devices here cannot form the mesh.
        """
        self.optimizer, self.learning_rate = optimizer_of(optimizer, learning_rate)
        self.precision = precision_of(precision)
        self.mesh = mesh_of(mesh)
        self.grad_accum = whole("grad_accum", grad_accum)
        self.remat = remat
        self.offload = offload_optimizer
        self.ema = ema

    def check_policy(self, policy: ActorCritic, spec: EnvSpec) -> None:
        """Checks that a policy fits an environment, in this precision and with this `remat`.

        Raises:
            TypeError: it is no policy, or an output has another structure or dtype.
            ValueError: an output has another shape, or the policy has no such `remat`.
        """
        check_policy_shapes(policy, spec, precision=self.precision)
        rematerialized(policy, self.remat)

    def metrics(self, learner: Learner, rate: Float32[Array, ""]) -> dict[str, Any]:
        """The learning rate of the last step, if it is known, and the loss scale under float16.

        Args:
            learner: after the step.
            rate: factor on the optimizer's changes.
        """
        known = reported_rate(self.optimizer, learner.optimizer_state, rate)
        return {**known, **self.precision.report(learner.scaling)}


def optimization_of(
    algorithm: object, given: Optimization | None, arguments: OptimizationArguments
) -> Optimization:
    """The optimization that an algorithm was given, or that its arguments describe."""
    names, name = OptimizationArguments.__annotations__, type(algorithm).__name__
    for each in arguments:
        if each not in names:
            likely = similar(each, [*names, *inspect.signature(type(algorithm)).parameters])
            advice = "" if likely is None else f". Did you mean {likely}?"
            raise TypeError(f"{name}() got an unexpected keyword argument {each!r}{advice}")
    if given is None:
        return Optimization(**arguments)
    instance("optimization", given, Optimization, "hm.Optimization(learning_rate=1e-3)")
    if arguments:
        first = next(iter(arguments))
        raise ValueError(
            f"optimization and {first} are both given; put it into the first: "
            f"optimization=hm.Optimization({first}=...)"
        )
    return given
