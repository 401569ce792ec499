"""The settings of PQN: its fields are its flags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final, no_type_check

from hackmatrix_rl.agent import networks
from hackmatrix_rl.runs.config import ACCELERATOR, CPU, DEBUG, Given, RolloutConfig, options_in

if TYPE_CHECKING:
    from hackmatrix_rl.algorithms.pqn._pqn import PQN

in_q = options_in("Q-learning")

_PQN: Mapping[str, Any] = {"network": "residual", "gamma": 0.997, "num_minibatches": 16}


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """The settings of a training by PQN; see `PPOConfig`."""

    algorithm: ClassVar[str] = "pqn"
    summary: ClassVar[str] = "Q-learning on rollouts, without a buffer"
    greedy: ClassVar[bool] = True
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        *RolloutConfig.panels[:4],
        ("q_value", "mean Q-value (reward)"),
        ("td_error", "TD error"),
    )
    continues: ClassVar[bool] = True
    varies: ClassVar[tuple[str, ...]] = ("learning_rate", "gamma", "q_lambda", "epsilon")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {**CPU, **_PQN},
        **{kind: {**ACCELERATOR, **_PQN, "device": kind} for kind in ("gpu", "tpu")},
        "debug": {**DEBUG, "network": "residual", "num_steps": 16, "num_minibatches": 2},
    }

    q_lambda: float = in_q(
        0.65, "Lambda of the lambda-returns; 0: one-step targets.", minimum=0, maximum=1
    )
    epsilon: float | str = in_q(
        "linear:1.0:0.05@0.1",
        "Probability of a random action; a number or a schedule.",
        minimum=0,
        maximum=1,
    )

    def build(
        self, policy: "networks.ActorCritic", *, trust_code: bool = False, **given: Unpack[Given]
    ) -> "PQN":
        from hackmatrix_rl.algorithms.pqn._pqn import PQN

        return PQN(
            self.environment(),
            policy,
            gamma=self.over_time(self.gamma),
            q_lambda=self.q_lambda,
            epsilon=self.over_time(self.epsilon),
            **self.shared_arguments(given),
        )
