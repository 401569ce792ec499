"""Names that settings had in earlier versions, and that others give them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from string import Formatter
from types import MappingProxyType
from typing import Any

from hackmatrix_rl.errors import (
    ConfigError,
    flag,
)

RENAMED: Mapping[str, str] = MappingProxyType(
    {
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
)
"""Fields of `TrainConfig` by the names that they had up to version 0.1."""
ENDS = "0.3"
"""The first version whose command line and TOML files do not take those names any more."""

# What to write here in place of names of CleanRL, Stable-Baselines3, rejax, PureJaxRL and RLlib.
# `{gamma}` stands for a setting, and `{device:gpu}` for a setting with its value.
FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        "activation": "A network of your own decides that: {network:my_module:factory}.",
        "anneal_lr": "Use {learning_rate_schedule:linear} (the default), or constant.",
        "batch_size": "Use {minibatch_size} for the actions of a minibatch; an update learns from "
        "{num_envs} x {num_steps} actions.",
        "checkpoint_freq": "Use {save_interval}, in updates, or {save_interval_minutes}.",
        "checkpoint_frequency": "Use {save_interval}, in updates, or {save_interval_minutes}.",
        "checkpoint_interval": "Use {save_interval}, in updates, or {save_interval_minutes}.",
        "clip_eps": "Use {clip_coef}.",
        "clip_epsilon": "Use {clip_coef}.",
        "clip_param": "Use {clip_coef}.",
        "clip_range": "Use {clip_coef}.",
        "clip_ratio": "Use {clip_coef}.",
        "clip_range_vf": "Use {value_clip}.",
        "clip_vloss": "Use {value_clip} with a number.",
        "cuda": "Use {device:gpu}.",
        "entropy_coef": "Use {ent_coef}.",
        "entropy_coeff": "Use {ent_coef}.",
        "env": "The game is always HackMatrix; hm.Trainer in Python trains in other environments.",
        "env_id": "The game is always HackMatrix; hm.Trainer in Python trains in other "
        "environments.",
        "env_name": "The game is always HackMatrix; hm.Trainer in Python trains in other "
        "environments.",
        "epochs": "Use {update_epochs}.",
        "eval_freq": "Use {eval_interval}, in updates.",
        "exp_name": "Use {run_dir}.",
        "gae": "Use {gae_lambda}.",
        "gpu": "Use {device:gpu}.",
        "grad_clip": "Use {max_grad_norm}.",
        "hidden_size": "Use {width}.",
        "kl_target": "Use {target_kl}, which ends an update early; there is no penalty on the KL.",
        "kl_coeff": "There is no penalty on the KL; {target_kl} ends an update early.",
        "lam": "Use {gae_lambda}.",
        "lambda": "Use {gae_lambda}.",
        "lambda_": "Use {gae_lambda}.",
        "lr": "Use {learning_rate}.",
        "lr_schedule": "Use {learning_rate_schedule}.",
        "max_grad": "Use {max_grad_norm}.",
        "mini_batch_size": "Use {minibatch_size}, in actions.",
        "n_envs": "Use {num_envs}.",
        "n_epochs": "Use {update_epochs}.",
        "n_minibatches": "Use {num_minibatches}.",
        "n_steps": "Use {num_steps}.",
        "n_timesteps": "Use {total_timesteps}.",
        "nminibatches": "Use {num_minibatches}.",
        "norm_adv": "Use {normalize_advantage}, which is the default.",
        "num_env_runners": "One process plays all games; {num_envs} says how many.",
        "num_envs_per_env_runner": "Use {num_envs}, which counts all games.",
        "num_envs_per_worker": "Use {num_envs}, which counts all games.",
        "num_gpus": "Use {mesh:data=N}; by default all of them are used.",
        "num_iterations": "Use {total_timesteps}, in actions.",
        "num_layers": "Use {depth}.",
        "num_minibatch": "Use {num_minibatches}.",
        "num_sgd_iter": "Use {update_epochs}.",
        "num_timesteps": "Use {total_timesteps}.",
        "num_updates": "Use {total_timesteps}, in actions: an update takes {num_envs} x "
        "{num_steps}.",
        "num_workers": "One process plays all games; {num_envs} says how many.",
        "policy": "Use {network}.",
        "ppo_epochs": "Use {update_epochs}.",
        "rollout_fragment_length": "Use {num_steps}.",
        "rollout_length": "Use {num_steps}.",
        "save_freq": "Use {save_interval}, in updates, or {save_interval_minutes}.",
        "save_model": "A run always saves checkpoints; {save_interval_minutes} says how often.",
        "sgd_minibatch_size": "Use {minibatch_size}.",
        "tensorboard_log": "Use {tensorboard}; events go into the run's folder.",
        "timesteps": "Use {total_timesteps}.",
        "torch_deterministic": "Use {deterministic}.",
        "total_steps": "Use {total_timesteps}.",
        "track": "Use {wandb}.",
        "train_batch_size": "An update learns from {num_envs} x {num_steps} actions.",
        "unroll_length": "Use {num_steps}.",
        "update_epoch": "Use {update_epochs}.",
        "value_coef": "Use {vf_coef}.",
        "vf_clip_param": "Use {value_clip}.",
        "vf_coeff": "Use {vf_coef}.",
        "vf_loss_coeff": "Use {vf_coef}.",
        "wandb_entity": "Set the environment variable WANDB_ENTITY.",
        "wandb_project_name": "Use {wandb_project}.",
    }
)


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
    """The replacement of another library's name, in words; empty if there is none.

    Args:
        name: as a field is spelled, in any case.
        is_flag: whether to name settings as flags, not as keys of a TOML file.
    """
    template = FOREIGN.get(name.lower(), "")
    return template.format(**{each: _Setting(each, is_flag) for each in settings_in(template)})


def closest(name: str, known: Iterable[str]) -> str:
    """`Did you mean ...?` if some known name is similar to an unknown one; else empty."""
    known = list(known)
    # A mistyped old name is answered with the new one.
    meant = {each: each for each in known}
    for old, new in RENAMED.items():
        meant |= {spell(old): spell(new) for spell in (str, flag) if spell(new) in known}
    near = get_close_matches(name.lower(), meant, n=1)
    return f"Did you mean {meant[near[0]]}?" if near else ""


def rename(
    settings: Mapping[str, Any], *, source: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Settings under today's names.

    Args:
        settings: values by the names of today or of an earlier version.
        source: where they come from, for the error.

    Returns:
        The settings, and the old names among those that were given.

    Raises:
        ConfigError: if a setting has a value under both names.
    """
    old = tuple(name for name in settings if name in RENAMED)
    try:
        check_one_name(old, settings)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from error
    return {RENAMED.get(name, name): value for name, value in settings.items()}, old


def check_one_name(old: Iterable[str], given: Collection[str], *, is_flag: bool = False) -> None:
    """Raises a ConfigError if a setting is given under its old and its new name."""
    for name in old:
        if RENAMED[name] in given:
            before, now = (flag(n) if is_flag else n for n in (name, RENAMED[name]))
            raise ConfigError(f"{before} is the old name of {now}. Give only {now}.")


def renamed_line(name: str, *, is_flag: bool) -> str:
    """One line for someone who used an old name.

    Args:
        name: the old one.
        is_flag: whether it was a flag, not a key of a TOML file.
    """
    before, now = (flag(n) if is_flag else n for n in (name, RENAMED[name]))
    return f"{before} is now {now}; the old name works until version {ENDS}."


def stored_line(source: Any, old: Iterable[str]) -> str:
    """One line for a user who resumes a run that an earlier version wrote.

    Args:
        source: where its settings are.
        old: the old names there.
    """
    named = ", ".join(f"{name} (now {RENAMED[name]})" for name in old)
    return f"{source}: read under the old names {named}"
