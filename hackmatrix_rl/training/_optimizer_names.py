"""The optimizers by name, which commands list without importing JAX."""

from collections.abc import Mapping

from hackmatrix_rl.system.errors import ArgumentError

_ADAM = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}

OPTIMIZERS: Mapping[str, Mapping[str, float]] = {
    "adam": _ADAM | {"eps": 1e-5},
    "adamw": _ADAM | {"weight_decay": 1e-4},
    "adam-atan2": {"beta1": 0.9, "beta2": 0.999, "weight_decay": 1e-4},
    "nadam": _ADAM,
    "radam": _ADAM,
    "adabelief": _ADAM | {"eps": 1e-16},
    "lion": {"beta1": 0.9, "beta2": 0.99, "weight_decay": 1e-3},
    "muon": _ADAM | {"momentum": 0.95, "weight_decay": 0.0},
    "rmsprop": {"beta2": 0.9, "eps": 1e-8},
    "sgd": {"momentum": 0.0},
}
"""The settings of each optimizer with their defaults, which are optax's, except for Adam's `eps`.

`beta1` and `beta2` are the decays of the averages of the gradient and of its square (of lion: of
the update and of the average). Of muon, they and `eps` are Adam's, for all but matrices.
"""


ONE_AVERAGE = ("lion", "muon", "rmsprop", "sgd")
"""Those that hold one number for each parameter, or for most, where the others hold two."""

SETTINGS = tuple(dict.fromkeys(name for settings in OPTIMIZERS.values() for name in settings))
"""Every setting of some optimizer."""


def optimizer_settings(name: str, **given: float | None) -> dict[str, float]:
    """The settings of an optimizer: its defaults, and those given that are not `None`.

    Raises:
        ValueError: there is no such optimizer, or it has no such setting (an `ArgumentError`).
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {name!r}; choose one of {', '.join(OPTIMIZERS)}")
    known = {setting: value for setting, value in given.items() if value is not None}
    for setting, value in known.items():
        if setting not in OPTIMIZERS[name]:
            having = next((each for each in OPTIMIZERS if setting in OPTIMIZERS[each]), None)
            instead = (
                "leave it out" if having is None else f"leave it out, or {{optimizer:={having}}}"
            )
            raise ArgumentError(
                f"{{{setting}}} is no setting of {{optimizer}}, which has "
                f"{', '.join(OPTIMIZERS[name])}; {instead}",
                **{setting: value, "optimizer": name},
            )
    return {**OPTIMIZERS[name], **known}
