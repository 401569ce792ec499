"""The auxiliary task: to predict the immediate result of an action."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Float32, Int32, UInt32

from hackmatrix_rl.agent.networks import AuxiliaryHead


class AuxiliaryTargets(eqx.Module):
    """The immediate results of a rollout's actions.

    Attributes:
        terms: `symlog` of the parts of the reward, in the order of `EnvSpec.terms`. They take 16
            bits each, because a rollout keeps them for every step.
        terminated: whether the rules ended the episode with this action, by death or victory.
    """

    terms: Float16[Array, "num_steps batch terms"]
    terminated: Bool[Array, "num_steps batch"]


class AuxiliaryMetrics(eqx.Module):
    """Metrics of the auxiliary loss: means over the batch; 0 for a minibatch that skips it.

    Attributes:
        due: 1 if the minibatch computed it, else 0.
        terms: half the squared error of the parts of the reward, summed over the parts.
        terminated: cross entropy of the end of the episode, in nats.
    """

    due: Float32[Array, ""]
    terms: Float32[Array, ""]
    terminated: Float32[Array, ""]


class AuxiliaryLoss(eqx.Module):
    """The auxiliary loss: the error of an `AuxiliaryHead`, its weight, and how often it counts.

    The parts of the reward say more about a step than their sum, from which the value learns. The
    prediction of death helps at the start of training. The layers that the head shares with the
    policy learn from both.

    Source: Jaderberg et al. 2017, "Reinforcement learning with unsupervised auxiliary tasks"
    (reward prediction); Hafner et al. 2023, "Mastering diverse domains through world models"
    (squared errors after `symlog`).

    Attributes:
        coefficient: weight of the auxiliary loss in the whole loss.
        every: only every N-th minibatch computes the auxiliary loss.
    """

    coefficient: float = eqx.field(static=True)
    every: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        if self.coefficient <= 0:
            raise ValueError(f"coefficient must be positive, not {self.coefficient}")
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")

    def __call__(
        self,
        head: AuxiliaryHead,
        hidden: Float[Array, "num_steps batch width"],
        action: Int32[Array, "num_steps batch"],
        auxiliary: AuxiliaryTargets,
        number: UInt32[Array, ""],
    ) -> tuple[Float32[Array, ""], AuxiliaryMetrics]:
        """The weighted loss and its metrics.

        Args:
            head: predicts the targets.
            hidden: the hidden layer, the input of the head.
            action: the action of each step.
            auxiliary: the targets.
            number: number of the minibatch, counted from the start of training.
        """

        def compute() -> tuple[Float32[Array, ""], Float32[Array, ""]]:
            terms, logit = jax.vmap(jax.vmap(head))(hidden, action)
            error = 0.5 * (terms - auxiliary.terms.astype(jnp.float32)) ** 2
            ended = auxiliary.terminated.astype(jnp.float32)
            surprise = jax.nn.softplus(logit) - ended * logit
            return jnp.mean(jnp.sum(error, axis=-1)), jnp.mean(surprise)

        nothing = jnp.zeros((), jnp.float32)
        # XLA runs neither the branch that is not taken nor its gradient.
        due = number % jnp.uint32(self.every) == 0
        terms, terminated = jax.lax.cond(due, compute, lambda: (nothing, nothing))
        return self.coefficient * (terms + terminated), AuxiliaryMetrics(
            due=due.astype(jnp.float32), terms=terms, terminated=terminated
        )


def symlog(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """`sign(x) log(1 + |x|)`: about `x` for a small `x`, and about 6 for 500."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def stacked_terms(
    terms: dict[str, Float32[Array, " num_envs"]], names: tuple[str, ...]
) -> Float16[Array, "num_envs terms"]:
    """The parts of the reward of one step, in the form of `AuxiliaryTargets.terms`.

    Args:
        terms: the parts by name, as in a `Timestep`.
        names: the names in order.

    Raises:
        ValueError: `names` differ from the names of `terms`.
    """
    if set(names) != set(terms):
        raise ValueError(
            f"the environment's spec names the parts of the reward {sorted(names)}, but a step "
            f"has {sorted(terms)}"
        )
    side_by_side = jnp.stack([terms[name] for name in names], axis=-1)
    return symlog(side_by_side).astype(jnp.float16)
