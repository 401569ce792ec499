"""Auxiliary tasks: predicting the immediate result of an action, and the victory."""

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
"""Lambda of `win_targets`: 0 uses only the next prediction, 1 only the outcome."""


class AuxiliaryTargets(eqx.Module):
    """The immediate results of a rollout's actions."""

    #: `symlog` of the terms of the reward, in the order of `EnvSpec.terms`; in 16 bits, because a
    #: rollout keeps them for every step.
    terms: Float16[Array, "num_steps batch terms"]
    #: Whether the rules ended the episode with this action, by death or victory.
    terminated: Flags


class AuxiliaryMetrics(eqx.Module):
    """Metrics of the auxiliary loss: means over the batch; 0 for a minibatch that skips it."""

    due: Float32[Array, ""]  #: 1 if the minibatch computed the loss, else 0.
    #: Half the squared error of the terms of the reward, summed over the terms.
    terms: Float32[Array, ""]
    terminated: Float32[Array, ""]  #: Cross-entropy of the termination, in nats.
    #: Cross-entropy of the victory, in nats; `None` if it is not predicted.
    won: Float32[Array, ""] | None = None

    def means(self) -> dict[str, float]:
        """Of sums over minibatches: the means over those that computed it, by name, on the host."""
        if not float(self.due):
            return {}
        parts = {"aux_terms_loss": self.terms, "aux_end_loss": self.terminated}
        if self.won is not None:
            parts["aux_win_loss"] = self.won
        return {name: float(total) / float(self.due) for name, total in parts.items()}


class AuxiliaryLoss(eqx.Module):
    """The loss of an `AuxiliaryHead`, computed on every N-th minibatch.

    The terms of the reward say more about a step than their sum, from which the value learns. The
    prediction of death helps at the start of training. Both train the layers that the head shares
    with the policy.

    Source: Jaderberg et al. 2017, "Reinforcement learning with unsupervised auxiliary tasks"
    (reward prediction); Hafner et al. 2023, "Mastering diverse domains through world models"
    (squared errors after `symlog`).
    """

    coefficient: float = eqx.field(static=True)  #: Weight of the auxiliary loss in the total loss.
    #: Only every N-th minibatch computes the auxiliary loss.
    every: int = eqx.field(static=True, default=1)
    #: Index in `EnvSpec.terms` of the term of the reward that is positive where an episode is won.
    #: The head then also learns the probability of winning (`win_targets`). `None`: it does not.
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

        zero = jnp.zeros((), jnp.float32)
        count = 2 if self.victory is None else 3
        # A skipped minibatch computes neither the loss nor its gradient.
        due = number % jnp.uint32(self.every) == 0
        with taken(1 / self.every):
            terms, terminated, *won = jax.lax.cond(due, compute, lambda: (zero,) * count)
        return self.coefficient * sum(won, terms + terminated), AuxiliaryMetrics(
            due.astype(jnp.float32), terms, terminated, *won
        )

    def _win_loss(
        self, head: AuxiliaryHead, hidden: Hidden, auxiliary: AuxiliaryTargets, done: Flags | None
    ) -> Float32[Array, ""]:
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
    """Targets of the win prediction, from later predictions and outcomes in the rollout.

    They are the undiscounted TD(lambda) returns of a reward of 1 for a victory. Where an episode
    terminates, the target is its outcome. Also returns which targets count: not a truncated
    step, nor of the last step of a rollout in an unfinished episode.

    Source: Sutton 1988, "Learning to predict by the methods of temporal differences".
    """
    last = jnp.zeros_like(done).at[-1].set(True)
    unknown = (done & ~terminated) | (last & ~done)
    next_predicted = jnp.concatenate([predicted[1:], predicted[-1:]])

    def step(
        later: Float32[Array, " batch"], inputs: tuple[Array, ...]
    ) -> tuple[Float32[Array, " batch"], Float32[Array, " batch"]]:
        predicted, next_predicted, won, terminated, unknown = inputs
        target = (1.0 - trace) * next_predicted + trace * later
        target = jnp.where(unknown, predicted, target)
        target = jnp.where(terminated, won.astype(jnp.float32), target)
        return target, target

    inputs = (predicted, next_predicted, won, terminated, unknown)
    _, targets = jax.lax.scan(step, predicted[-1], inputs, reverse=True)
    return targets, ~unknown


def symlog(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """`sign(x) log(1 + |x|)`: about `x` for a small `x`, and about 6 for 500."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def stacked_terms(
    terms: dict[str, Float32[Array, " num_envs"]], names: tuple[str, ...]
) -> Float16[Array, "num_envs terms"]:
    """Stacks the terms of the reward of one step, in the form of `AuxiliaryTargets.terms`."""
    if set(names) != set(terms):
        raise ValueError(
            f"the environment's spec names the terms of the reward {sorted(names)}, but a step "
            f"has {sorted(terms)}"
        )
    stacked = jnp.stack([terms[name] for name in names], axis=-1)
    return symlog(stacked).astype(jnp.float16)
