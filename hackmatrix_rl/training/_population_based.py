"""Population-based training: the members of a population copy and change each other's settings."""

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
"""The bounds of settings, by name; all other settings have only the bound 0."""

_KEY = 2**32 - 1  # folded into the first member's key, for the draws of the population


class Tournament(eqx.Module):
    """What population-based training adds to the state of a population.

    Attributes:
        settings: the settings of each member that vary, by name.
        total: the sum of the metric over the interval so far, by member.
        count: of what `total` is a sum: episodes, say.
        parent: the member that each member continued from at the last exploit; at first itself.
        key: constant; every draw is a function of it and of the number of updates.
    """

    settings: dict[str, Float32[Array, " members"]]
    total: Float32[Array, " members"]
    count: Float32[Array, " members"]
    parent: Int32[Array, " members"]
    key: Key[Array, ""]


class TournamentReport(eqx.Module):
    """The report of an update of all members. Reports can be added.

    `settings` are those that the update used. The others are 0 but in an update that ends with an
    exploit; `ranked` is whether a member had a fitness.
    """

    members: Any
    settings: dict[str, Float32[Array, " members"]]
    exploits: Int32[Array, ""]
    parent: Int32[Array, " members"]
    fitness: Float32[Array, " members"]
    ranked: Int32[Array, " members"]


class PopulationBasedTraining(Population[State]):
    """A population whose worst members continue from the best, with settings near theirs.

        rates = 1e-4, 3e-4, 1e-3, 3e-3
        members = [hm.PPO(environment, policy, learning_rate=rate) for rate in rates]
        population = hm.PopulationBasedTraining(members, interval=20)

    The settings are the numbers in which the members differ, see `Population`. At the end of every
    `interval` updates the members are ranked by the mean of a metric over these updates. Each of
    the worst `fraction` of them becomes a copy of a random one of as many best ones (exploit): its
    weights, its optimizer's state and all else that it learned. It keeps its own environments and
    what they recorded, such as a replay buffer, and its random keys. Then it changes each copied
    setting (explore): it multiplies or divides it by `perturb`, or with the probability
    `resample` takes one of the values that the members began with.

    A setting in [0, 1] is changed by its distance to the nearer end: with 1.25, gamma goes from
    0.99 to 0.9875 or 0.992. A member without an episode in the interval has no fitness: it is
    neither copied nor replaced. One whose metric is not finite ranks last and is not copied.

    All of it is in the compiled program, and a function of the keys: a training repeats and resumes
    bit for bit. The metrics of a dispatch have the settings of each member
    (`member/3/setting/gamma`); at an exploit also its fitness (`member/3/fitness`) and the number
    of the member from which it continues (`member/3/parent`).

    Source: Jaderberg et al. 2017, "Population based training of neural networks".

    Attributes:
        interval: updates between exploits.
        fraction: share of the members that is replaced.
        metric: the name of the metric.
        perturb: factor by which a setting is multiplied or divided.
        resample: probability of a value from the start instead.
        burn_in: updates before the first exploit.
        bounds: the least and the largest value of settings, by name.
        names: of the settings, one for each array of `varied`.
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
        """Makes a population that trains so.

        Args:
            members: see `Population`. They differ in a number.
            size: see `Population`.
            interval: updates between exploits, at least 1.
            fraction: share of the members that is replaced, above 0 and at most 0.5; rounded down
                to whole members.
            metric: the name of a metric of an algorithm's report, the larger the better: `return`
                and other numbers of episodes, numbers of the loss, or means over updates.
            perturb: factor above 1.
            resample: probability in [0, 1].
            burn_in: updates before the first exploit.
            bounds: the least and the largest value of a setting, by name. By default, 0 and 1 for
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
                "{fraction}: expected more than 0 and at most 0.5, since the others are copied",
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
                "{interval}: the members have the same settings, and so there is nothing to "
                "explore; use members that differ in a number, such as learning_rate",
                interval=interval,
            )
        self.bounds = _bounds(bounds, self._by_name(self.varied))

    def check(self, policy: ActorCritic) -> None:
        """Also traces an update, to see that its report has the metric."""
        super().check(policy)
        eqx.filter_eval_shape(self, first_state(self, policy))

    def updates_until_due(self, state: State) -> int:
        """The updates until the next exploit, at which a dispatch ends."""
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
        """One update of every member, and perhaps an exploit."""
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
        arrays, rest = eqx.partition(copied, _is_copied)
        key = jax.random.fold_in(before.key, plain.update)

        def exploit(_: None) -> tuple[Any, dict[str, Array], Int32[Array, " members"]]:
            choice, change = jax.random.split(key)
            parent = self.parents(fitness, ranked, choice)
            learned = jax.tree.map(lambda leaf: leaf[parent], arrays)
            return learned, self.explored(before.settings, parent, change), parent

        def go_on(_: None) -> tuple[Any, dict[str, Array], Int32[Array, " members"]]:
            return arrays, before.settings, before.parent

        arrays, settings, parent = jax.lax.cond(due, exploit, go_on, None)
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
        """The member from which each continues: a random one of the best for each of the worst.

        Only members that are `ranked` take part. Of equal ones the first is the better one.
        """
        known = ranked & jnp.isfinite(fitness)
        # Best first; then those whose fitness is not finite; at last those without one.
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
        """The settings after an exploit, which change for members that continue from another."""
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
        """Also the settings of each member; of a dispatch with one exploit, fitness and parents."""
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
        """The state of one member, as its algorithm has it alone."""
        return super().member(_apart(state)[0], number)

    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """A population's; settings and fitness lie whole on each device."""
        plain, own = _apart(state)
        return _extended(super().shardings(plain), replicated_shardings(self.mesh, own))

    def _totals(self, report: Any) -> tuple[Array, Array]:
        """The sums of the metric, and what they are sums of; an ArgumentError if there is none."""
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
        """The fields of a state that an exploit copies, and the others."""
        kept = {"update", "env_steps", *(name.partition(".")[0] for name in self.reinit_fields)}
        fields = vars(state).items()
        copied = {name: part for name, part in fields if name not in kept}
        return copied, {name: part for name, part in fields if name in kept}

    def _by_name(self, varied: PyTree[Array]) -> dict[str, Float32[Array, " members"]]:
        """The settings of all members by name."""
        return dict(zip(self.names, jax.tree.leaves(varied), strict=True))


def _replaced(fraction: float, members: int) -> int:
    """How many of some members are replaced, without the rounding of a float."""
    return math.floor(fraction * members + 1e-9)


def _is_copied(leaf: Any) -> bool:
    """Whether an exploit copies a leaf: every array but random keys."""
    return eqx.is_array(leaf) and not is_key(leaf)


def _names(varied: PyTree[Array]) -> tuple[str, ...]:
    """The name of each array: its field's; of a schedule, the name of the field that holds it."""
    found: dict[str, Any] = {}
    names = []
    for path, values in jax.tree.leaves_with_path(varied):
        fields = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
        name = fields[-1]
        if name in ("value", "initial", "final"):
            name = fields[-2] + ("_final" if name == "final" else "")
        # One setting that two modules have changes in both alike.
        if not np.array_equal(found.setdefault(name, values), values):
            name = jax.tree_util.keystr(path).lstrip(".")
        names.append(name)
    return tuple(names)


def _bounds(
    given: Mapping[str, tuple[float, float]], settings: Mapping[str, Array]
) -> tuple[tuple[str, tuple[float, float]], ...]:
    """The bounds of each setting, of which some are given."""
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
    """The class of an algorithm's state with a `Tournament` in addition.

    The other fields keep their names, so that checkpoints, resumes and the algorithm's own methods
    find them where they are without one.
    """
    body = {
        "__module__": kind.__module__,
        "__doc__": f"{kind.__name__}, with what population-based training adds.",
        "__annotations__": {"tournament": Any},
        "tournament": None,
    }
    return type(f"{kind.__name__}InTournament", (kind,), body)


def _extended(state: Any, tournament: Any) -> Any:
    """A state with a tournament."""
    kind: Any = type(state)
    return _made(_extended_class(kind), {**vars(state), "tournament": tournament})


def _apart(state: Any) -> tuple[Any, Any]:
    """The state and the tournament that `_extended` put together."""
    fields = dict(vars(state))
    own = fields.pop("tournament")
    return _made(type(state).__base__, fields), own


def _made(kind: Any, fields: Mapping[str, Any]) -> Any:
    """A module with these fields, made as JAX makes one from leaves: shapes are not checked.

    Those that a state declares are the shapes of one member.
    """
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
