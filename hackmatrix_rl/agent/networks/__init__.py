"""agent.networks."""

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    start_anew,
)
from hackmatrix_rl.agent.networks._auxiliary_head import (
    OutcomeHead,
)
from hackmatrix_rl.agent.networks._conv import (
    ConvActorCritic,
)
from hackmatrix_rl.agent.networks._gru import (
    GRUActorCritic,
)
from hackmatrix_rl.agent.networks._layers import (
    HIDDEN_GAIN,
    VALUE_GAIN,
    Dense,
)
from hackmatrix_rl.agent.networks._mlp import (
    MLPActorCritic,
)
from hackmatrix_rl.agent.networks._registry import (
    NETWORKS,
    build_network,
    module_of,
)
from hackmatrix_rl.agent.networks._remat import (
    REMAT,
    rematerialized,
)
from hackmatrix_rl.agent.networks._residual import (
    ResidualActorCritic,
)
from hackmatrix_rl.agent.networks._trunk import (
    PlainTrunk,
    TrunkActorCritic,
    add_outcomes,
)

__all__ = [
    "HIDDEN_GAIN",
    "NETWORKS",
    "REMAT",
    "VALUE_GAIN",
    "ActorCritic",
    "ConvActorCritic",
    "Dense",
    "GRUActorCritic",
    "MLPActorCritic",
    "OutcomeHead",
    "PlainTrunk",
    "ResidualActorCritic",
    "TrunkActorCritic",
    "add_outcomes",
    "build_network",
    "module_of",
    "rematerialized",
    "start_anew",
]
