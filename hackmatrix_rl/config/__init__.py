"""config."""

from hackmatrix_rl.config._checks import (
    check_config_on_mesh,
    check_platform,
)
from hackmatrix_rl.config._config import (
    MOST_EPISODES,
    TrainConfig,
)
from hackmatrix_rl.config._files import (
    config_from_dict,
    read_settings,
)
from hackmatrix_rl.config._options import (
    COUNTED,
    field_types,
)
from hackmatrix_rl.config._policies import (
    build_policy,
    check_trusted,
)
from hackmatrix_rl.config._presets import (
    AUTO,
    PRESETS,
    cpu_devices,
    make_config,
    preset_for,
    preset_names,
)

__all__ = [
    "AUTO",
    "COUNTED",
    "MOST_EPISODES",
    "PRESETS",
    "TrainConfig",
    "build_policy",
    "check_config_on_mesh",
    "check_platform",
    "check_trusted",
    "config_from_dict",
    "cpu_devices",
    "field_types",
    "make_config",
    "preset_for",
    "preset_names",
    "read_settings",
]
