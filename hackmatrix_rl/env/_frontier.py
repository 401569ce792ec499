"""A curriculum of start positions: some episodes start where the agent has rarely been."""

from dataclasses import replace
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

from hackmatrix_rl.env._environment import Environment, EnvSpec, Timestep
from hackmatrix_rl.env._hackmatrix import HackMatrix, HackMatrixState
from hackmatrix_rl.games.hackmatrix import State, StepStream
from hackmatrix_rl.system.batching import Chance

Tree = TypeVar("Tree", bound=PyTree)

KINDS = (*(f"stage {stage}" for stage in range(2, 9)), "first siphon", "first program", "hp 1")
"""The kinds of saved positions. A new position replaces the saved one of its kind."""
BLOCK = 8
"""Number of neighbouring environments that share saved positions."""


class Saved(eqx.Module):
    """A start position, with its observation."""

    game: State
    mask: Bool[Array, "*batch num_actions"]
    observation: PyTree[Array]


class Bank(eqx.Module):
    """The saved positions of each block of environments, by kind."""

    saved: Saved
    filled: Bool[Array, "blocks kinds"]  #: Whether there is a saved position.
    reached: Int32[Array, "blocks kinds"]  #: How often the kind was reached.

    def draw(self, word: UInt32[Array, " blocks"]) -> Int32[Array, " blocks"]:
        """A kind for each block, with probability proportional to 1 / (1 + `reached`)."""
        weight = jnp.where(self.filled, 1.0 / (1.0 + self.reached.astype(jnp.float32)), 0.0)
        below = jnp.cumsum(weight, axis=1)
        place = _uniform(word)[:, None] * below[:, -1:]
        kind = jnp.sum((below <= place).astype(jnp.int32), axis=1)
        return jnp.minimum(kind, len(KINDS) - 1)


class FrontierState(eqx.Module):
    """The state of the environments and of the banks."""

    inner: HackMatrixState
    is_new_game: Bool[Array, " num_envs"]
    bank: Bank

    @property
    def games(self) -> State:
        """The games, for players that read the state."""
        return self.inner.games


class Frontier(Environment):
    """HackMatrix in which a share of the episodes starts from a saved position.

    It saves positions of the agent's own play: the start of stages 2 to 8, the first siphon and the
    first program of an episode, and a drop to hp 1. Rarely reached kinds are drawn more often. The
    statistics ignore such an episode (`EpisodeStatistics.counts`).

    Blocks of 8 neighbouring environments share their saved positions. In one step, at most one
    environment of a block saves, and at most one starts from a saved position. Each device must
    have complete blocks, so the games do not depend on the devices.

    Source: Ecoffet et al. 2021, "First return, then explore"; Salimans and Chen 2018, "Learning
    Montezuma's Revenge from a single demonstration".

    Raises:
        ValueError: `share` is not above 0 and below 1.
    """

    inner: HackMatrix  #: The game.
    #: Share of the episodes that start from a saved position, once there is one.
    share: float = eqx.field(static=True, default=0.25)

    def __check_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share must be over 0 and below 1, not {self.share}")

    @property
    def spec(self) -> EnvSpec:
        return self.inner.spec

    @property
    def truncates(self) -> bool:
        return self.inner.truncates

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[FrontierState, Timestep]:
        """Starts new games, without saved positions."""
        num_envs = keys.shape[0]
        if num_envs % BLOCK:
            raise ValueError(
                f"{num_envs} environments on a device are not whole blocks of {BLOCK}, which share "
                "their saved positions; use a multiple"
            )
        state, timestep = self.inner.reset(keys)
        here = Saved(state.games, state.mask, timestep.observation)

        def room(leaf: Array) -> Array:
            return jnp.zeros((num_envs // BLOCK, len(KINDS), *leaf.shape[1:]), leaf.dtype)

        none = jnp.zeros((num_envs // BLOCK, len(KINDS)), bool)
        bank = Bank(jax.tree.map(room, here), none, none.astype(jnp.int32))
        new = jnp.ones(num_envs, bool)
        return FrontierState(state, new, bank), _counting(timestep, new)

    def step(
        self,
        state: FrontierState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[FrontierState, Timestep]:
        """Plays one action in each game, and resets the games that ended."""
        after, timestep = self.inner.step(state.inner, actions, keys)
        here = Saved(after.games, after.mask, timestep.observation)
        bank = _save(state.bank, _kinds(state.inner, after) & ~timestep.done[:, None], here)

        words = jax.vmap(lambda key: Chance.from_key(key).fold_in(StepStream.SAVED_GAME).words(2))(
            keys
        )
        wants = timestep.done & (_uniform(words[:, 0]) < self.share)
        wanting = wants.reshape(-1, BLOCK)
        who = _first(wanting)
        begins = wanting.any(axis=1) & bank.filled.any(axis=1)
        drawn = bank.draw(_take(_blocks(words[:, 1]), who))
        found = _put(_blocks(here), who, _take(bank.saved, drawn), begins)
        here = jax.tree.map(lambda leaf, like: leaf.reshape(like.shape), found, here)
        from_bank = (begins[:, None] & _is_at(who, BLOCK)).reshape(-1)

        after = replace(after, games=here.game, mask=here.mask)
        timestep = eqx.tree_at(
            lambda x: (x.observation, x.mask), timestep, (here.observation, here.mask)
        )
        is_new_game = jnp.where(timestep.done, ~from_bank, state.is_new_game)
        return FrontierState(after, is_new_game, bank), _counting(timestep, state.is_new_game)


def _counting(timestep: Timestep, is_new_game: Bool[Array, " num_envs"]) -> Timestep:
    """The timestep with the counts of its episodes: only new games count."""
    counted: Timestep = eqx.tree_at(
        lambda x: x.episode.counts, timestep, is_new_game, is_leaf=lambda leaf: leaf is None
    )
    return counted


def whole_games(environment: Environment) -> Environment:
    """The environment for evaluation, in which every episode is a full game by the rules."""
    if isinstance(environment, Frontier):
        return environment.inner
    if isinstance(environment, HackMatrix) and environment.without_undo_share > 0:
        return replace(environment, without_undo_share=0.0)
    return environment


def _kinds(before: HackMatrixState, after: HackMatrixState) -> Bool[Array, "num_envs kinds"]:
    """Which kinds of positions the step reached."""
    was, is_now = before.games.position, after.games.position
    stage = jnp.where(is_now.stage > was.stage, is_now.stage, 0)
    stages = stage[:, None] == jnp.arange(2, 9, dtype=jnp.int32)[None]
    siphon = (before.tally.siphons == 0) & (after.tally.siphons > 0)
    program = (before.tally.programs == 0) & (after.tally.programs > 0)
    low = (is_now.player.hp == 1) & (was.player.hp > 1)
    return jnp.concatenate([stages, jnp.stack([siphon, program, low], axis=1)], axis=1)


def _save(bank: Bank, reached: Bool[Array, "num_envs kinds"], here: Saved) -> Bank:
    """Saves, in each block, the position of the first environment that reached a kind."""
    apart = _blocks(reached)
    who = _first(apart.any(axis=2))
    kinds = _take(apart, who)
    kind, some = _first(kinds), kinds.any(axis=1)
    saved = _put(bank.saved, kind, _take(_blocks(here), who), some)
    now = some[:, None] & _is_at(kind, len(KINDS))
    counts = jnp.sum(apart, axis=1, dtype=jnp.int32)
    return Bank(saved, bank.filled | now, bank.reached + counts)


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
