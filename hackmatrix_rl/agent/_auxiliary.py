"""An auxiliary task: to predict the immediate result of an action."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Float32, Int32, UInt32

from hackmatrix_rl.agent.networks import AuxiliaryHead


class AuxiliaryTargets(eqx.Module):
    """The immediate results of a rollout's actions.

    Attributes:
        terms: the parts of the reward, in the order of `EnvSpec.terms`, through `symlog`.
            In 16 bits, for they are kept for every step of a rollout.
        terminated: the rules ended the episode with this action: the player's death, or a
            victory.
    """

    terms: Float16[Array, "num_steps batch terms"]
    terminated: Bool[Array, "num_steps batch"]


class AuxiliaryMetrics(eqx.Module):
    """Metrics of the auxiliary loss: means over the batch, 0 for a minibatch without it.

    Attributes:
        due: 1 where it was computed, else 0.
        terms: half the squared error of the parts of the reward, summed over the parts.
        terminated: cross entropy of the end of the episode, in nats.
    """

    due: Float32[Array, ""]
    terms: Float32[Array, ""]
    terminated: Float32[Array, ""]


class AuxiliaryLoss(eqx.Module):
    """The auxiliary loss: the error of an `AuxiliaryHead`, its weight, and how often it counts.

    The parts of the reward say more at every step than the one number that the value learns
    from, and a beginner should see death coming. The layers shared with the policy learn from
    both.

    Source: Jaderberg et al. 2017, "Reinforcement learning with unsupervised auxiliary tasks"
    (reward prediction); Hafner et al. 2023, "Mastering diverse domains through world models"
    (squared errors after `symlog`).

    Attributes:
        coefficient: its weight in the loss.
        every: only every N-th minibatch computes and counts it.
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
        """The weighted loss, and what it is made of.

        Args:
            head: makes the predictions.
            hidden: the hidden layer that it predicts from.
            action: taken there.
            auxiliary: the targets.
            number: of the minibatch, counted from the start of training.
        """

        def compute() -> tuple[Float32[Array, ""], Float32[Array, ""]]:
            terms, logit = jax.vmap(jax.vmap(head))(hidden, action)
            error = 0.5 * (terms - auxiliary.terms.astype(jnp.float32)) ** 2
            ended = auxiliary.terminated.astype(jnp.float32)
            surprise = jax.nn.softplus(logit) - ended * logit
            return jnp.mean(jnp.sum(error, axis=-1)), jnp.mean(surprise)

        nothing = jnp.zeros((), jnp.float32)
        # XLA does not run the branch that is not taken, nor its gradient.
        due = number % jnp.uint32(self.every) == 0
        terms, terminated = jax.lax.cond(due, compute, lambda: (nothing, nothing))
        return self.coefficient * (terms + terminated), AuxiliaryMetrics(
            due=due.astype(jnp.float32), terms=terms, terminated=terminated
        )


def symlog(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """`sign(x) log(1 + |x|)`: about `x` itself when small, and 500 becomes 6."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def stacked_terms(
    terms: dict[str, Float32[Array, " num_envs"]], names: tuple[str, ...]
) -> Float16[Array, "num_envs terms"]:
    """The parts of the reward of one step, as `AuxiliaryTargets` holds them.

    Args:
        terms: by name, as a `Timestep` has them.
        names: their order.

    Raises:
        ValueError: the names are not those of the parts.
    """
    if set(names) != set(terms):
        raise ValueError(
            f"the environment's spec names the parts of the reward {sorted(names)}, but a step "
            f"has {sorted(terms)}"
        )
    side_by_side = jnp.stack([terms[name] for name in names], axis=-1)
    return symlog(side_by_side).astype(jnp.float16)
