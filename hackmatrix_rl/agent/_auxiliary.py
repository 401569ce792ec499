"""The auxiliary tasks: to predict the immediate result of an action, and the victory."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Float32, Int32, UInt32

from hackmatrix_rl.agent.networks import AuxiliaryHead
from hackmatrix_rl.system.batching import taken
from hackmatrix_rl.system.errors import counts

Hidden = Float[Array, "num_steps batch width"]
PerStep = Float32[Array, "num_steps batch"]
Flags = Bool[Array, "num_steps batch"]

WIN_TRACE = 0.95
"""Weight between the prediction one step later (0) and the end of the episode (1)."""


class AuxiliaryTargets(eqx.Module):
    """The immediate results of a rollout's actions."""

    #: `symlog` of the parts of the reward, in the order of `EnvSpec.terms`. They take 16 bits each,
    #: because a rollout keeps them for every step.
    terms: Float16[Array, "num_steps batch terms"]
    #: Whether the rules ended the episode with this action, by death or victory.
    terminated: Flags


class AuxiliaryMetrics(eqx.Module):
    """Metrics of the auxiliary loss: means over the batch; 0 for a minibatch that skips it."""

    due: Float32[Array, ""]  #: 1 if the minibatch computed it, else 0.
    #: Half the squared error of the parts of the reward, summed over the parts.
    terms: Float32[Array, ""]
    terminated: Float32[Array, ""]  #: Cross entropy of the end of the episode, in nats.
    #: Cross entropy of the probability of winning, in nats; `None` if it is not predicted.
    won: Float32[Array, ""] | None = None


class AuxiliaryLoss(eqx.Module):
    """The auxiliary loss: the error of an `AuxiliaryHead`, its weight, and how often it counts.

    The parts of the reward say more about a step than their sum, from which the value learns. The
    prediction of death helps at the start of training. The layers that the head shares with the
    policy learn from both.

    Source: Jaderberg et al. 2017, "Reinforcement learning with unsupervised auxiliary tasks"
    (reward prediction); Hafner et al. 2023, "Mastering diverse domains through world models"
    (squared errors after `symlog`).
    """

    coefficient: float = eqx.field(static=True)  #: Weight of the auxiliary loss in the whole loss.
    #: Only every N-th minibatch computes the auxiliary loss.
    every: int = eqx.field(static=True, default=1)
    #: Index in `EnvSpec.terms` of the part of the reward that is above 0 where an episode is won.
    #: The head then also learns the probability of winning the episode (`win_targets`). `None`: it
    #: does not.
    victory: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.coefficient <= 0:
            raise ValueError(f"coefficient must be positive, not {self.coefficient}")
        counts(every=self.every)

    def __call__(
        self,
        head: AuxiliaryHead,
        hidden: Hidden,
        action: Int32[Array, "num_steps batch"],
        auxiliary: AuxiliaryTargets,
        number: UInt32[Array, ""],
        *,
        done: Flags | None = None,
    ) -> tuple[Float32[Array, ""], AuxiliaryMetrics]:
        """The weighted loss and its metrics.

        `number` counts minibatches from the start of training; `victory` needs `done`.

        Raises:
            ValueError: `victory` is set, and the head does not predict it, or `done` is missing.
        """

        def compute() -> tuple[Float32[Array, ""], ...]:
            terms, logit = jax.vmap(jax.vmap(head))(hidden, action)
            error = 0.5 * (terms - auxiliary.terms.astype(jnp.float32)) ** 2
            ended = auxiliary.terminated.astype(jnp.float32)
            cross_entropy = jax.nn.softplus(logit) - ended * logit
            immediate = jnp.mean(jnp.sum(error, axis=-1)), jnp.mean(cross_entropy)
            if self.victory is None:
                return immediate
            return *immediate, self._win_loss(head, hidden, auxiliary, done)

        nothing = jnp.zeros((), jnp.float32)
        count = 2 if self.victory is None else 3
        # XLA runs neither the branch that is not taken nor its gradient.
        due = number % jnp.uint32(self.every) == 0
        with taken(1 / self.every):
            terms, terminated, *won = jax.lax.cond(due, compute, lambda: (nothing,) * count)
        return self.coefficient * sum(won, terms + terminated), AuxiliaryMetrics(
            due.astype(jnp.float32), terms, terminated, *won
        )

    def _win_loss(
        self, head: AuxiliaryHead, hidden: Hidden, auxiliary: AuxiliaryTargets, done: Flags | None
    ) -> Float32[Array, ""]:
        """Mean cross entropy of the probability of winning."""
        logit = jax.vmap(jax.vmap(head.win_logit))(hidden)
        if logit is None or done is None:
            raise ValueError(
                "victory needs a head that predicts it, add_auxiliary_head(..., wins=True), and "
                "the argument done"
            )
        won = auxiliary.terms[..., self.victory] > 0
        target, counts = win_targets(
            jax.lax.stop_gradient(jax.nn.sigmoid(logit)), won, auxiliary.terminated, done
        )
        cross_entropy = jax.nn.softplus(logit) - target * logit
        return jnp.mean(jnp.where(counts, cross_entropy, 0.0))


def win_targets(
    predicted: PerStep, won: Flags, terminated: Flags, done: Flags, *, trace: float = WIN_TRACE
) -> tuple[PerStep, Flags]:
    """Targets of the win prediction, from the later outcomes in the rollout.

    It is the TD(lambda) return of a reward of 1 for a victory, without discount. Where an episode
    ends by the rules, the target is known. Elsewhere it is a mean of the later predictions. Also
    returns whether each counts: the last step and a truncated one have nothing after them.

    Source: Sutton 1988, "Learning to predict by the methods of temporal differences".
    """
    last = jnp.zeros_like(done).at[-1].set(True)
    unknown = (done & ~terminated) | (last & ~done)
    following = jnp.concatenate([predicted[1:], predicted[-1:]])

    def back(
        later: Float32[Array, " batch"], step: tuple[Array, ...]
    ) -> tuple[Float32[Array, " batch"], Float32[Array, " batch"]]:
        here, following, won, terminated, unknown = step
        target = (1.0 - trace) * following + trace * later
        target = jnp.where(unknown, here, target)
        target = jnp.where(terminated, won.astype(jnp.float32), target)
        return target, target

    steps = (predicted, following, won, terminated, unknown)
    _, targets = jax.lax.scan(back, predicted[-1], steps, reverse=True)
    return targets, ~unknown


def symlog(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """`sign(x) log(1 + |x|)`: about `x` for a small `x`, and about 6 for 500."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def stacked_terms(
    terms: dict[str, Float32[Array, " num_envs"]], names: tuple[str, ...]
) -> Float16[Array, "num_envs terms"]:
    """The parts of the reward of one step by name, in the form of `AuxiliaryTargets.terms`."""
    if set(names) != set(terms):
        raise ValueError(
            f"the environment's spec names the parts of the reward {sorted(names)}, but a step "
            f"has {sorted(terms)}"
        )
    flat_vmap = jnp.stack([terms[name] for name in names], axis=-1)
    return symlog(flat_vmap).astype(jnp.float16)
