"""Networks, and the evaluators that apply them to batches and sequences."""

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic, reset_carry
from hackmatrix_rl.agent.networks._auxiliary_head import AuxiliaryHead
from hackmatrix_rl.agent.networks._categorical_value import (
    VALUE_HEADS,
    CategoricalValue,
    with_value_head,
)
from hackmatrix_rl.agent.networks._choice import (
    REMAT,
    evaluator_of,
    plain_evaluator,
    rematerialized,
    without_custom_gradients,
)
from hackmatrix_rl.agent.networks._compute_dtype import compute_dtype
from hackmatrix_rl.agent.networks._conv import ConvActorCritic
from hackmatrix_rl.agent.networks._evaluator import Evaluator, TrunkEvaluator, unroll_steps
from hackmatrix_rl.agent.networks._gru import GRUActorCritic
from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, VALUE_GAIN, Dense
from hackmatrix_rl.agent.networks._lstm import LSTMActorCritic
from hackmatrix_rl.agent.networks._mlp import MLPActorCritic
from hackmatrix_rl.agent.networks._registry import (
    NETWORKS,
    build_network,
    import_factory,
    module_of,
)
from hackmatrix_rl.agent.networks._residual import ResidualActorCritic
from hackmatrix_rl.agent.networks._resnet import ResNetActorCritic
from hackmatrix_rl.agent.networks._transformer import TransformerActorCritic
from hackmatrix_rl.agent.networks._trunk import (
    BlockActorCritic,
    DenseInputActorCritic,
    RecurrentActorCritic,
    TrunkActorCritic,
)
from hackmatrix_rl.agent.networks._with_auxiliary_head import (
    VICTORY,
    WithAuxiliaryHead,
    add_auxiliary_head,
)

__all__ = [
    "HIDDEN_GAIN",
    "NETWORKS",
    "REMAT",
    "VALUE_GAIN",
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
