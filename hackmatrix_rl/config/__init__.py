"""The settings of a run: fields, presets, files, names, the registry of algorithms.

`RunConfig` has what every run has, `TrainConfig` what every training on HackMatrix has. The config
of an algorithm stands beside it in `hackmatrix_rl.algorithms`.
"""

from ._environments import ENVIRONMENTS as ENVIRONMENTS
from ._environments import HACKMATRIX as HACKMATRIX
from ._environments import dependence_of as dependence_of
from ._environments import env_arguments as env_arguments
from ._files import read_settings as read_settings
from ._files import read_space as read_space
from ._options import COUNTED as COUNTED
from ._options import field_types as field_types
from ._options import is_scheduled as is_scheduled
from ._options import most as most
from ._options import option as option
from ._options import options_in as options_in
from ._options import options_of as options_of
from ._options import parse_field as parse_field
from ._options import settings_of as settings_of
from ._policies import Heads as Heads
from ._policies import build_named as build_named
from ._policies import check_trusted as check_trusted
from ._policies import code_of as code_of
from ._population_based import PBT_ARGUMENTS as PBT_ARGUMENTS
from ._population_based import exploit_arguments as exploit_arguments
from ._presets import AUTO as AUTO
from ._presets import DEFAULT_RECIPE as DEFAULT_RECIPE
from ._presets import check_alike as check_alike
from ._presets import cpu_devices as cpu_devices
from ._presets import make_config as make_config
from ._presets import make_stages as make_stages
from ._presets import preset_device as preset_device
from ._presets import preset_for as preset_for
from ._presets import preset_names as preset_names
from ._presets import recipe_file as recipe_file
from ._presets import recipe_names as recipe_names
from ._registry import algorithms as algorithms
from ._registry import algorithms_of as algorithms_of
from ._registry import baseline_algorithm as baseline_algorithm
from ._registry import check_settings as check_settings
from ._registry import checked_value as checked_value
from ._registry import config_class as config_class
from ._registry import config_from_dict as config_from_dict
from ._registry import default_algorithm as default_algorithm
from ._renamed import RENAMED as RENAMED
from ._renamed import advice_for as advice_for
from ._renamed import check_one_name as check_one_name
from ._renamed import closest as closest
from ._renamed import rename as rename
from ._renamed import renamed_line as renamed_line
from ._renamed import stored_line as stored_line
from ._rollout_config import ActorCriticConfig as ActorCriticConfig
from ._rollout_config import RolloutConfig as RolloutConfig
from ._run_config import Given as Given
from ._run_config import RunConfig as RunConfig
from ._run_config import check_platform as check_platform
from ._texts import always_schedule as always_schedule
from ._texts import schedule_of as schedule_of
from ._train_config import ACCELERATOR as ACCELERATOR
from ._train_config import CPU as CPU
from ._train_config import DEBUG as DEBUG
from ._train_config import MOST_EPISODES as MOST_EPISODES
from ._train_config import SMALL as SMALL
from ._train_config import TrainConfig as TrainConfig
from ._train_config import default_environment as default_environment
from ._train_config import without_width as without_width
