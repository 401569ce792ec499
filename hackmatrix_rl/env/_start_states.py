"""A curriculum of start states: some episodes start elsewhere than a new game does."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env._environment import Environment, EnvSpec, Timestep
from hackmatrix_rl.env._hackmatrix import HackMatrix, HackMatrixState
from hackmatrix_rl.env._single_game import Batched
from hackmatrix_rl.games.hackmatrix import LAST_STAGE, Content, StepStream, new_game
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.system.errors import check_array, described, place, whole

Tree = TypeVar("Tree", bound=PyTree)
Playable = HackMatrix | Batched[Any]
"""The environments whose episodes can start in any state of the game."""

MILESTONES = (*(f"stage {stage}" for stage in range(2, 9)), "first siphon", "first program", "hp 1")
"""The kinds of positions of `frontier` by milestones."""
POINTS_LEFT = (1, 10, 20)
"""The least points on the board of the second to fourth kinds of each stage, by points."""
BLOCK = 8
"""Number of neighbouring environments that share start states."""


class Start(eqx.Module):
    """Start states, with their observations; each leaf has leading axes."""

    game: PyTree[Array]
    mask: Bool[Array, "*batch num_actions"]
    observation: PyTree[Array]


class Starts(eqx.Module):
    """Chooses start states for `StartStates`. Its state has a leading axis of blocks."""

    @abstractmethod
    def init(self, here: Start) -> PyTree[Array]:
        """The initial state, for the environments of `here`."""

    @abstractmethod
    def update(
        self, bank: Any, before: Any, after: Any, done: Bool[Array, " num_envs"], here: Start
    ) -> Any:
        """The state after a step from the environments `before` to `after`.

        `here` are their games after the step: new ones where `done`.
        """

    @abstractmethod
    def draw(
        self, bank: Any, word: UInt32[Array, " blocks"], environment: "Playable"
    ) -> tuple[Start, Bool[Array, " blocks"]]:
        """A start state for each block, from a random word, and whether there is one."""


class Bank(eqx.Module):
    """The archived states of each block of environments, by kind."""

    saved: Start
    filled: Bool[Array, "blocks kinds"]  #: Whether there is a state of the kind.
    reached: Int32[Array, "blocks kinds"]  #: How often the kind was reached.

    def draw(self, word: UInt32[Array, " blocks"]) -> Int32[Array, " blocks"]:
        """A kind for each block, with probability proportional to 1 / (1 + `reached`)."""
        weight = jnp.where(self.filled, 1.0 / (1.0 + self.reached.astype(jnp.float32)), 0.0)
        below = jnp.cumsum(weight, axis=1)
        place = _uniform(word)[:, None] * below[:, -1:]
        kind = jnp.sum((below <= place).astype(jnp.int32), axis=1)
        return jnp.minimum(kind, self.filled.shape[1] - 1)


class Archive(Starts):
    """States that the agent reached itself, the newest of each kind.

    A kind is drawn with probability proportional to `1 / (1 + n)`, where `n` counts how often the
    agent reached it: the archive follows the frontier of what the agent can do. In one step, at
    most one environment of a block of 8 archives a state.

        def reached(before, after):
            at = after.games.cell
            return (at == ROOMS) & (before.games.cell != at)  # Bool[kinds]

        environment = hm.StartStates(hm.Batched(MyGame()), hm.Archive(reached, kinds=len(ROOMS)))

    Source: Ecoffet et al. 2021, "First return, then explore"; Salimans and Chen 2018, "Learning
    Montezuma's Revenge from a single demonstration".

    Attributes:
        reached: maps the state of one environment before and after a step (`BatchedState` or
            `HackMatrixState` without the axis of environments) to `Bool[kinds]`: the kinds of
            states that this step reached.
        kinds: number of kinds.

    Raises:
        ValueError: `kinds` is less than 1.
    """

    reached: Callable[[Any, Any], Bool[Array, " kinds"]] = eqx.field(static=True)
    kinds: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        whole("kinds", self.kinds)

    def init(self, here: Start) -> Bank:
        blocks = here.mask.shape[0] // BLOCK

        def room(leaf: Array) -> Array:
            return jnp.zeros((blocks, self.kinds, *leaf.shape[1:]), leaf.dtype)

        none = jnp.zeros((blocks, self.kinds), bool)
        return Bank(jax.tree.map(room, here), none, none.astype(jnp.int32))

    def update(
        self, bank: Bank, before: Any, after: Any, done: Bool[Array, " num_envs"], here: Start
    ) -> Bank:
        reached = jax.vmap(self.reached)(before, after)
        said = f"{place(self.reached, '__call__')} returns"
        check_array(
            said, reached, "bool", (done.shape[0], self.kinds), hint="one bool for each kind"
        )
        reached = reached & ~done[:, None]
        apart = _blocks(reached)
        who = _first(apart.any(axis=2))
        kinds = _take(apart, who)
        kind, some = _first(kinds), kinds.any(axis=1)
        saved = _put(bank.saved, kind, _take(_blocks(here), who), some)
        now = some[:, None] & _is_at(kind, self.kinds)
        counts = jnp.sum(apart, axis=1, dtype=jnp.int32)
        return Bank(saved, bank.filled | now, bank.reached + counts)

    def draw(
        self, bank: Bank, word: UInt32[Array, " blocks"], environment: "Playable"
    ) -> tuple[Start, Bool[Array, " blocks"]]:
        return _take(bank.saved, bank.draw(word)), bank.filled.any(axis=1)


class GivenStates(Starts):
    """Given states, of which a schedule opens more and more: a curriculum.

        easy_first = jax.vmap(game_at)(jnp.arange(32))  # states of the game, the easiest first
        starts = hm.GivenStates(easy_first, hm.Linear(0.1, 1.0, over=10_000))
        environment = hm.StartStates(hm.Batched(MyGame()), starts)

    Each of the open states is equally likely.

    Source: Florensa et al. 2017, "Reverse curriculum generation for reinforcement learning".

    Attributes:
        games: the states of the game, with a leading axis of states.
        open: the share of the states that is open, from the first, as a function of the steps of
            each environment: a schedule, or any function of a float32; 1 by default.
    """

    games: PyTree[Array]
    open: Callable[[Float32[Array, ""]], Float32[Array, ""]] = lambda steps: jnp.float32(1)

    def init(self, here: Start) -> Int32[Array, " blocks"]:
        """The steps of each environment, by block."""
        return jnp.zeros(here.mask.shape[0] // BLOCK, jnp.int32)

    def update(
        self,
        bank: Int32[Array, " blocks"],
        before: Any,
        after: Any,
        done: Bool[Array, " num_envs"],
        here: Start,
    ) -> Int32[Array, " blocks"]:
        return bank + 1

    def draw(
        self, bank: Int32[Array, " blocks"], word: UInt32[Array, " blocks"], environment: Playable
    ) -> tuple[Start, Bool[Array, " blocks"]]:
        count = jax.tree.leaves(self.games)[0].shape[0]
        share = jax.vmap(self.open)(bank.astype(jnp.float32))
        opened = jnp.clip(jnp.ceil(share * count), 1, count)
        which = (_uniform(word) * opened).astype(jnp.int32)
        games = jax.tree.map(lambda leaf: leaf[which], self.games)
        _, timestep = environment.from_games(games)
        return Start(games, timestep.mask, timestep.observation), jnp.ones_like(bank, bool)


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

        environment = hm.StartStates(hm.Batched(MyGame()), hm.Archive(reached, kinds=8), share=0.5)

    Statistics of episodes ignore those that do not start as new games (`EpisodeStatistics.counts`),
    and evaluation plays whole games alone.

    Blocks of 8 neighbouring environments share their start states. In one step, at most one
    environment of a block starts elsewhere. Each device must have complete blocks, so the games do
    not depend on the devices.

    Attributes:
        inner: the environment, a `HackMatrix` or a `Batched`.
        starts: chooses the states.
        share: the share of the episodes that start there, once there is a state.

    Raises:
        TypeError: `inner` is another environment, or `starts` is not a `Starts`.
        ValueError: `share` is not above 0 and below 1.
    """

    inner: Playable
    starts: Starts
    share: float = eqx.field(static=True, default=0.25)

    def __check_init__(self) -> None:
        if not isinstance(self.inner, HackMatrix | Batched):
            raise TypeError(
                f"inner is {described(self.inner)}; expected hm.HackMatrix(...) or "
                "hm.Batched(MyGame()), whose episodes can start in any state"
            )
        if not isinstance(self.starts, Starts):
            raise TypeError(
                f"starts is {described(self.starts)}; expected hm.Archive(...) or "
                "hm.GivenStates(...)"
            )
        if not 0 < self.share < 1:
            raise ValueError(f"share must be over 0 and below 1, not {self.share}")

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    @property
    def truncates(self) -> bool:
        return self.inner.truncates

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[StartStatesState, Timestep]:
        """Starts new games."""
        num_envs = keys.shape[0]
        if num_envs % BLOCK:
            raise ValueError(
                f"{num_envs} environments on a device are not whole blocks of {BLOCK}, which share "
                "their start states; use a multiple"
            )
        state, timestep = self.inner.reset(keys)
        bank = self.starts.init(Start(state.games, timestep.mask, timestep.observation))
        new = jnp.ones(num_envs, bool)
        return StartStatesState(state, new, bank), _counting(timestep, new)

    def step(
        self,
        state: StartStatesState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[StartStatesState, Timestep]:
        """Plays one action in each game, and resets the games that ended."""
        after, timestep = self.inner.step(state.inner, actions, keys)
        here = Start(after.games, timestep.mask, timestep.observation)
        bank = self.starts.update(state.bank, state.inner, after, timestep.done, here)

        words = jax.vmap(lambda key: Chance.from_key(key).fold_in(StepStream.SAVED_GAME).words(2))(
            keys
        )
        wants = timestep.done & (_uniform(words[:, 0]) < self.share)
        wanting = wants.reshape(-1, BLOCK)
        who = _first(wanting)
        found, there = self.starts.draw(bank, _take(_blocks(words[:, 1]), who), self.inner)
        begins = wanting.any(axis=1) & there
        put = _put(_blocks(here), who, found, begins)
        here = jax.tree.map(lambda leaf, like: leaf.reshape(like.shape), put, here)
        starts_there = (begins[:, None] & _is_at(who, BLOCK)).reshape(-1)

        after = after.with_games(here.game, here.mask)
        timestep = eqx.tree_at(
            lambda x: (x.observation, x.mask), timestep, (here.observation, here.mask)
        )
        is_new_game = jnp.where(timestep.done, ~starts_there, state.is_new_game)
        return StartStatesState(after, is_new_game, bank), _counting(timestep, state.is_new_game)


def _counting(timestep: Timestep, is_new_game: Bool[Array, " num_envs"]) -> Timestep:
    """The timestep with the counts of its episodes: only new games count."""
    counted: Timestep = eqx.tree_at(
        lambda x: x.episode.counts, timestep, is_new_game, is_leaf=lambda leaf: leaf is None
    )
    return counted


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
        ValueError: `share` is out of range, or `by` is unknown.
    """
    known = {
        "milestones": Archive(_milestones, len(MILESTONES)),
        "points": Archive(_points_left, LAST_STAGE * (1 + len(POINTS_LEFT))),
    }
    if by not in known:
        raise ValueError(f"by is {by!r}; expected {' or '.join(known)}")
    return StartStates(inner, known[by], share)


Frontier = frontier
"""The former name, for one version."""


def at_stages(
    inner: HackMatrix, first: int, last: int, share: float = 0.25, *, key: Key[Array, ""]
) -> StartStates:
    """HackMatrix in which a share of the episodes starts as a new game in later stages.

    32 games of each stage are drawn once, each with a starting bonus and without programs.

    Args:
        inner: the game.
        first: the first stage to start in.
        last: the last one, 8 at most.
        share: the share of the episodes that start there.
        key: source of randomness for the games.

    Raises:
        ValueError: a stage or `share` is out of range.
    """
    if not 1 <= first <= last <= LAST_STAGE:
        raise ValueError(f"stages {first} to {last}: expected two of 1 to {LAST_STAGE}, in order")
    stages = jnp.repeat(jnp.arange(first, last + 1, dtype=jnp.int32), _GAMES_OF_A_STAGE)
    keys = jax.random.split(key, stages.shape[0])
    games = jax.jit(jax.vmap(lambda key, stage: new_game(inner.config, key=key, stage=stage)))(
        keys, stages
    )
    return StartStates(inner, GivenStates(games), share)


_GAMES_OF_A_STAGE = 32


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
    return jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), tree)


def _take(tree: Tree, index: Int32[Array, " blocks"]) -> Tree:
    def one(leaf: Any) -> Any:
        return jax.vmap(lambda block, i: lax.dynamic_index_in_dim(block, i, 0, False))(leaf, index)

    return jax.tree.map(one, tree)


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
