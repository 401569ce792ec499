"""Names of settings in earlier versions and in other libraries."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from hackmatrix_rl.system.errors import ConfigError, flag, similar

RENAMED: Mapping[str, str] = {
    "clip": "clip_coef",
    "discount": "gamma",
    "entropy_coefficient": "ent_coef",
    "keep_checkpoints": "keep",
    "kl_limit": "target_kl",
    "max_gradient_norm": "max_grad_norm",
    "num_epochs": "update_epochs",
    "trace_decay": "gae_lambda",
    "value_coefficient": "vf_coef",
}
"""The current names of fields, by their names up to version 0.1."""
RATE, RATE_SCHEDULE = "learning_rate", "learning_rate_schedule"
RETIRED: Mapping[str, str] = {
    RATE_SCHEDULE: "{learning_rate}: constant:0.001 does not change, linear:0.001:0 falls to 0",
    "tensorboard": "{tracker:tensorboard}",
    "wandb": "{tracker:wandb}",
}
"""Settings that are no longer written or listed, each with its replacement."""
ENDS = "0.3"
"""The first version that no longer accepts these old names."""

# The equivalents of names in the original game's project, CleanRL and Stable-Baselines3 that
# `closest` does not find. `{gamma}` is a setting, and `{device:gpu}` a setting with its value.
FOREIGN: Mapping[str, str] = {
    "anneal_lr": "Use {learning_rate:linear:0.001:0}, say, or {learning_rate:constant:0.001}.",
    "artifact": "Use {wandb_artifacts}, or leave it out: checkpoints stay in the run's folder.",
    "auto_tune": "Leave it out: hackmatrix-rl compare A.toml B.toml compares settings.",
    "batch_size": "Use {minibatch_size} for the actions of a minibatch; an update learns from "
    "{num_envs} x {num_steps} actions.",
    "checkpoint_interval": "Use {save_interval}, in updates, or {save_interval_minutes}.",
    "clip_eps": "Use {clip_coef}.",
    "clip_range": "Use {clip_coef}.",
    "cuda": "Use {device:gpu}.",
    "entity": "Set the variable WANDB_ENTITY.",
    "entropy_coef": "Use {ent_coef}.",
    "epochs": "Use {update_epochs}.",
    "eval_freq": "Use {eval_interval}, in updates.",
    "hidden_dim": "Use {width}.",
    "hidden_size": "Use {width}.",
    "log_interval": "Use {updates_per_dispatch}: metrics are logged once a dispatch.",
    "lr": "Use {learning_rate}.",
    "n_envs": "Use {num_envs}.",
    "n_epochs": "Use {update_epochs}.",
    "n_steps": "Use {num_steps}.",
    "num_iterations": "Use {total_timesteps}, in actions.",
    "num_layers": "Use {depth}.",
    "num_timesteps": "Use {total_timesteps}.",
    "num_updates": "Use {total_timesteps}, in actions: an update takes {num_envs} x {num_steps}.",
    "policy": "Use {network}.",
    "project": "Use {wandb_project}.",
    "resume": "Use --resume-run RUN.",
    "rewind": "Leave it out: a run resumes at its checkpoint, also on Weights & Biases.",
    "run_name": "Use {run_dir} for the folder, or {wandb_name} for the name on Weights & Biases.",
    "run_suffix": "Use {run_dir} for the folder, or {wandb_name} for the name on Weights & Biases.",
    "save_freq": "Use {save_interval}, in updates, or {save_interval_minutes}.",
    "timesteps": "Use {total_timesteps}.",
    "track": "Use {tracker:wandb}.",
}


@dataclass(frozen=True)
class _Setting:
    """A setting as a template of `FOREIGN` writes it; a format may give it a value."""

    name: str
    is_flag: bool

    def __format__(self, value: str) -> str:
        if self.is_flag:
            return f"{flag(self.name)} {value}".rstrip()
        return f'{self.name} = "{value}"' if value else self.name


def settings_in(template: str) -> list[str]:
    """The settings that a template of `FOREIGN` names."""
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def advice_for(name: str, *, is_flag: bool) -> str:
    """The replacement of another library's name, in words; empty if there is none."""
    return _filled(FOREIGN.get(name.lower(), ""), is_flag)


def _filled(template: str, is_flag: bool) -> str:
    return template.format(**{each: _Setting(each, is_flag) for each in settings_in(template)})


def closest(name: str, known: Iterable[str]) -> str:
    """`Did you mean ...?` if some known name is similar to an unknown one; else empty."""
    known = list(known)
    # A mistyped old name is answered with the new one.
    meant = {each: each for each in known}
    for old, new in RENAMED.items():
        meant |= {spell(old): spell(new) for spell in (str, flag) if spell(new) in known}
    near = similar(name, meant)
    return "" if near is None else f"Did you mean {meant[near]}?"


def rename(
    settings: Mapping[str, Any], *, source: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings under their current names, and the old names among the given ones."""
    old = tuple(name for name in settings if name in RENAMED)
    check_one_name(old, settings, source=source)
    return {RENAMED.get(name, name): value for name, value in settings.items()}, old


def check_one_name(
    old: Iterable[str], given: Collection[str], *, is_flag: bool = False, source: str = ""
) -> None:
    """Raises a ConfigError if a setting is given under its old and its new name."""
    for name in old:
        if RENAMED[name] in given:
            before, now = _both(name, is_flag)
            said = f"{source}: {before}" if source else before
            raise ConfigError(f"{said} is the old name of {now}. Give only {now}.")


def renamed_line(name: str, *, is_flag: bool) -> str:
    """The message for an old name of a setting."""
    before, now = _both(name, is_flag)
    return f"{before} is now {now}; the old name works until version {ENDS}."


def retired_line(name: str, *, is_flag: bool) -> str:
    """The message for a setting of `RETIRED`."""
    said = flag(name) if is_flag else name
    return (
        f"{said} is now part of {_filled(RETIRED[name], is_flag)}; it works until version {ENDS}."
    )


def _both(old: str, is_flag: bool) -> tuple[str, str]:
    return (flag(old), flag(RENAMED[old])) if is_flag else (old, RENAMED[old])


def stored_line(source: Any, old: Iterable[str]) -> str:
    """The message for resuming a run that an earlier version wrote."""
    named = ", ".join(f"{name} (now {RENAMED[name]})" for name in old)
    return f"{source}: read under the old names {named}"
