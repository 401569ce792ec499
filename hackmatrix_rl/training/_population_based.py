"""Population-based training: members of a population copy each other and perturb settings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.system.errors import ArgumentError, finite, is_key, whole
from hackmatrix_rl.training._algorithm import Algorithm, State
from hackmatrix_rl.training._member_metrics import MEMBER
from hackmatrix_rl.training._population import Population
from hackmatrix_rl.training._program import first_state
from hackmatrix_rl.training._report import Dispatch, Metrics, UpdateReport
from hackmatrix_rl.training.sharding import replicated_shardings

BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    dict.fromkeys(("gamma", "gae_lambda", "epsilon", "epsilon_final"), (0.0, 1.0))
)
"""The default bounds of settings, by name; other settings must be at least 0."""

_KEY = 2**32 - 1  # folded into the first member's key for the draws of the population


class Tournament(eqx.Module):
    """The state that population-based training adds to a population's.

    Attributes:
        settings: the settings that vary, by name, with the value of each member.
        total: the sum of the metric over the interval so far, by member.
        count: the divisor of `total`, such as the number of episodes.
        parent: the member that each member copied at the last exploit; initially itself.
        key: constant; every draw is a function of the key and the number of updates.
    """

    settings: dict[str, Float32[Array, " members"]]
    total: Float32[Array, " members"]
    count: Float32[Array, " members"]
    parent: Int32[Array, " members"]
    key: Key[Array, ""]


class TournamentReport(eqx.Module):
    """The report of an update of all members. Reports can be added.

    `settings` are those of the update. The other fields are 0 except in an update that ends with an
    exploit. `ranked` is whether a member has a fitness.
    """

    members: Any
    settings: dict[str, Float32[Array, " members"]]
    exploits: Int32[Array, ""]
    parent: Int32[Array, " members"]
    fitness: Float32[Array, " members"]
    ranked: Int32[Array, " members"]


class PopulationBasedTraining(Population[State]):
    """A population whose worst members copy the best ones and perturb their settings.

        rates = 1e-4, 3e-4, 1e-3, 3e-3
        members = [hm.PPO(environment, policy, learning_rate=rate) for rate in rates]
        population = hm.PopulationBasedTraining(members, interval=20)

    The settings are the numbers in which the members differ; see `Population`. Every `interval`
    updates, the members are ranked by the mean of a metric over these updates. Each of the worst
    `fraction` copies a random one of equally many best members (exploit): weights, optimizer state
    and all other state of the learner. It keeps its own environments, their data such as a replay
    buffer, and its random keys. It then changes each copied setting (explore): it multiplies or
    divides it by `perturb`, or with probability `resample` takes an initial value of a random
    member.

    A setting in [0, 1] is perturbed by its distance to the nearer end: with a `perturb` of 1.25,
    gamma changes from 0.99 to 0.9875 or 0.992. A member without an episode in the interval has no
    fitness and is neither copied nor replaced. A member whose metric is not finite ranks last and
    is not copied.

    Exploits are in the compiled program and functions of the keys, so a training repeats and
    resumes bit for bit. The metrics of a dispatch include the settings of each member
    (`member/3/setting/gamma`), and at an exploit its fitness (`member/3/fitness`) and the member
    that it continues from (`member/3/parent`).

    Source: Jaderberg et al. 2017, "Population based training of neural networks".

    Attributes:
        interval: updates between exploits.
        fraction: fraction of the members that is replaced.
        metric: the name of the metric.
        perturb: factor by which a setting is multiplied or divided.
        resample: probability of an initial value instead.
        burn_in: updates before the first exploit.
        bounds: the minimum and the maximum of settings, by name.
        names: the name of the setting of each array of `varied`.
    """

    interval: int = eqx.field(static=True)
    fraction: float = eqx.field(static=True)
    metric: str = eqx.field(static=True)
    perturb: float = eqx.field(static=True)
    resample: float = eqx.field(static=True)
    burn_in: int = eqx.field(static=True)
    bounds: tuple[tuple[str, tuple[float, float]], ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        members: Algorithm[State] | Sequence[Algorithm[State]],
        size: int | None = None,
        *,
        interval: int,
        fraction: float = 0.25,
        metric: str = "return",
        perturb: float = 1.25,
        resample: float = 0.0,
        burn_in: int = 0,
        bounds: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    ) -> None:
        """Makes a population of members that differ in at least one number.

        Args:
            members: see `Population`.
            size: see `Population`.
            interval: updates between exploits, at least 1.
            fraction: fraction of the members that is replaced, in (0, 0.5]; rounded down to whole
                members.
            metric: the name of a metric to maximize, from the algorithm's report: `return` and
                other episode metrics, metrics of the loss, or means over updates.
            perturb: factor above 1.
            resample: probability in [0, 1].
            burn_in: updates before the first exploit.
            bounds: the minimum and the maximum of a setting, by name. By default, 0 and 1 for
                `gamma`, `gae_lambda` and `epsilon`, and at least 0 for others.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the members do not differ in a number;
                also what `Population` raises.
        """
        super().__init__(members, size)
        self.interval = whole("interval", interval)
        self.burn_in = whole("burn_in", burn_in, 0)
        self.fraction, self.perturb = finite("fraction", fraction), finite("perturb", perturb)
        self.resample, self.metric = finite("resample", resample), metric
        if not 0 < self.fraction <= 0.5:
            raise ArgumentError(
                "{fraction}: expected more than 0 and at most 0.5, since the best are copied",
                fraction=fraction,
            )
        if _replaced(self.fraction, self.size) < 1:
            least = math.ceil(1 / self.fraction)
            raise ArgumentError(
                "{fraction} of "
                f"{self.size} members are none; use {least} members or more, or "
                + (f"{{fraction:={1 / self.size:.4g}}}" if self.size > 1 else "one training"),
                fraction=fraction,
            )
        if not self.perturb > 1:
            raise ArgumentError("{perturb}: expected a factor above 1: {perturb:=1.25}",
                                perturb=perturb)  # fmt: skip
        if not 0 <= self.resample <= 1:
            raise ArgumentError("{resample}: expected a probability, 0 to 1", resample=resample)
        self.names = _names(self.varied)
        if not self.names:
            raise ArgumentError(
                "{interval}: the members have the same settings, so there is nothing to explore; "
                "use members that differ in a number, such as learning_rate",
                interval=interval,
            )
        self.bounds = _bounds(bounds, self._by_name(self.varied))

    def check(self, policy: ActorCritic) -> None:
        """Also traces an update, to check that its report has the metric."""
        super().check(policy)
        eqx.filter_eval_shape(self, first_state(self, policy))

    def updates_until_due(self, state: State) -> int:
        """Updates until the next possible exploit, where a dispatch ends."""
        return self.interval - int(state.update) % self.interval

    def init(self, key: Key[Array, "*members"], policy: ActorCritic) -> State:
        """The state of `Population`, with a `Tournament` as one more field."""
        state = super().init(key, policy)
        nothing = jnp.zeros(self.size, jnp.float32)
        first = key if not key.ndim else key[0]
        return _extended(
            state,
            Tournament(
                settings=self._by_name(self.varied),
                total=nothing,
                count=nothing,
                parent=jnp.arange(self.size, dtype=jnp.int32),
                key=jax.random.fold_in(first, jnp.uint32(_KEY)),
            ),
        )

    def __call__(self, state: State) -> tuple[State, PyTree[Array]]:
        """One update of every member, and an exploit if one is due."""
        plain, before = _apart(state)
        varied = jax.tree.unflatten(
            jax.tree.structure(self.varied), [before.settings[name] for name in self.names]
        )
        now = eqx.tree_at(lambda each: each.varied, self, varied)
        plain, report = super(PopulationBasedTraining, now).__call__(plain)

        total, count = self._totals(report)
        total, count = before.total + total, before.count + count
        ranked = count > 0
        fitness = jnp.where(ranked, total / jnp.maximum(count, 1), 0.0)
        ends = plain.update % self.interval == 0
        due = ends & (plain.update >= self.burn_in)
        copied, kept = self._learned(plain)
        arrays, rest = eqx.partition(copied, lambda leaf: eqx.is_array(leaf) and not is_key(leaf))
        key = jax.random.fold_in(before.key, plain.update)

        def exploit(_: None) -> tuple[Any, dict[str, Array], Int32[Array, " members"]]:
            choice, change = jax.random.split(key)
            parent = self.parents(fitness, ranked, choice)
            learned = jax.tree.map(lambda leaf: leaf[parent], arrays)
            return learned, self.explored(before.settings, parent, change), parent

        def keep(_: None) -> tuple[Any, dict[str, Array], Int32[Array, " members"]]:
            return arrays, before.settings, before.parent

        arrays, settings, parent = jax.lax.cond(due, exploit, keep, None)
        after = Tournament(
            settings=settings,
            total=jnp.where(ends, 0.0, total),
            count=jnp.where(ends, 0.0, count),
            parent=parent,
            key=before.key,
        )
        plain = _made(type(plain), {**eqx.combine(arrays, rest), **kept})
        return _extended(plain, after), TournamentReport(
            members=report,
            settings=before.settings,
            exploits=due.astype(jnp.int32),
            parent=jnp.where(due, parent, 0),
            fitness=jnp.where(due, fitness, 0.0),
            ranked=(due & ranked).astype(jnp.int32),
        )

    def parents(
        self,
        fitness: Float32[Array, " members"],
        ranked: Bool[Array, " members"],
        key: Key[Array, ""],
    ) -> Int32[Array, " members"]:
        """The member that each continues from: a random one of the best for each of the worst.

        Only `ranked` members take part. Ties are broken by the index of the member.
        """
        known = ranked & jnp.isfinite(fitness)
        # Best first, then members whose fitness is not finite, then members without a fitness.
        order = jnp.lexsort((jnp.where(known, -fitness, jnp.inf), ~ranked))
        rank = jnp.argsort(order)
        number = jnp.sum(ranked)
        sizes = [_replaced(self.fraction, count) for count in range(self.size + 1)]
        worst = jnp.asarray(sizes, jnp.int32)[number]
        best = jnp.minimum(worst, jnp.sum(known))
        drawn = order[jax.random.randint(key, (self.size,), 0, jnp.maximum(best, 1))]
        replaced = (rank >= number - worst) & (rank < number) & (best > 0)
        return jnp.where(replaced, drawn, jnp.arange(self.size)).astype(jnp.int32)

    def explored(
        self,
        settings: Mapping[str, Float32[Array, " members"]],
        parent: Int32[Array, " members"],
        key: Key[Array, ""],
    ) -> dict[str, Float32[Array, " members"]]:
        """The settings after an exploit; only members that copied another one change theirs."""
        start, bounds, shape = self._by_name(self.varied), dict(self.bounds), (self.size,)
        replaced = parent != jnp.arange(self.size)
        found = {}
        for number, (name, values) in enumerate(sorted(settings.items())):
            keys = jax.random.split(jax.random.fold_in(key, number), 3)
            up = jax.random.bernoulli(keys[0], shape=shape)
            factor = jnp.where(up, self.perturb, 1 / self.perturb)
            low, high = bounds[name]
            copied = values[parent]
            moved = copied * factor
            if BOUNDS.get(name) == (0.0, 1.0):
                moved = jnp.where(copied > 0.5, 1 - (1 - copied) / factor, moved)
            if self.resample:
                again = jax.random.bernoulli(keys[1], self.resample, shape)
                drawn = jax.random.randint(keys[2], shape, 0, self.size)
                moved = jnp.where(again, start[name][drawn], moved)
            found[name] = jnp.where(replaced, jnp.clip(moved, low, high), values)
        return found

    def metrics(self, report: Any, dispatch: Dispatch) -> Metrics:
        """Also the settings of each member, and at an exploit its fitness and parent."""
        found = super().metrics(report.members, dispatch)
        own: dict[str, float] = {}
        for member in range(self.size):
            for name, values in report.settings.items():
                own[f"{MEMBER}{member}/setting/{name}"] = float(values[member]) / dispatch.count
            if int(report.exploits) == 1:
                own[f"{MEMBER}{member}/parent"] = int(report.parent[member])
                if int(report.ranked[member]):
                    own[f"{MEMBER}{member}/fitness"] = float(report.fitness[member])
        return replace(found, extra={**found.extra, **own})

    def member(self, state: State, number: int) -> State:
        """The state of one member, as in a single training."""
        return super().member(_apart(state)[0], number)

    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """The shardings of a population; the `Tournament` is replicated."""
        plain, own = _apart(state)
        return _extended(super().shardings(plain), replicated_shardings(self.mesh, own))

    def _totals(self, report: Any) -> tuple[Array, Array]:
        """The sums of the metric and their divisors. Raises an ArgumentError if there is none."""
        leaves = jax.tree.leaves(report, is_leaf=lambda node: isinstance(node, UpdateReport))
        found = [each for each in leaves if isinstance(each, UpdateReport)]
        known = found[0].totals() if found else {}
        if self.metric in known:
            total, count = (each.astype(jnp.float32) for each in known[self.metric])
            return total, count
        there = f"use one of {', '.join(sorted(known))}"
        if not known:
            kind = type(self.algorithm).__name__
            there = f"{kind} returns no UpdateReport, whose metrics can be ranked"
        raise ArgumentError(f"{{metric}}: no such metric; {there}", metric=self.metric)

    def _learned(self, state: State) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of a state that an exploit copies, and the other fields."""
        kept = {"update", "env_steps", *(name.partition(".")[0] for name in self.reinit_fields)}
        fields = vars(state).items()
        copied = {name: part for name, part in fields if name not in kept}
        return copied, {name: part for name, part in fields if name in kept}

    def _by_name(self, varied: PyTree[Array]) -> dict[str, Float32[Array, " members"]]:
        """The settings of all members, by name."""
        return dict(zip(self.names, jax.tree.leaves(varied), strict=True))


def _replaced(fraction: float, members: int) -> int:
    """The number of members that are replaced: `fraction * members`, rounded down."""
    return math.floor(fraction * members + 1e-9)  # 0.29 * 100 is 28.999999999999996


def _names(varied: PyTree[Array]) -> tuple[str, ...]:
    """The name of each array: its field, or the field that has its schedule."""
    found: dict[str, Any] = {}
    names = []
    for path, values in jax.tree.leaves_with_path(varied):
        fields = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
        name = fields[-1]
        if name in ("value", "initial", "final"):
            name = fields[-2] + ("_final" if name == "final" else "")
        # Modules that share a field with equal values share the setting.
        if not np.array_equal(found.setdefault(name, values), values):
            name = jax.tree_util.keystr(path).lstrip(".")
        names.append(name)
    return tuple(names)


def _bounds(
    given: Mapping[str, tuple[float, float]], settings: Mapping[str, Array]
) -> tuple[tuple[str, tuple[float, float]], ...]:
    """The bounds of each setting: given ones, else the defaults."""
    for name in given:
        if name not in settings:
            raise ArgumentError(
                f"{{bounds:only}}: {name} does not differ between the members; use "
                f"{', '.join(settings)}",
                bounds=given,
            )
    found = {name: given.get(name, BOUNDS.get(name, (0.0, math.inf))) for name in settings}
    for name, (low, high) in found.items():
        values = np.asarray(settings[name])
        if not low < high or values.min() < np.float32(low) or values.max() > np.float32(high):
            raise ArgumentError(
                f"{{bounds:only}}: {name} begins with {values.min():g} to {values.max():g}, which "
                f"are not all in {low:g} to {high:g}",
                bounds=given,
            )
    return tuple(found.items())


@cache
def _extended_class(kind: Any) -> Any:
    """A subclass of an algorithm's state with a field for a `Tournament`.

    The other fields keep their names, so checkpoints, resuming and the methods of the algorithm
    work unchanged.
    """
    body = {
        "__module__": kind.__module__,
        "__doc__": f"`{kind.__name__}` with the state of population-based training.",
        "__annotations__": {"tournament": Any},
        "tournament": None,
    }
    return type(f"{kind.__name__}InTournament", (kind,), body)


def _extended(state: Any, tournament: Any) -> Any:
    kind: Any = type(state)
    return _made(_extended_class(kind), {**vars(state), "tournament": tournament})


def _apart(state: Any) -> tuple[Any, Any]:
    """The inverse of `_extended`: the state and the tournament."""
    fields = dict(vars(state))
    own = fields.pop("tournament")
    return _made(type(state).__base__, fields), own


def _made(kind: Any, fields: Mapping[str, Any]) -> Any:
    """A module with these fields, made as JAX unflattens one, without a check of shapes.

    A state declares the shapes of a single training.
    """
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
