"""`--init`: the initial weights of a training, read from another one."""

import warnings
from collections.abc import Collection
from typing import Any

import equinox as eqx
import jax
from etils import epath

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    MLPActorCritic,
    WithAuxiliaryHead,
    add_auxiliary_head,
    with_value_head,
)
from hackmatrix_rl.runs.checkpoints._finder import Report, in_league, split_member
from hackmatrix_rl.runs.checkpoints._holds import Hold, hold_checkpoint
from hackmatrix_rl.runs.checkpoints._metadata import check_playable, player_config, read_metadata
from hackmatrix_rl.runs.checkpoints._npz import is_npz, load_npz
from hackmatrix_rl.runs.checkpoints._reader import load, why_member
from hackmatrix_rl.runs.config import (
    TrainConfig,
    baseline_algorithm,
    check_alike,
    check_trusted,
    config_class,
    settings_of,
)
from hackmatrix_rl.system.errors import ConfigError, refusing, same_structure


def initial_settings(
    init: str,
    league: str | None,
    *,
    trust_code: bool = False,
    named: Collection[str] = (),
    report: Report = warnings.warn,
) -> dict[str, Any]:
    """The settings that a training must share with the one that it starts from, by name.

    `league` is the new training's. With `trust_code`, the network and the environment among these
    settings may be code, which the new training imports. Settings that the user has `named` replace
    stored ones, whose code is then not imported.
    """
    if is_npz(init):
        with refusing("--init ", "", of=ConfigError):
            other = _settings_of(load_npz(init))
        kept = ("network", "width", "depth", "observation", "value_scale")
        return {name: getattr(other, name) for name in kept}
    with refusing(f"--init {init}: ", "", of=ConfigError):
        folder, other, _ = _start(init, league, report)
        check_trusted(other, folder, trust_code=trust_code, named=("teacher", *named))
    # They decide what the weights mean; rules and actions also have an identity. The league is
    # not among them: an agent of one league may start a training in another.
    alike = [each.name for each in settings_of(other) if each.metadata["alike"]]
    return {name: getattr(other, name) for name in alike}


def initial_weights(
    config: TrainConfig, policy: ActorCritic, *, report: Report = warnings.warn
) -> tuple[ActorCritic, ValueScale | None]:
    """The weights of `config.init`, and their value scale; `None` if the value scale is reset.

    Of several trainings in one program, these are the weights of one, as for `load`: `run#3`, or
    the best. The value scale is kept if both trainings have the same kind. Optimizer and counters
    are reset, and so is a value or auxiliary head of a kind that the other training lacks. The
    code that the other run names is not imported. Only the shapes of `policy` matter, except in
    heads that are reset.
    """
    assert config.init is not None, "nothing to start from"
    if is_npz(config.init):
        return _original_weights(config, policy)
    with refusing(f"--init {config.init}: ", "", of=ConfigError):
        folder, other, hold = _start(config.init, config.league, report)
        check_alike(config, other)
        same_value = other.heads.value == config.heads.value
        there = _with_heads_of(other, policy, same_value=same_value)
        # Its environment is the one in these settings, which are checked.
        member = split_member(config.init)[1]
        loaded = load(str(folder), policy=there, trust_code=True, member=member, report=report)
        same_units = same_structure(other.initial_scale(), config.initial_scale())
        scale = loaded.value_scale() if same_units else None
        del hold
    if member is None and loaded.member is not None:
        report(f"--init {config.init}: {why_member(loaded)}")
    found = loaded.policy
    if not same_value:
        found = _with_own_value(policy, found)
    return _with_own_head(policy, found), scale


def _original_weights(
    config: TrainConfig, policy: ActorCritic
) -> tuple[ActorCritic, ValueScale | None]:
    """`initial_weights` from a file of the original project, whose value is in plain returns."""
    assert config.init is not None
    with refusing("--init ", "", of=ConfigError):
        found = load_npz(config.init)
    other = _settings_of(found)
    with refusing(f"--init {config.init}: ", "", of=ConfigError):
        check_alike(config, other)
    scale = other.initial_scale()
    if other.heads.value != config.heads.value or not same_structure(scale, config.initial_scale()):
        return _with_own_head(policy, _with_own_value(policy, found)), None
    return _with_own_head(policy, found), scale


def _settings_of(network: MLPActorCritic) -> TrainConfig:
    """The settings of a training with this network on the classic observation, in plain returns."""
    sizes = {"width": network.layers[-1].bias.shape[0], "depth": len(network.layers)}
    kind: Any = config_class(baseline_algorithm())
    made: TrainConfig = kind(network="mlp", observation="classic", value_scale="none", **sizes)
    return made


def _with_own_value(policy: ActorCritic, found: Any) -> Any:
    own = _headless(policy).heads.value
    return eqx.tree_at(lambda there: _headless(there).heads.value, found, own)


def _headless(policy: Any) -> Any:
    return policy.headless if isinstance(policy, WithAuxiliaryHead) else policy


def _with_heads_of(other: TrainConfig, policy: ActorCritic, *, same_value: bool) -> ActorCritic:
    """The network with value and auxiliary heads of the kinds of the other training."""
    headless = _headless(policy)
    if not same_value:
        headless = with_value_head(headless, other.heads.value, key=jax.random.key(0))
    if not other.heads.auxiliary:
        return headless
    wins = other.heads.victory
    return add_auxiliary_head(headless, other.spec(), wins=wins, key=jax.random.key(0))


def _with_own_head(policy: ActorCritic, found: ActorCritic) -> ActorCritic:
    """`found` with an auxiliary head if `policy` has one: that of `found` if the kinds agree."""
    headless = _headless(found)
    if not isinstance(policy, WithAuxiliaryHead):
        return headless
    if isinstance(found, WithAuxiliaryHead):
        both = found.auxiliary.won, policy.auxiliary.won
        if (both[0] is None) == (both[1] is None):
            return found
    return eqx.tree_at(lambda wrapper: wrapper.headless, policy, headless)


def _start(
    init: str, league: str | None, report: Report
) -> tuple[epath.Path, TrainConfig, Hold | None]:
    """The checkpoint to start from, the settings of its training, and what holds it."""
    name = in_league(split_member(init)[0], league)
    folder, hold = hold_checkpoint(name, report=report)
    metadata = read_metadata(folder)
    check_playable(folder, metadata)
    return folder, player_config(folder, metadata), hold
