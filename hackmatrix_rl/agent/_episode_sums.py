"""Sums over the episodes that ended."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from hackmatrix_rl.env import Timestep
from hackmatrix_rl.system.batching import materialize, platform


class EpisodeSums(eqx.Module):
    """Sums over the counted episodes that ended within some steps; they can be added."""

    count: Float32[Array, ""]  #: Number of episodes that ended.
    total_reward: Float32[Array, ""]  #: Sum of their undiscounted returns.
    length: Float32[Array, ""]  #: Sum of their lengths in steps.
    #: Sums of the environment's further statistics (`EpisodeStatistics.extra`).
    extra: dict[str, Float32[Array, ""]]
    #: Sums of the terms of the reward over ALL these steps, also of unfinished episodes.
    terms: dict[str, Float32[Array, ""]]

    @classmethod
    def of(cls, timestep: Timestep, own: Bool[Array, " num_envs"] | None = None) -> "EpisodeSums":
        """The sums of one step; `own`: environments that the policy itself plays (`None`: all)."""
        if platform() == "gpu":  # else XLA fuses their computation into single-block reductions
            timestep = materialize(timestep)
        episode, counts = timestep.episode, timestep.episode.counts
        if own is not None:
            counts = own if counts is None else counts & own
        ended = timestep.done if counts is None else timestep.done & counts

        def over_ended(values: Array) -> Float32[Array, ""]:
            return jnp.sum(jnp.where(ended, values.astype(jnp.float32), 0.0))

        return cls(
            count=jnp.sum(ended.astype(jnp.float32)),
            total_reward=over_ended(episode.total_reward),
            length=over_ended(episode.length),
            extra={name: over_ended(values) for name, values in episode.extra.items()},
            terms={
                name: jnp.sum(values if counts is None else jnp.where(counts, values, 0.0))
                for name, values in timestep.terms.items()
            },
        )

    @property
    def totals(self) -> dict[str, Any]:
        """The sums of the episode statistics by name, on the device or on the host."""
        return {"return": self.total_reward, "length": self.length, **self.extra}

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Means per episode, by name, on the host: of its statistics, and of its reward terms.

        Both are empty without a finished episode. The terms are summed over all steps, unfinished
        episodes included, and divided by the number of finished episodes.
        """
        count = float(self.count)
        if not count:
            return {}, {}
        return (
            {name: float(total) / count for name, total in self.totals.items()},
            {name: float(total) / count for name, total in self.terms.items()},
        )
