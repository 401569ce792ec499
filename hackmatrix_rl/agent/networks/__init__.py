"""Networks, and the evaluators that apply them to batches and sequences."""

from hackmatrix_rl.agent.networks._actor_critic import (
    ActorCritic,
    BlockActorCritic,
    DenseInputActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
    compute_dtype,
    reset_carry,
)
from hackmatrix_rl.agent.networks._added_heads import (
    VALUE_HEADS,
    VICTORY,
    AuxiliaryHead,
    CategoricalValue,
    WithAuxiliaryHead,
    add_auxiliary_head,
    with_value_head,
)
from hackmatrix_rl.agent.networks._choice import (
    REMAT,
    evaluator_of,
    plain_evaluator,
    rematerialized,
    without_custom_gradients,
)
from hackmatrix_rl.agent.networks._conv import ConvActorCritic, ResNetActorCritic
from hackmatrix_rl.agent.networks._evaluator import Evaluator, TrunkEvaluator, unroll_steps
from hackmatrix_rl.agent.networks._layers import Dense
from hackmatrix_rl.agent.networks._mlp import MLPActorCritic, ResidualActorCritic
from hackmatrix_rl.agent.networks._recurrent import GRUActorCritic, LSTMActorCritic
from hackmatrix_rl.agent.networks._registry import (
    NETWORKS,
    build_network,
    import_factory,
    module_of,
)
from hackmatrix_rl.agent.networks._transformer import TransformerActorCritic

__all__ = [
    "NETWORKS",
    "REMAT",
    "VALUE_HEADS",
    "VICTORY",
    "ActorCritic",
    "AuxiliaryHead",
    "BlockActorCritic",
    "CategoricalValue",
    "ConvActorCritic",
    "Dense",
    "DenseInputActorCritic",
    "Evaluator",
    "GRUActorCritic",
    "LSTMActorCritic",
    "MLPActorCritic",
    "RecurrentActorCritic",
    "ResNetActorCritic",
    "ResidualActorCritic",
    "TransformerActorCritic",
    "TrunkActorCritic",
    "TrunkEvaluator",
    "WithAuxiliaryHead",
    "add_auxiliary_head",
    "build_network",
    "compute_dtype",
    "evaluator_of",
    "import_factory",
    "module_of",
    "plain_evaluator",
    "rematerialized",
    "reset_carry",
    "unroll_steps",
    "with_value_head",
    "without_custom_gradients",
]
