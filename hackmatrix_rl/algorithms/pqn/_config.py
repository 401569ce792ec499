"""The settings of PQN: its fields are its flags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final, no_type_check

from jax.sharding import Mesh

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import PrecisionPolicy
from hackmatrix_rl.algorithms.pqn._pqn import PQN
from hackmatrix_rl.config import ACCELERATOR, CPU, DEBUG, SMALL, RolloutConfig, option
from hackmatrix_rl.training import adam

_PQN: Mapping[str, Any] = {"network": "residual", "gamma": 0.997, "num_minibatches": 16}


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """The settings of a training by PQN on HackMatrix, checked; see `TrainConfig`."""

    algorithm: ClassVar[str] = "pqn"
    summary: ClassVar[str] = "Q-learning on rollouts, without a buffer"
    greedy: ClassVar[bool] = True
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        *RolloutConfig.panels[:2],
        ("q_value", "mean Q-value (reward)"),
        ("td_error", "error of the Q-values"),
    )
    continues: ClassVar[bool] = True
    elsewhere: ClassVar[Mapping[str, Any]] = SMALL
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {**CPU, **_PQN},
        **{kind: {**ACCELERATOR, **_PQN, "device": kind} for kind in ("gpu", "tpu")},
        "debug": {**DEBUG, "network": "residual", "num_steps": 16, "num_minibatches": 2},
    }

    q_lambda: float = option(
        0.65, "Q-learning", "Lambda of the returns; 0: one step.", minimum=0, maximum=1
    )
    epsilon: float | str = option(
        "linear:1.0:0.05@0.1", "Q-learning", "Share of random actions.", minimum=0, maximum=1
    )

    def build(
        self,
        policy: ActorCritic,
        *,
        mesh: Mesh,
        precision: PrecisionPolicy,
        value_scale: ValueScale | None = None,
        trust_code: bool = False,
    ) -> PQN:
        """PQN with these settings; see `RunConfig.build`."""
        given = ("q_lambda", "num_envs", "num_steps", "update_epochs", "grad_accum", "remat")
        return PQN(
            self.environment(),
            policy,
            gamma=self.over_time(self.gamma),
            epsilon=self.over_time(self.epsilon),
            value_scale=value_scale,
            num_minibatches=self.minibatches,
            offload_optimizer=self.offload_optimizer,
            optimizer=adam(self.max_grad_norm),
            learning_rate=self.rate(),
            precision=precision,
            mesh=mesh,
            **{name: getattr(self, name) for name in given},
        )
