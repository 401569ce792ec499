"""A curriculum of start states: some episodes start elsewhere than a new game does."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env._environment import Environment, EnvSpec, Timestep
from hackmatrix_rl.env._hackmatrix import HackMatrix, HackMatrixState
from hackmatrix_rl.env._single_game import Batched
from hackmatrix_rl.games.hackmatrix import LAST_STAGE, Content, StepStream, new_game
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.system.errors import (
    ArgumentError,
    check_array,
    described,
    difference,
    instance,
    number,
    path_in_words,
    place,
    whole,
)

Tree = TypeVar("Tree", bound=PyTree)

MILESTONES = (*(f"stage {stage}" for stage in range(2, 9)), "first siphon", "first program", "hp 1")
"""The kinds of positions of `frontier` by milestones."""
POINTS_LEFT = (1, 10, 20)
"""The least points on the board of the second to fourth kinds of each stage, by points."""
GAMES_OF_A_STAGE = 32
"""Number of games that `at_stages` draws for each stage."""
BLOCK = 8
"""Number of neighbouring environments that share start states."""


class StartDistribution(eqx.Module):
    """A distribution over start states, for `StartStates`.

    Its own state, the bank, has a leading axis of blocks in each array. It sees the states of the
    environments, but no value of the network: it cannot prioritize by the value's error, as
    "Prioritized level replay" (Jiang et al. 2021) does.
    """

    @abstractmethod
    def init(self, state: Any) -> PyTree[Array]:
        """The first bank, for environments in this state."""

    @abstractmethod
    def update(self, bank: Any, before: Any, after: Any, done: Bool[Array, " num_envs"]) -> Any:
        """The bank after a step of the environments from `before` to `after`.

        Where `done`, `after` is the state of a new game.
        """

    @abstractmethod
    def sample(
        self, bank: Any, word: UInt32[Array, " blocks"]
    ) -> tuple[PyTree[Array], Bool[Array, " blocks"]]:
        """A state of the game for each block, from a random word, and whether there is one."""


class Bank(eqx.Module):
    """The archived states of each block of environments, by kind."""

    games: PyTree[Array]
    filled: Bool[Array, "blocks kinds"]  #: Whether there is a state of the kind.
    reached: Int32[Array, "blocks kinds"]  #: How often the kind was reached.

    def sample(self, word: UInt32[Array, " blocks"]) -> Int32[Array, " blocks"]:
        """A kind for each block, with probability proportional to 1 / (1 + `reached`)."""
        weight = jnp.where(self.filled, 1.0 / (1.0 + self.reached.astype(jnp.float32)), 0.0)
        below = jnp.cumsum(weight, axis=1)
        at = _uniform(word)[:, None] * below[:, -1:]
        kind = jnp.sum((below <= at).astype(jnp.int32), axis=1)
        return jnp.minimum(kind, self.filled.shape[1] - 1)


class Archive(StartDistribution):
    """States that the agent reached itself, the newest of each kind.

    A kind is drawn with probability proportional to `1 / (1 + n)`, where `n` counts how often the
    agent reached it. In one step, at most one environment of a block of 8 archives a state.

        def reached(before, after):
            at = after.games.cell
            return (at == ROOMS) & (before.games.cell != at)  # Bool[kinds]

        environment = hm.StartStates(hm.Batched(MyGame()), hm.Archive(reached))

    Source: Ecoffet et al. 2021, "First return, then explore"; Salimans and Chen 2018, "Learning
    Montezuma's Revenge from a single demonstration".

    Attributes:
        reached: maps the state of one environment before and after a step (`BatchedState` or
            `HackMatrixState` without the axis of environments) to `Bool[kinds]`: the kinds of
            states that this step reached.

    Raises:
        TypeError: `reached` is not a function.
    """

    reached: Callable[[Any, Any], Bool[Array, " kinds"]] = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not callable(self.reached):
            raise TypeError(
                f"reached is {described(self.reached)}; expected a function of the states before "
                "and after a step"
            )

    def init(self, state: Any) -> Bank:
        one = _shapes_of_one(state)
        said = f"{place(self.reached, '__call__')} returns"
        kinds = jax.eval_shape(self.reached, one, one)
        check_array(said, kinds, "bool", axes=1, hint="one for each kind of states")
        whole(f"{said} a vector, whose length", kinds.size)
        # The games of the block, until others are archived: zeros are no random keys.
        games = jax.tree.map(
            lambda leaf: jnp.repeat(leaf[:, :1], kinds.size, axis=1), _blocks(state.games)
        )
        none = jnp.zeros(jax.tree.leaves(games)[0].shape[:2], bool)
        return Bank(games, none, none.astype(jnp.int32))

    def update(self, bank: Bank, before: Any, after: Any, done: Bool[Array, " num_envs"]) -> Bank:
        reached = _blocks(jax.vmap(self.reached)(before, after) & ~done[:, None])
        who = _first(reached.any(axis=2))
        kinds = _take(reached, who)
        kind, some = _first(kinds), kinds.any(axis=1)
        games = _put(bank.games, kind, _take(_blocks(after.games), who), some)
        now = some[:, None] & _is_at(kind, bank.filled.shape[1])
        counts = jnp.sum(reached, axis=1, dtype=jnp.int32)
        return Bank(games, bank.filled | now, bank.reached + counts)

    def sample(
        self, bank: Bank, word: UInt32[Array, " blocks"]
    ) -> tuple[PyTree[Array], Bool[Array, " blocks"]]:
        return _take(bank.games, bank.sample(word)), bank.filled.any(axis=1)


def _all(steps: Float32[Array, ""]) -> Float32[Array, ""]:
    return jnp.ones_like(steps)


class GivenStates(StartDistribution):
    """Given states, of which a schedule opens more and more: a curriculum.

        easy_first = jax.vmap(game_at)(jnp.arange(32))  # states of the game, the easiest first
        starts = hm.GivenStates(easy_first, Linear(0.1, 1.0, over=10_000))
        environment = hm.StartStates(hm.Batched(MyGame()), starts)

    Each of the open states is equally likely.

    Source: Florensa et al. 2017, "Reverse curriculum generation for reinforcement learning".

    Attributes:
        games: the states of the game, with a leading axis of states.
        schedule: a schedule or a function that maps the steps of each environment to the share of
            the states that is open, from the first on; by default all are open.

    Raises:
        TypeError: `schedule` is not a function.
        ValueError: there is no state, or a number in one is NaN.
    """

    games: PyTree[Array]
    schedule: Callable[[Float32[Array, ""]], Float32[Array, ""]] = _all

    def __check_init__(self) -> None:
        leaves = jax.tree.leaves_with_path(self.games)
        sizes = {leaf.shape[:1] for _, leaf in leaves}
        if len(sizes) != 1 or sizes <= {(), (0,)}:
            raise ValueError(
                f"games is {described(self.games)}, whose arrays have the first axes "
                f"{sorted(sizes)}; expected states with one leading axis, such as "
                "jax.vmap(game_at)(jnp.arange(32))"
            )
        for path, leaf in leaves:
            if jnp.issubdtype(leaf.dtype, jnp.inexact) and bool(np.isnan(leaf).any()):
                raise ValueError(f"{path_in_words('games', path)} has NaN; expected numbers")
        if not callable(self.schedule):
            raise TypeError(f"schedule is {described(self.schedule)}; expected a function of steps")

    def init(self, state: Any) -> Int32[Array, " blocks"]:
        """The steps of each environment, by block."""
        is_like, is_one = _shapes_of_one(state.games), _shapes_of_one(self.games)
        if (wrong := difference("a state of the game", is_like, is_one)) is not None:
            raise ValueError(f"games are not of this environment: {wrong} in games")
        return jnp.zeros(_blocks(jax.tree.leaves(state)[0]).shape[0], jnp.int32)

    def update(
        self, bank: Int32[Array, " blocks"], before: Any, after: Any, done: Bool[Array, " num_envs"]
    ) -> Int32[Array, " blocks"]:
        return bank + 1

    def sample(
        self, bank: Int32[Array, " blocks"], word: UInt32[Array, " blocks"]
    ) -> tuple[PyTree[Array], Bool[Array, " blocks"]]:
        count = jax.tree.leaves(self.games)[0].shape[0]
        share = jax.vmap(lambda steps: jnp.float32(self.schedule(steps)))(bank.astype(jnp.float32))
        opened = jnp.clip(jnp.ceil(share * count), 1, count)
        which = (_uniform(word) * opened).astype(jnp.int32)
        return jax.tree.map(lambda leaf: leaf[which], self.games), jnp.ones_like(bank, bool)


class StartStatesState(eqx.Module):
    """The state of the environments and of the start states."""

    inner: Any  #: `HackMatrixState` or `BatchedState`.
    is_new_game: Bool[Array, " num_envs"]
    bank: PyTree[Array]

    @property
    def games(self) -> Any:
        """The games, for players that read the state."""
        return self.inner.games


class StartStates(Environment):
    """An environment in which a share of the episodes starts in chosen states.

        environment = hm.StartStates(hm.Batched(MyGame()), hm.Archive(reached), share=0.5)

    Statistics of episodes ignore those that do not start as new games (`EpisodeStatistics.counts`),
    and evaluation plays whole games alone.

    Blocks of 8 neighbouring environments share their start states. In one step, at most one
    environment of a block starts elsewhere: at most an eighth of the episodes if all of them have
    the same length. Each device must have complete blocks, so the games do not depend on the
    devices.

    Attributes:
        inner: the environment, a `HackMatrix` or a `Batched`.
        starts: chooses the states.
        share: the share of the episodes that start there, once there is a state.

    Raises:
        TypeError: `inner` is another environment, or `starts` is not a `StartDistribution`.
        ValueError: `share` is not above 0 and below 1.
    """

    inner: HackMatrix | Batched[Any]
    starts: StartDistribution
    share: float = eqx.field(static=True, default=0.25)

    def __check_init__(self) -> None:
        if not isinstance(self.inner, HackMatrix | Batched):
            raise TypeError(
                f"inner is {described(self.inner)}; expected hm.HackMatrix(...) or "
                "hm.Batched(MyGame()), whose episodes can start in any state"
            )
        instance("starts", self.starts, StartDistribution, "hm.Archive(reached)")
        if not 0 < number("share", self.share) < 1:
            raise ValueError(f"share must be over 0 and below 1, not {self.share}")

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    @property
    def truncates(self) -> bool:
        return self.inner.truncates

    @property
    def title(self) -> str:
        return self.inner.title

    @property
    def longest_dependence(self) -> int | None:
        return self.inner.longest_dependence

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[StartStatesState, Timestep]:
        """Starts new games."""
        check_blocks(self, keys.shape[0])
        state, timestep = self.inner.reset(keys)
        new = jnp.ones(keys.shape[0], bool)
        return StartStatesState(state, new, self.starts.init(state)), _counting(timestep, new)

    def step(
        self,
        state: StartStatesState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[StartStatesState, Timestep]:
        """Plays one action in each game, and resets the games that ended."""
        inner: Any = self.inner  # of either kind; so are its states
        after, timestep = inner.step(state.inner, actions, keys)
        bank = self.starts.update(state.bank, state.inner, after, timestep.done)

        words = jax.vmap(lambda key: Chance.from_key(key).fold_in(StepStream.SAVED_GAME).words(2))(
            keys
        )
        wants = (timestep.done & (_uniform(words[:, 0]) < self.share)).reshape(-1, BLOCK)
        who = _first(wants)
        games, there = self.starts.sample(bank, _take(_blocks(words[:, 1]), who))
        begins = wants.any(axis=1) & there
        begun, first = inner.restart(_take(_blocks(after), who), games)
        shown = (after, timestep.observation, timestep.mask)
        put = _put(_blocks(shown), who, (begun, first.observation, first.mask), begins)
        after, observation, mask = jax.tree.map(lambda a, like: a.reshape(like.shape), put, shown)

        timestep = replace(timestep, observation=observation, mask=mask)
        elsewhere = (begins[:, None] & _is_at(who, BLOCK)).reshape(-1)
        is_new_game = jnp.where(timestep.done, ~elsewhere, state.is_new_game)
        return StartStatesState(after, is_new_game, bank), _counting(timestep, state.is_new_game)


def check_blocks(environment: Environment, num_envs: int, devices: int = 1) -> None:
    """Raises an ArgumentError unless each device has complete blocks of `StartStates`."""
    together, on = BLOCK * devices, f" on {devices} devices" if devices > 1 else ""
    if isinstance(environment, StartStates) and num_envs % together:
        near = max(num_envs // together, 1) * together
        raise ArgumentError(
            f"{{num_envs}} does not divide into blocks of {BLOCK} environments, which share their "
            f"start states{on}; use {{num_envs:={near}}}",
            num_envs=num_envs,
        )


def _counting(timestep: Timestep, is_new_game: Bool[Array, " num_envs"]) -> Timestep:
    """The timestep with the counts of its episodes: only new games count."""
    counts = timestep.episode.counts
    counts = is_new_game if counts is None else is_new_game & counts
    return replace(timestep, episode=replace(timestep.episode, counts=counts))


def whole_games(environment: Environment) -> Environment:
    """The environment for evaluation, in which every episode is a full game by the rules."""
    if isinstance(environment, StartStates):
        return whole_games(environment.inner)
    if isinstance(environment, HackMatrix) and environment.without_undo_share > 0:
        return replace(environment, without_undo_share=0.0)
    return environment


def frontier(inner: HackMatrix, share: float = 0.25, *, by: str = "milestones") -> StartStates:
    """HackMatrix with an `Archive` of its positions.

    Args:
        inner: the game.
        share: the share of the episodes that start there.
        by: the kinds of positions. `milestones`: the start of each stage, the first siphon, the
            first program, and a drop to hp 1. `points`: the start of a stage and what a siphon
            leaves, by the stage and by the points of the data blocks that are left.

    Raises:
        TypeError: `inner` is another environment.
        ValueError: `share` is out of range, or `by` is unknown.
    """
    instance("inner", inner, HackMatrix, "hm.HackMatrix()")
    known = {"milestones": Archive(_milestones), "points": Archive(_points_left)}
    if by not in known:
        raise ValueError(f"by is {by!r}; expected {' or '.join(known)}")
    return StartStates(inner, known[by], share)


def at_stages(
    inner: HackMatrix,
    first: int,
    last: int,
    share: float = 0.25,
    *,
    key: Key[Array, ""] | None = None,
) -> StartStates:
    """HackMatrix in which a share of the episodes starts as a new game in later stages.

    32 games of each stage are drawn once, each with a starting bonus and without programs.

    Args:
        inner: the game.
        first: the first stage to start in.
        last: the last one, 8 at most.
        share: the share of the episodes that start there.
        key: source of randomness for the games; by default a fixed key.

    Raises:
        TypeError: `inner` is another environment.
        ValueError: a stage or `share` is out of range.
    """
    instance("inner", inner, HackMatrix, "hm.HackMatrix()")
    if not 1 <= first <= last <= LAST_STAGE:
        raise ValueError(f"stages {first} to {last}: expected two of 1 to {LAST_STAGE}, in order")
    stages = jnp.repeat(jnp.arange(first, last + 1, dtype=jnp.int32), GAMES_OF_A_STAGE)
    keys = jax.random.split(jax.random.key(0) if key is None else key, stages.shape[0])
    games = jax.jit(jax.vmap(lambda key, stage: new_game(inner.config, key=key, stage=stage)))(
        keys, stages
    )
    return StartStates(inner, GivenStates(games), share)


def _milestones(before: HackMatrixState, after: HackMatrixState) -> Bool[Array, " kinds"]:
    """The `MILESTONES` that a step reached."""
    was, is_now = before.games.position, after.games.position
    stage = jnp.where(is_now.stage > was.stage, is_now.stage, 0)
    stages = stage == jnp.arange(2, 9, dtype=jnp.int32)
    siphon = (before.tally.siphons == 0) & (after.tally.siphons > 0)
    program = (before.tally.programs == 0) & (after.tally.programs > 0)
    low = (is_now.player.hp == 1) & (was.player.hp > 1)
    return jnp.concatenate([stages, jnp.stack([siphon, program, low])])


def _points_left(before: HackMatrixState, after: HackMatrixState) -> Bool[Array, " kinds"]:
    """The stage, and the range of the points that are left, after a siphon or at its start."""
    was, is_now = before.games.position, after.games.position
    board = is_now.board
    is_data = (board.content == Content.DATA) | (board.content == Content.HIDDEN_DATA)
    points = jnp.sum(jnp.where(is_data & ~board.siphoned, board.value, 0))
    part = jnp.sum(points >= jnp.array(POINTS_LEFT, jnp.int32), dtype=jnp.int32)
    kind = (is_now.stage - 1) * (1 + len(POINTS_LEFT)) + part
    reached = (is_now.stage > was.stage) | (after.tally.siphons > before.tally.siphons)
    kinds = jnp.arange(LAST_STAGE * (1 + len(POINTS_LEFT)), dtype=jnp.int32)
    return reached & (kinds == kind)


def _blocks(tree: Tree) -> Tree:
    # Not -1: a mask of a `Box` has no elements.
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0] // BLOCK, BLOCK, *leaf.shape[1:]), tree
    )


def _take(tree: Tree, index: Int32[Array, " blocks"]) -> Tree:
    def one(leaf: Any) -> Any:
        return jax.vmap(lambda block, i: lax.dynamic_index_in_dim(block, i, 0, False))(leaf, index)

    return jax.tree.map(one, tree)


def _shapes_of_one(tree: PyTree[Array]) -> PyTree[jax.ShapeDtypeStruct]:
    """The shapes of a tree without the leading axis of each leaf."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)


def _put(
    tree: Tree, index: Int32[Array, " blocks"], entry: Tree, where: Bool[Array, " blocks"]
) -> Tree:
    """The blocks with a new entry at an index, where a condition holds."""

    def one(block: Any, i: Any, new: Any, condition: Any) -> Any:
        old = lax.dynamic_index_in_dim(block, i, 0, False)
        return lax.dynamic_update_index_in_dim(block, jnp.where(condition, new, old), i, 0)

    return jax.tree.map(lambda leaf, new: jax.vmap(one)(leaf, index, new, where), tree, entry)


def _first(flags: Bool[Array, "blocks some"]) -> Int32[Array, " blocks"]:
    """The index of the first set flag; 0 without one."""
    return jnp.argmax(flags, axis=1).astype(jnp.int32)


def _is_at(index: Int32[Array, " blocks"], length: int) -> Bool[Array, "blocks length"]:
    """A one-hot row for each index."""
    return jnp.arange(length, dtype=jnp.int32)[None] == index[:, None]


def _uniform(word: UInt32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """A number in [0, 1) from the upper 24 bits of a word."""
    return (word >> jnp.uint32(8)).astype(jnp.float32) * jnp.float32(2**-24)
