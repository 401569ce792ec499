"""agent.networks."""

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    reset_carry,
)
from hackmatrix_rl.agent.networks._auxiliary_head import (
    AuxiliaryHead,
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
    add_auxiliary_head,
)

__all__ = [
    "HIDDEN_GAIN",
    "NETWORKS",
    "REMAT",
    "VALUE_GAIN",
    "ActorCritic",
    "AuxiliaryHead",
    "ConvActorCritic",
    "Dense",
    "GRUActorCritic",
    "MLPActorCritic",
    "PlainTrunk",
    "ResidualActorCritic",
    "TrunkActorCritic",
    "add_auxiliary_head",
    "build_network",
    "module_of",
    "rematerialized",
    "reset_carry",
]
