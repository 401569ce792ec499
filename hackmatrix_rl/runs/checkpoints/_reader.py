"""Reads checkpoints.

A checkpoint is a folder whose name is the number of its update. It has

- `policy`: the arrays of the policy, enough to play;
- `training`: the arrays of the full training state, with random keys and environments, enough
  to resume;
- `metadata.json`: format version, game, config, run, counters, and which arrays are random keys
  (`_metadata.py`);
- `manifest.json`: written last (`_manifest.py`).

A checkpoint stores no code: the config says how to build the modules. A custom module is imported
only if the caller trusts it (docs/security.md).
"""

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from hackmatrix_rl.agent import ValueScale, check_is_policy, ends_of
from hackmatrix_rl.agent.networks import NETWORKS, ActorCritic
from hackmatrix_rl.env import Environment, whole_games
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.checkpoints._arrays import VALUE_SCALE, read_arrays
from hackmatrix_rl.runs.checkpoints._finder import CARD, Report
from hackmatrix_rl.runs.checkpoints._holds import Hold, hold_checkpoint
from hackmatrix_rl.runs.checkpoints._hub import fetched, is_on_hub
from hackmatrix_rl.runs.checkpoints._members import (
    best_by,
    best_of,
    is_out,
    of_member,
    of_members,
    playing,
    playing_member,
)
from hackmatrix_rl.runs.checkpoints._metadata import check_playable, player_config, read_metadata
from hackmatrix_rl.runs.checkpoints._saved_run import (
    Agent,
    agent_of,
    counters_of,
    known_config,
    modules_of,
    read_agent,
    saved_members,
    saved_run,
    scale_of,
    settings_of_saved,
)
from hackmatrix_rl.runs.config import RunConfig, TrainConfig, check_trusted, schedule_of
from hackmatrix_rl.system import read_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing
from hackmatrix_rl.training import (
    Stored,
    Tree,
    check_number,
    is_tree_file,
    leaves_by_path,
    read_tree,
)

Module = TypeVar("Module", bound=eqx.Module)
Policy = TypeVar("Policy", bound=ActorCritic)

POLICY = "policy"
"""The kind of file that `save` writes."""


@dataclass(frozen=True)
class Loaded:
    """A trained policy with its environment and config."""

    policy: ActorCritic  #: The policy, ready to act.
    environment: Environment  #: The environment of its training.
    config: TrainConfig | None  #: The config of its training; `None` if `agent` gave the modules.
    folder: epath.Path  #: Folder of the checkpoint.
    metadata: Mapping[str, Any]  #: The stored metadata: `update`, `counters`, `versions` ...
    member: int | None = None  #: The number of its training, of several in one program.
    # The value scale and `greedy` of modules that were composed in Python.
    _saved: tuple[ValueScale | None, bool] | None = None
    _members: tuple[str, ...] = ()  # the trainings in words, of several
    _hold: Hold | None = None  # `value_scale` and `card` read the checkpoint later

    def value_scale(self) -> ValueScale | None:
        """The scale of the policy's value, read from the checkpoint; `None` if it has none.

        Raises:
            ConfigError: the scale cannot be read, or is not finite.
        """
        if self._saved is not None:
            return self._saved[0]
        assert self.config is not None
        scale = self.config.initial_scale() if self.config.has_value else None
        if scale is None or not leaves_by_path(scale):
            return scale
        stored = read_arrays(self.folder, "training", under=VALUE_SCALE).under(VALUE_SCALE)
        stored = of_member(self.folder, stored, scale, self.member)
        if stored.mismatch(scale) is not None:
            return None
        _check_finite(self.folder, stored, VALUE_SCALE)
        return to_device(stored.fill(scale))

    @property
    def greedy(self) -> bool:
        """Whether the policy plays greedily, because its logits are Q-values."""
        if self._saved is not None:
            return self._saved[1]
        assert self.config is not None
        return self.config.greedy

    def agent(self, *, greedy: bool | None = None) -> PolicyAgent:
        """The policy as a player with its value scale, which `Searcher` needs.

        Args:
            greedy: takes the likeliest action instead of sampling one; by default, `self.greedy`.

        Raises:
            ConfigError: the value scale cannot be read.
        """
        agent = PolicyAgent(
            self.policy, greedy=self.greedy, value_scale=self.value_scale(), gamma=self.gamma
        )
        if greedy is None or greedy == self.greedy:
            return agent
        return (
            agent.likeliest(self.environment)
            if greedy
            else dataclasses.replace(agent, greedy=False)
        )

    @property
    def card(self) -> Mapping[str, Any] | None:
        """The card of a shipped agent: its training and results; `None` for a run.

        Raises:
            ConfigError: it cannot be read.
        """
        with refusing(f"{self.folder / CARD}: ", of=DamagedFileError):
            return read_json(self.folder / CARD)

    @property
    def gamma(self) -> float | None:
        """The discount at the end of the training; `None` if `hm.SaveRun` stored no single one."""
        if self._saved is not None:
            stored = self.metadata["config"].get("gamma")
            return float(stored) if isinstance(stored, float) and 0 <= stored <= 1 else None
        assert self.config is not None
        schedule = schedule_of(self.config.gamma, steps=self.config.total_timesteps)
        return float(ends_of(schedule)[-1])


@overload
def load(
    run: str | Path, *, like: Policy, member: int | str | None = ..., report: Report = ...
) -> Policy: ...


@overload
def load(
    run: str | Path,
    *,
    policy: ActorCritic | None = ...,
    network: str | None = ...,
    agent: Agent | None = ...,
    trust_code: bool = ...,
    best: bool = ...,
    member: int | str | None = ...,
    report: Report = ...,
) -> Loaded: ...


def load(
    run: str | Path,
    *,
    like: Policy | None = None,
    policy: ActorCritic | None = None,
    network: str | None = None,
    agent: Agent | None = None,
    trust_code: bool = False,
    best: bool = False,
    member: int | str | None = None,
    report: Report = warnings.warn,
) -> Loaded | Policy:
    """Loads the newest policy of a run, the policy of one checkpoint, or a file of `hm.save`.

    If a checkpoint is damaged, `load` reports it and uses the one before it.

    Args:
        run: `pretrained` (or `pretrained/no-rewind`, or an older version, `pretrained@1`) for the
            package's agent, a run's folder, its name under `runs/`, a folder of checkpoints (also
            remote: `gs://...`), one checkpoint, an agent on the Hugging Face Hub
            (`hf://USER/NAME@REVISION`), or a file of `hm.save`, which needs `like`.
        like: a network of the same sizes; its weights are ignored. The call then returns this
            network with the stored weights, and reads no settings.
        policy: a network of the same shapes to fill, for networks that the config cannot build.
            Its weights are ignored. The config's network is then not imported.
        network: the network to build instead of the config's. For a custom network, give its
            `module:factory` here.
        agent: the modules of a run that `hm.SaveRun` wrote: the trainer, its algorithm, a pair
            `(environment, policy)`, a function that makes one of these, or its `module:function`.
            Their weights are ignored. A run of built-in modules needs none.
        trust_code: imports the `module:factory` of the config's network or environment, which
            runs its code. Use it only if you trust the author.
        best: takes the checkpoint with the highest mean return instead of the newest.
        member: for a run of several trainings in one program (`--seeds`, `--vary`), the number of
            one, from 0, or the name of a metric: the training with its highest mean over the last
            tenth of the training so far, or with a minus (`"-value_loss"`) the lowest. By default,
            it is the one with the highest return that is finite and was not left out as unhealthy
            (`--stop-unhealthy-members`).
        report: takes a message about each skipped checkpoint or training.

    Returns:
        The policy with its environment and settings; with `like`, the policy alone.

    Raises:
        ConfigError: there is no checkpoint; its format, game or network does not fit; its weights
            are not finite; it has no such member; or its network or environment is custom code and
            `trust_code` is false.
        TypeError: `like` is not a policy, or `policy` or `network` is given, too.
    """
    if like is not None:
        check_is_policy(like)
        if policy is not None or network is not None:
            raise TypeError("like is the network: leave policy and network out")
    if is_on_hub(run):
        run = fetched(str(run))
    if is_tree_file(run):
        if like is None:
            raise ConfigError(
                f"{run}: holds the arrays of a policy without its network. Build a network of the "
                "same sizes: hm.load(path, like=network)"
            )
        stored = read_tree(run, POLICY)
        wrong = stored.mismatch(like, stored="the file", here="the network's layers")
        if wrong is not None:
            raise ConfigError(f"{run}: does not fit the network: {wrong}.")
        _check_finite(run, stored)
        return to_device(stored.fill(like))
    if (saved := saved_run(run)) is not None:
        return _load_saved(
            saved, like=like, policy=policy, network=network, agent=agent, trust_code=trust_code,
            member=member, report=report,
        )  # fmt: skip
    folder, hold = hold_checkpoint(run, best=best, report=report)
    if agent is not None:
        raise ConfigError(
            f"{run}: is not a run of hm.SaveRun, and its settings determine its modules. Leave "
            "agent (--agent) out."
        )
    metadata = read_metadata(folder)
    check_playable(folder, metadata)
    if isinstance(member, str):
        member = best_of(folder, metadata["counters"], member)
    if member is not None and is_out(member, metadata["counters"]):
        report(f"{folder}: training {member} was left out as unhealthy")
    if like is not None:
        return to_device(restore(folder, "policy", like, member=member, report=report))
    config = player_config(folder, metadata)
    own = network is not None or policy is not None
    if network is not None:
        config = dataclasses.replace(config, network=network)
    named = ("teacher", *(["network"] if own else []))
    check_trusted(config, folder, trust_code=trust_code, named=named)
    # Outside of any trace, which would make tracers of arrays.
    environment = whole_games(config.environment())
    if policy is None:
        policy = _without_weights(config)
    if member is None and config.members > 1:
        member = playing_member(folder, config.members, report)
    return Loaded(
        policy=to_device(restore(folder, "policy", policy, member=member, report=report)),
        environment=environment,
        config=config,
        folder=folder,
        metadata=MappingProxyType(metadata),
        member=member,
        _members=tuple(config.member_names),
        _hold=hold,
    )


def _load_saved(
    folder: Path,
    *,
    like: Policy | None,
    policy: ActorCritic | None,
    network: str | None,
    agent: Agent | None,
    trust_code: bool,
    member: int | str | None,
    report: Report,
) -> Loaded | Policy:
    """`load` of a run of `hm.SaveRun`."""
    stored, settings = read_agent(folder), settings_of_saved(folder, report)
    metadata = {"config": settings, "counters": counters_of(stored)}
    if isinstance(member, str):
        member = best_of(folder, metadata["counters"], member)
    if like is not None:
        return _filled(folder, stored, metadata, like, member, report)[0]
    agent = agent_of(folder, settings, agent, trust_code=trust_code)
    config = algorithm = None
    if agent is not None:
        environment, found, algorithm = modules_of(agent)
    else:
        config = known_config(folder, settings, network, trust_code=trust_code)
        environment = whole_games(config.environment())
        found = config.policy(key=jax.random.key(0)) if policy is None else policy
    filled, member = _filled(folder, stored, metadata, found, member, report)
    units = scale_of(algorithm, config)
    there = stored.under(".value_scale")
    if member is not None and member < there.fewest:
        there = there.member(member)
    scale = None
    if units is not None and there.mismatch(units) is None:
        scale = to_device(there.fill(units))
    greedy = settings.get("greedy") is True if algorithm is None else algorithm.greedy
    return Loaded(
        policy=filled,
        environment=environment,
        config=config,
        folder=epath.Path(folder),
        metadata=MappingProxyType(metadata),
        member=member,
        _saved=(scale, greedy),
        _members=tuple(saved_members(settings, stored.under(".policy").members(found))),
    )


def playing_of_saved(folder: Path, like: ActorCritic, report: Report) -> int | None:
    """The training that plays of a run of `hm.SaveRun`; `None` for a single training.

    `like` is a policy of the same shapes. See `playing_member`.

    Raises:
        ConfigError: the file of the agent cannot be read.
    """
    stored = read_agent(folder)
    size = stored.under(".policy").members(like)
    if size is None:
        return None
    metadata = {"config": settings_of_saved(folder, report), "counters": counters_of(stored)}
    return playing(folder, metadata, _parts(stored), size, report)


def _parts(stored: Stored) -> tuple[Stored, Stored]:
    """The policies of a run of `hm.SaveRun`, and their value scales."""
    return stored.under(".policy"), stored.under(".value_scale")


def _filled(
    folder: Path,
    agent: Stored,
    metadata: Mapping[str, Any],
    like: Policy,
    member: int | None,
    report: Report,
) -> tuple[Policy, int | None]:
    """A network with the stored weights, and the number of their training, of several."""
    stored = agent.under(".policy")
    size = stored.members(like)
    if size is not None:
        if member is None:
            member = playing(folder, metadata, _parts(agent), size, report)
        with refusing(f"{folder}: "):
            check_number(member, size)
        stored = stored.member(member)
    elif member is not None:
        raise ConfigError(f"{folder}: holds one training, not several. Leave member out.")
    if (wrong := stored.mismatch(like, stored="the run", here="these modules")) is not None:
        raise ConfigError(f"{folder}: was trained with other modules: {wrong}.")
    _check_finite(folder, stored)
    return to_device(stored.fill(like)), member


def _without_weights(config: RunConfig) -> ActorCritic:
    """The network of a config, to fill with stored weights; only shapes for built-in networks."""

    def build() -> ActorCritic:
        return config.policy(key=jax.random.key(0))

    if config.network not in NETWORKS:  # custom code may not be traceable
        return build()
    shapes: ActorCritic = eqx.filter_eval_shape(build)
    return shapes


def to_device(module: Module) -> Module:
    """A module with its NumPy arrays as JAX arrays."""
    arrays, rest = eqx.partition(module, lambda leaf: isinstance(leaf, np.ndarray))
    moved: Module = eqx.combine(jax.tree.map(jnp.asarray, arrays), rest)
    return moved


def restore(
    folder: epath.Path,
    part: str,
    like: Tree,
    *,
    member: int | None = None,
    report: Report = warnings.warn,
) -> Tree:
    """A part of a checkpoint, `policy` or `training`, as a tree with arrays in host memory.

    The structure and all leaves that are not arrays come from `like`. For several trainings in one
    program, this is the part of `member`, by default of `playing_member`.

    Raises:
        ConfigError: the checkpoint's arrays do not fit the tree, an array of a policy is not
            finite, or there is no such member.
    """
    stored = of_member(folder, read_arrays(folder, part), like, member, report)
    if (wrong := stored.mismatch(like)) is not None:
        raise ConfigError(f"{folder}: not of this network and these settings: {wrong}.")
    if part == "policy":
        _check_finite(folder, stored)
    return stored.fill(like)


def why_member(loaded: Loaded) -> str:
    """The training of an agent, of several, and why it was chosen, in words."""
    assert loaded.member is not None
    metric = best_by(loaded.metadata)
    known = metric is not None and of_members(loaded.metadata["counters"], metric)
    why = f"it has the highest {metric} over the last tenth" if known else "it is the first"
    names = loaded._members
    return f"{names[loaded.member]}, because {why} of {len(names)} trainings"


def _check_finite(source: epath.PathLike, policy: Stored, under: str = "") -> None:
    """Refuses a policy that is not finite. A resumed training checks this itself."""
    if (name := policy.not_finite()) is not None:
        raise ConfigError(
            f"{source}: its array {under}{name} holds NaN or infinity: the training went wrong "
            "before. Use an earlier checkpoint of the run, or another run."
        )
