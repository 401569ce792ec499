"""An auxiliary task: to tell what an action will bring at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Float32, Int32, UInt32

from hackmatrix_rl.agent.networks import AuxiliaryHead


class AuxiliaryTargets(eqx.Module):
    """What the actions of a rollout brought at once.

    Attributes:
        terms: the parts of the reward, in the order of `EnvSpec.terms`, through `symlog`.
            In 16 bits, for they are kept for every step of a rollout.
        terminated: the rules ended the episode with this action: the player's death, or a
            victory.
    """

    terms: Float16[Array, "num_steps batch terms"]
    terminated: Bool[Array, "num_steps batch"]


class AuxiliaryMetrics(eqx.Module):
    """What the auxiliary loss tells about itself; means over the batch, 0 where not due.

    Attributes:
        due: 1 where it was computed, else 0.
        terms: half the squared error of the parts of the reward, added up over the parts.
        terminated: cross entropy of the end of the episode, in nats.
    """

    due: Float32[Array, ""]
    terms: Float32[Array, ""]
    terminated: Float32[Array, ""]


class AuxiliaryLoss(eqx.Module):
    """The auxiliary loss: how wrong an `AuxiliaryHead` is, and how much and how often it counts.

    The parts of the reward say much more at every step than the one number that the value
    learns from, and death is what a beginner should see coming; the layers shared with the
    policy learn to tell them apart.

    Source: Jaderberg et al. 2017, "Reinforcement learning with unsupervised auxiliary tasks"
    (reward prediction); Hafner et al. 2023, "Mastering diverse domains through world models"
    (squared errors after `symlog`).

    Attributes:
        coefficient: its weight in the loss.
        every: it counts at every so-manieth minibatch, and is not computed at the others.
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
            head: what predicts.
            hidden: what it predicts from.
            action: that was taken there.
            auxiliary: what the action brought.
            number: of the minibatch, counted from the start of training.
        """

        def compute() -> tuple[Float32[Array, ""], Float32[Array, ""]]:
            terms, logit = jax.vmap(jax.vmap(head))(hidden, action)
            error = 0.5 * (terms - auxiliary.terms.astype(jnp.float32)) ** 2
            ended = auxiliary.terminated.astype(jnp.float32)
            surprise = jax.nn.softplus(logit) - ended * logit
            return jnp.mean(jnp.sum(error, axis=-1)), jnp.mean(surprise)

        nothing = jnp.zeros((), jnp.float32)
        # A branch that is really not taken, and neither is its gradient.
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
