"""Some games begin where the agent itself has been."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from training.states import assert_same

from hackmatrix_rl.agent import EpisodeSums
from hackmatrix_rl.env import BLOCK, HackMatrix, env_keys, frontier, whole_games
from hackmatrix_rl.env._start_states import MILESTONES
from hackmatrix_rl.games.hackmatrix import legal_actions
from hackmatrix_rl.training.sharding import mesh

NUM_ENVS, STEPS = 2 * BLOCK, 400
GAME = HackMatrix(max_steps=60)
FRONTIER = frontier(GAME, share=0.5)
LOW_HP = MILESTONES.index("hp 1")


def play(keys):
    """Random play, step by step: the states and timesteps."""
    start, timestep = FRONTIER.reset(jax.vmap(jax.random.fold_in, (0, None))(keys, 0))

    def one(carry, number):
        state, mask = carry
        here = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        noise = jax.vmap(lambda key: jax.random.uniform(key, mask.shape[1:]))(here)
        action = jnp.argmax(jnp.where(mask, noise, -1.0), axis=1).astype(jnp.int32)
        state, timestep = FRONTIER.step(state, action, here)
        seen = {
            "done": timestep.done,
            "counts": timestep.episode.counts,
            "new": state.is_new_game,
            "length": timestep.episode.length,
            "filled": state.bank.filled,
            "stage": state.inner.games.position.stage,
            "hp": state.inner.games.position.player.hp,
        }
        return (state, timestep.mask), (
            seen,
            timestep.observation,
            EpisodeSums.of(timestep).count[None],
        )

    (state, _), found = jax.lax.scan(
        one, (start, timestep.mask), jnp.arange(1, STEPS + 1, dtype=jnp.uint32)
    )
    return state, found


@pytest.fixture(scope="module")
def played():
    return jax.jit(play)(env_keys(jax.random.key(0), NUM_ENVS))


def test_what_is_saved_is_what_it_is_called(played):
    bank = played[0].bank
    filled, games = np.asarray(bank.filled), bank.saved.game.position
    assert filled[:, LOW_HP].all()
    assert filled.sum() > 4
    assert (np.asarray(games.player.hp)[:, LOW_HP] == 1).all()
    for kind in range(7):
        where = filled[:, kind]
        assert (np.asarray(games.stage)[where, kind] == kind + 2).all()
    np.testing.assert_array_equal(filled, np.asarray(bank.reached) > 0)
    saved = jax.tree.map(lambda leaf: leaf[0], bank.saved)
    see = jax.jit(jax.vmap(lambda game: (legal_actions(GAME.config, game), GAME.observe(game))))
    kept = (saved.mask, saved.observation), see(saved.game)
    assert_same(*jax.tree.map(lambda leaf: leaf[filled[0]], kept))


def test_the_share_of_ended_episodes_begins_from_the_bank(played):
    seen = jax.tree.map(np.asarray, played[1][0])
    late = np.arange(STEPS) > 100  # the banks hold something
    begins = seen["done"] & late[:, None]
    from_bank = begins & ~seen["new"]
    assert begins.sum() > 50
    assert 0.3 < from_bank.sum() / begins.sum() < 0.6
    # New games begin in stage 1 with hp 3; what was saved is one or the other no more.
    fresh = (seen["stage"] == 1) & (seen["hp"] == 3)
    assert fresh[begins & seen["new"]].all()
    assert (~fresh[from_bank]).mean() > 0.5


def test_only_episodes_from_new_games_count(played):
    seen, _, ended = jax.tree.map(np.asarray, played[1])
    before = np.concatenate([np.ones((1, NUM_ENVS), bool), seen["new"][:-1]])
    np.testing.assert_array_equal(seen["counts"], before)
    np.testing.assert_array_equal(ended[:, 0], (seen["done"] & before).sum(axis=1))
    assert (seen["done"] & ~before).any()


@pytest.mark.matrix
def test_devices_do_not_matter(played):
    cut = jax.shard_map(
        play,
        mesh=mesh("data=2"),
        in_specs=P(("data", "fsdp")),
        out_specs=(P(("data", "fsdp")), (P(None, ("data", "fsdp")),) * 3),
        check_vma=False,
    )
    state, (seen, observation, _) = jax.jit(cut)(env_keys(jax.random.key(0), NUM_ENVS))
    assert_same((state, seen, observation), (played[0], *played[1][:2]))


def test_rare_kinds_are_drawn_more_often(played):
    some = jnp.array([2, 7, 9])
    none = jnp.zeros((1, len(MILESTONES)), jnp.int32)
    filled, reached = none.at[0, some].set(1) > 0, none.at[0, some].set(jnp.array([0, 9, 99]))
    bank = dataclasses.replace(played[0].bank, filled=filled, reached=reached)
    words = jax.random.bits(jax.random.key(0), (3000, 1), jnp.uint32)
    counts = np.bincount(np.asarray(jax.vmap(bank.draw)(words)).ravel(), minlength=len(MILESTONES))
    weights = np.array([1, 1 / 10, 1 / 100])
    np.testing.assert_allclose(counts[[2, 7, 9]] / 3000, weights / weights.sum(), atol=0.02)
    assert counts.sum() == counts[[2, 7, 9]].sum()


def test_evaluation_is_in_whole_games():
    assert whole_games(FRONTIER) is GAME
    assert whole_games(GAME) is GAME
    with pytest.raises(ValueError, match="share must be over 0 and below 1, not 1"):
        frontier(GAME, share=1.0)
    with pytest.raises(ValueError, match="12 environments on a device are not whole blocks of 8"):
        FRONTIER.reset(env_keys(jax.random.key(0), 12))
