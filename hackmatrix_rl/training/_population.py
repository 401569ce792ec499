"""Several trainings of one algorithm in one program."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.system import is_single_process
from hackmatrix_rl.system.errors import ArgumentError, described, instance, same_structure, whole
from hackmatrix_rl.training._algorithm import Algorithm, State, working_bytes
from hackmatrix_rl.training._member_metrics import MEMBER, interquartile, over_members
from hackmatrix_rl.training._program import without_policy
from hackmatrix_rl.training._report import Dispatch, Metrics
from hackmatrix_rl.training.sharding import POPULATION, describe_mesh, divisors


class Population(Algorithm[State]):
    """Several trainings of one algorithm in one program, each with its own key.

        policies = [hm.MLPActorCritic(environment.spec, key=key) for key in keys]
        population = hm.Population([hm.PPO(environment, policy) for policy in policies])
        trainer = hm.Trainer(population)
        trainer.fit(100_000, key=keys)

    The members share only the program. `Trainer.train`, `fit` and `start` take an array with a key
    for each member; member k then has the draws of a training that starts with the k-th key. A
    single key gives member k `jax.random.fold_in(key, k)`. Environment steps, updates and
    `total_timesteps` count for one member.

    The members may use any algorithm with an environment in JAX.

    The state is a member's, with a leading axis of members in every array except `update` and
    `env_steps`. `policy` and `member` select a member.

    Members may differ in numbers that are fields of a module and not static: the values of a
    `Schedule` (`learning_rate=1e-3`), and `gamma`, `gae_lambda`, `ent_coef`, `clip_coef` and
    `vf_coef` of `PPOLoss` and `GAE`. Changing their values does not recompile.

    Attributes:
        algorithm: the algorithm of the first member, without its policy.
        varied: the numbers that differ, with an axis of members, in the structure of `algorithm`.
        size: number of members.
        initial_policy: the initial policies as one, with an axis of members in each array.
    """

    algorithm: Algorithm[State]
    varied: PyTree[Array]
    size: int = eqx.field(static=True)
    initial_policy: ActorCritic

    def __init__(
        self, members: Algorithm[State] | Sequence[Algorithm[State]], size: int | None = None
    ) -> None:
        """Makes a population of one algorithm for each member.

        Args:
            members: the algorithms of the members, or a single one for all of them. The members are
                sharded along the axis `population` of the mesh, if it has one, and each member
                along the other axes.
            size: number of members with a single algorithm. They start from the same weights.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the members differ in something that one program cannot vary, do not divide
                over the mesh, or have an algorithm that does not support populations.
        """
        if isinstance(members, Algorithm):
            algorithms = [members] * whole("size", 1 if size is None else size)
        else:
            instance("members", members, Sequence, "hm.PPO(environment, policy), 8")
            algorithms = list(members)
            if not algorithms:
                raise ValueError("members is empty; expected an algorithm for each member")
            if size is not None and size != len(algorithms):
                raise ValueError(f"size is {size}, but there are {len(algorithms)} members")
        for each in algorithms:
            instance("a member", each, Algorithm, "hm.PPO(environment, policy)")
        first = algorithms[0]
        _check_member(first)
        check_members(len(algorithms), first.mesh.shape)
        self.algorithm = without_policy(first)
        self.varied = _varied([without_policy(each) for each in algorithms])
        self.size = len(algorithms)
        self.initial_policy = _stacked([each.initial_policy for each in algorithms])

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def environment(self) -> Environment:  # type: ignore[override]
        """The environment of the first member."""
        return self.algorithm.environment

    @property  # type: ignore[misc]
    def mesh(self) -> Mesh:  # type: ignore[override]
        """The mesh of all members."""
        return self.algorithm.mesh

    @property
    def steps_per_update(self) -> int:
        """Environment steps of an update, for one member."""
        return self.algorithm.steps_per_update

    @property
    def most_progress(self) -> int:
        """Maximum progress of a member in one update."""
        return self.algorithm.most_progress

    def progress(self, state: State) -> int:
        """The smallest progress of a member, so that all members reach the goal."""
        return self.algorithm.progress(state)

    @property
    def sequences(self) -> tuple[str, int]:
        """As in a member's algorithm, or an empty name."""
        found: tuple[str, int] = getattr(self.algorithm, "sequences", ("", 0))
        return found

    @property
    def reinit_fields(self) -> tuple[str, ...]:
        """Those of a member's algorithm."""
        return self.algorithm.reinit_fields

    @property
    def greedy(self) -> bool:
        """Whether a member's policy plays greedily."""
        return self.algorithm.greedy

    def check(self, policy: ActorCritic) -> None:
        """Checks the modules of the first member."""
        self.algorithm.check(_part(policy, 0))

    def checkpoint_state(self, state: State) -> PyTree:
        """The part of the state to store, as in a member's algorithm."""
        return self.algorithm.checkpoint_state(state)

    def working_bytes(self, state: State) -> int:
        """Bytes that the updates of the members on one device need."""
        on_one = self.size // self.mesh.shape.get(POPULATION, 1)
        return on_one * working_bytes(self.algorithm, _one_shape(state))

    def init(self, key: Key[Array, "*members"], policy: ActorCritic) -> State:
        """The initial states of all members, from one key or a key for each member.

        Raises:
            ValueError: there is not one key for each member.
        """
        if key.ndim and key.shape != (self.size,):
            raise ValueError(
                f"key is {described(key)}; expected one key, or one for each of the {self.size} "
                "members"
            )
        keys = key
        if not key.ndim:
            numbers = jnp.arange(self.size, dtype=jnp.uint32)
            keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
        weights, code = eqx.partition(policy, eqx.is_array)
        rest: list[Any] = []

        def begin(varied: Any, key: Key[Array, ""], weights: Any) -> tuple[Any, Any]:
            state = self._algorithm(varied).init(key, eqx.combine(weights, code))
            arrays, others = eqx.partition(state, eqx.is_array)
            rest.append(others)
            return _apart(arrays)

        own, shared = self._mapped(begin, (0, 0, 0))(self.varied, keys, weights)
        return eqx.combine(_together(own, shared), rest[0])

    def __call__(self, state: State) -> tuple[State, PyTree[Array]]:
        """One update of every member; each leaf of the report has an axis of members."""
        arrays, rest = eqx.partition(state, eqx.is_array)

        def update(varied: Any, own: Any, shared: Any) -> tuple[Any, Any, PyTree[Array]]:
            before = eqx.combine(_together(own, shared), rest)
            after, report = self._algorithm(varied)(before)
            return *_apart(eqx.filter(after, eqx.is_array)), report

        mapped = self._mapped(update, (0, 0, None), (0, None, 0))
        own, shared, report = mapped(self.varied, *_apart(arrays))
        return eqx.combine(_together(own, shared), rest), report

    def metrics(self, report: Any, dispatch: Dispatch) -> Metrics:
        """Means over members, the interquartile mean of the return, and the metrics of each member.

        Counts, such as episodes and skipped steps, are sums over members.
        """
        parts = [jax.tree.map(lambda leaf, k=k: leaf[k], report) for k in range(self.size)]
        each = [self.algorithm.metrics(part, dispatch) for part in parts]
        returns = [one.episode["return"] for one in each if "return" in one.episode]
        return replace(
            each[0],
            steps_per_second=sum(one.steps_per_second for one in each),
            episodes=sum(one.episodes for one in each),
            episode=over_members([one.episode for one in each]),
            reward=over_members([one.reward for one in each]),
            learning=over_members([one.learning for one in each]),
            extra={
                **over_members([one.extra for one in each]),
                **interquartile(returns),
                **{
                    f"{MEMBER}{k}/{name}": value
                    for k, one in enumerate(each)
                    for name, value in {**one.episode, **one.learning}.items()
                },
            },
        )

    def member(self, state: State, number: int) -> State:
        """The state of one member, as in a single training.

        Raises:
            ValueError: there is no such member.
        """
        check_number(number, self.size)
        own, shared = _apart(state)
        return _together(_part(own, number), shared)

    def policy(self, state: State, member: int = 0) -> ActorCritic:
        """The policy of one member, for evaluation and play."""
        check_number(member, self.size)
        return _part(self.algorithm.policy(state), member)

    def value_scale_of(self, state: State, member: int = 0) -> ValueScale | None:
        """The value scale of one member."""
        check_number(member, self.size)
        return _part(self.algorithm.value_scale_of(state), member)

    def shardings(self, state: State) -> PyTree[NamedSharding]:
        """The shardings of a member, with the axis of members along `population`."""

        def with_members(sharding: NamedSharding) -> NamedSharding:
            kind, spec = sharding.memory_kind, PartitionSpec(self._axis, *sharding.spec)
            return NamedSharding(sharding.mesh, spec, memory_kind=kind)

        own, shared = _apart(self.algorithm.shardings(_one_shape(state)))
        return _together(jax.tree.map(with_members, own), shared)

    def _algorithm(self, varied: Any) -> Algorithm[State]:
        """The algorithm of the member with these numbers."""
        made: Algorithm[State] = eqx.combine(varied, self.algorithm)
        return made

    def _mapped(self, function: Any, takes: Any, gives: Any = (0, None)) -> Any:
        """The function, vmapped over members; `takes` and `gives` are `in_axes` and `out_axes`."""
        return jax.vmap(function, takes, gives, axis_size=self.size, spmd_axis_name=self._axis)

    @property
    def _axis(self) -> str | None:
        """The mesh axis along which the members are sharded; `None` without one."""
        return POPULATION if POPULATION in self.mesh.axis_names else None


def first_policy(algorithm: Algorithm[Any], policy: ActorCritic) -> ActorCritic:
    """The policy of the first member, from an algorithm's `initial_policy`."""
    return _part(policy, 0) if isinstance(algorithm, Population) else policy


def every_policy(algorithm: Algorithm[State], state: State) -> ActorCritic:
    """The policy to store in a checkpoint; with an axis of members for a population."""
    one = algorithm.algorithm if isinstance(algorithm, Population) else algorithm
    return one.policy(state)


def check_members(size: int, lengths: Mapping[str, int]) -> None:
    """Raises an ArgumentError unless `size` members divide over a mesh of these lengths."""
    parts = lengths.get(POPULATION, 1)
    if size % parts:
        fit = max(each for each in divisors(size) if each <= parts)
        raise ArgumentError(
            f"{{seeds}} does not divide over the axis population={parts} of {{mesh}}; use "
            f"{math.ceil(size / parts) * parts} members, or population={fit}",
            seeds=size,
            mesh=describe_mesh(lengths),
        )


def check_number(number: int, size: int) -> None:
    """Raises a ValueError unless a population of `size` has a member `number`."""
    if not 0 <= whole("member", number, 0) < size:
        raise ValueError(f"member is {number}; expected 0 to {size - 1}: there are {size} members")


def _check_member(algorithm: Algorithm[Any]) -> None:
    """Raises a ValueError if an algorithm does not support populations."""
    name = type(algorithm).__name__
    if isinstance(algorithm, Population):
        raise ValueError("a member is a Population; expected the algorithm of one training")
    if type(algorithm).progress is not Algorithm.progress and not is_single_process():
        raise ValueError(
            f"{name} counts its progress in a unit in which members differ, so it does not support "
            "a population over several processes. Use one process, or one training for each seed"
        )
    if not algorithm.environment.pure:
        raise ValueError(
            f"{type(algorithm.environment).__name__} steps in Python, so it does not support a "
            "population. Use an environment in JAX, or one training for each seed"
        )


def _varied(algorithms: Sequence[Algorithm[Any]]) -> PyTree[Array]:
    """The numbers that differ between members, with an axis of members; `None` elsewhere."""
    first = algorithms[0]
    leaves, structure = jax.tree.flatten(first, is_leaf=_is_none)
    if all(each is first for each in algorithms):
        return jax.tree.unflatten(structure, [None] * len(leaves))
    for number, each in enumerate(algorithms):
        if (found := _difference(first, each)) is not None:
            names = [
                jax.tree_util.keystr(path).lstrip(".")
                for path, leaf in jax.tree.leaves_with_path(first)
                if isinstance(leaf, float)
            ]
            raise ValueError(
                f"member {number} differs from member 0 in {found}, which one program cannot vary. "
                f"Numbers that may differ here: {', '.join(names)}"
            )
    columns = zip(*(jax.tree.leaves(each, is_leaf=_is_none) for each in algorithms), strict=True)
    varied = [
        jnp.asarray(column, jnp.float32) if _is_number(column[0]) and len({*column}) > 1 else None
        for column in columns
    ]
    return jax.tree.unflatten(structure, varied)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, int | float) and not isinstance(leaf, bool)


def _difference(one: Any, other: Any, name: str = "", *, fixed: bool = False) -> str | None:
    """The name of the first part in which two modules differ; `None` if they are equal.

    Numbers may differ, unless they are `fixed`: in a static field.
    """
    if one is other or (_is_number(one) and _is_number(other) and not fixed):
        return None
    parts: list[tuple[str, Any, Any, bool]] = []
    if type(one) is type(other) and is_dataclass(one):
        for each in fields(one):
            static = each.metadata.get("static", not isinstance(one, eqx.Module))
            pair = getattr(one, each.name, None), getattr(other, each.name, None)
            parts.append((f"{name}.{each.name}".lstrip("."), *pair, fixed or static))
    elif type(one) is type(other) in (tuple, list) and len(one) == len(other):
        keys = range(len(one))
        parts = [(f"{name}[{key!r}]", one[key], other[key], fixed) for key in keys]
    elif eqx.is_array(one) or eqx.is_array(other):
        both = eqx.is_array(one) and eqx.is_array(other)
        return None if both and np.array_equal(np.asarray(one), np.asarray(other)) else name
    elif one != other:
        return f"{name} ({other} and {one})" if _is_number(one) else name
    found = (_difference(a, b, part, fixed=static) for part, a, b, static in parts)
    return next((each for each in found if each is not None), None)


def _stacked(policies: Sequence[ActorCritic]) -> ActorCritic:
    """The policies as one, with a leading axis of members in each array."""
    parts = [eqx.partition(policy, eqx.is_array) for policy in policies]
    shapes = [jax.tree.map(lambda leaf: leaf.shape, arrays) for arrays, _ in parts]
    for number, each in enumerate(shapes):
        # A shape is a tuple, and so a subtree: equal structures and leaves are equal shapes.
        same = same_structure(each, shapes[0])
        if not same or jax.tree.leaves(each) != jax.tree.leaves(shapes[0]):
            raise ValueError(
                f"the network of member {number} has other layers than that of member 0; use the "
                "same sizes for all members"
            )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(arrays for arrays, _ in parts))
    policy: ActorCritic = eqx.combine(stacked, parts[0][1])
    return policy


def _part(tree: Any, number: int) -> Any:
    """A member's slice of arrays with an axis of members."""
    return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, tree)


def _apart(state: Any) -> tuple[Any, Any]:
    """A state without the counters that all members share, and these counters."""
    shared = state.update, state.env_steps
    return eqx.tree_at(_counters, state, (None, None)), shared


def _together(own: Any, shared: Any) -> Any:
    """The inverse of `_apart`."""
    return eqx.tree_at(_counters, own, shared, is_leaf=_is_none)


def _counters(state: Any) -> Any:
    return state.update, state.env_steps


def _one_shape(state: Any) -> Any:
    """The shapes of a member's state, from a population's state or its shapes."""

    def shape(leaf: Any) -> Any:
        is_array = eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
        return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) if is_array else leaf

    own, shared = _apart(state)
    return _together(jax.tree.map(shape, own), shared)
