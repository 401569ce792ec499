"""The settings of a run: fields, presets, files, names, the registry of algorithms.

`RunConfig` has what every run has, `TrainConfig` what every training on HackMatrix has. The config
of an algorithm stands beside it in `hackmatrix_rl.algorithms`.
"""

from hackmatrix_rl.config._checks import (
    check_folders,
    check_mesh_text,
    check_platform,
    check_precision,
    check_rate,
)
from hackmatrix_rl.config._environments import ENVIRONMENTS, HACKMATRIX, env_arguments
from hackmatrix_rl.config._files import read_settings
from hackmatrix_rl.config._options import (
    COUNTED,
    field_types,
    is_scheduled,
    most,
    option,
    options_of,
    parse_field,
    settings_of,
)
from hackmatrix_rl.config._policies import Heads, build_named, check_trusted, code_of
from hackmatrix_rl.config._presets import (
    AUTO,
    DEFAULT_RECIPE,
    check_alike,
    cpu_devices,
    make_config,
    make_stages,
    preset_device,
    preset_for,
    preset_names,
    recipe_file,
    recipe_names,
)
from hackmatrix_rl.config._registry import (
    algorithms,
    algorithms_of,
    baseline_algorithm,
    check_settings,
    config_class,
    config_from_dict,
    default_algorithm,
)
from hackmatrix_rl.config._renamed import (
    RENAMED,
    advice_for,
    check_one_name,
    closest,
    rename,
    renamed_line,
    stored_line,
)
from hackmatrix_rl.config._rollout_config import ActorCriticConfig, RolloutConfig
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.config._texts import always_schedule, schedule_of
from hackmatrix_rl.config._train_config import (
    ACCELERATOR,
    CPU,
    DEBUG,
    MOST_EPISODES,
    SMALL,
    TrainConfig,
    default_environment,
    without_width,
)

__all__ = [
    "ACCELERATOR",
    "AUTO",
    "COUNTED",
    "CPU",
    "DEBUG",
    "DEFAULT_RECIPE",
    "ENVIRONMENTS",
    "HACKMATRIX",
    "MOST_EPISODES",
    "RENAMED",
    "SMALL",
    "ActorCriticConfig",
    "Heads",
    "RolloutConfig",
    "RunConfig",
    "TrainConfig",
    "advice_for",
    "algorithms",
    "algorithms_of",
    "always_schedule",
    "baseline_algorithm",
    "build_named",
    "check_alike",
    "check_folders",
    "check_mesh_text",
    "check_one_name",
    "check_platform",
    "check_precision",
    "check_rate",
    "check_settings",
    "check_trusted",
    "closest",
    "code_of",
    "config_class",
    "config_from_dict",
    "cpu_devices",
    "default_algorithm",
    "default_environment",
    "env_arguments",
    "field_types",
    "is_scheduled",
    "make_config",
    "make_stages",
    "most",
    "option",
    "options_of",
    "parse_field",
    "preset_device",
    "preset_for",
    "preset_names",
    "read_settings",
    "recipe_file",
    "recipe_names",
    "rename",
    "renamed_line",
    "schedule_of",
    "settings_of",
    "stored_line",
    "without_width",
]
