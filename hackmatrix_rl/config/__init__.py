"""The settings of a training run: fields, presets, files, names, and what fits together."""

from hackmatrix_rl.config._algorithms import (
    FROM_REWARDS,
    FROM_SEQUENCES,
    FROM_TEACHER,
    OUTPUT_SETTINGS,
)
from hackmatrix_rl.config._checks import (
    check_config_on_mesh,
    check_platform,
)
from hackmatrix_rl.config._config import (
    TrainConfig,
)
from hackmatrix_rl.config._files import (
    config_from_dict,
    is_self_play,
    read_settings,
)
from hackmatrix_rl.config._options import (
    COUNTED,
    as_flags,
    field_types,
    is_scheduled,
    options_of,
)
from hackmatrix_rl.config._policies import (
    build_named,
    build_policy,
    build_value_scale,
    check_trusted,
    make_environment,
)
from hackmatrix_rl.config._presets import (
    AUTO,
    CONTINUED,
    PRESETS,
    REPLAYED,
    TAUGHT,
    cpu_devices,
    default_algorithm,
    make_config,
    preset_for,
    preset_names,
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
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.config._schedule_text import (
    parse_schedule,
    schedule_of,
)
from hackmatrix_rl.config._self_play_config import SelfPlayConfig
from hackmatrix_rl.config._train_fields import (
    MOST_EPISODES,
)

__all__ = [
    "AUTO",
    "CONTINUED",
    "COUNTED",
    "FROM_REWARDS",
    "FROM_SEQUENCES",
    "FROM_TEACHER",
    "MOST_EPISODES",
    "OUTPUT_SETTINGS",
    "PRESETS",
    "RENAMED",
    "REPLAYED",
    "TAUGHT",
    "RunConfig",
    "SelfPlayConfig",
    "TrainConfig",
    "advice_for",
    "as_flags",
    "build_named",
    "build_policy",
    "build_value_scale",
    "check_config_on_mesh",
    "check_one_name",
    "check_platform",
    "check_trusted",
    "closest",
    "config_from_dict",
    "cpu_devices",
    "default_algorithm",
    "field_types",
    "is_scheduled",
    "is_self_play",
    "make_config",
    "make_environment",
    "options_of",
    "parse_schedule",
    "preset_for",
    "preset_names",
    "read_settings",
    "rename",
    "renamed_line",
    "schedule_of",
    "stored_line",
]
