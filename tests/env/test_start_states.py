"""Some games begin where the agent itself has been."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import EpisodeSums, Linear
from hackmatrix_rl.env import BLOCK, HackMatrix, at_stages, env_keys, frontier, whole_games
from hackmatrix_rl.env._start_states import MILESTONES
from hackmatrix_rl.games.hackmatrix import Content, legal_actions
from hackmatrix_rl.training.sharding import mesh

from .corridor import CORRIDOR, EASY_FIRST, reached
from .targets import Target

NUM_ENVS, STEPS = 2 * BLOCK, 400
GAME = HackMatrix(max_steps=60)
FRONTIER = frontier(GAME, share=0.5)
ARCHIVE = hm.Archive(reached)
GIVEN_WITH_KEYS = hm.GivenStates((EASY_FIRST, jax.random.split(jax.random.key(0), 7)))
LOW_HP = MILESTONES.index("hp 1")


def shows_its_game(games, timestep):
    """Whether observation and mask are of the game, for each environment."""
    shown = jax.vmap(lambda game: (GAME.observe(game), legal_actions(GAME.config, game)))(games)
    same = jax.tree.map(jnp.equal, shown, (timestep.observation, timestep.mask))
    leaves = [leaf.reshape(len(leaf), -1).all(axis=1) for leaf in jax.tree.leaves(same)]
    return jnp.stack(leaves).all(axis=0)


def play(keys, environment=FRONTIER):
    """Random play, step by step: the states and timesteps."""
    start, timestep = environment.reset(jax.vmap(jax.random.fold_in, (0, None))(keys, 0))

    def one(carry, number):
        state, mask = carry
        here = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        noise = jax.vmap(lambda key: jax.random.uniform(key, mask.shape[1:]))(here)
        action = jnp.argmax(jnp.where(mask, noise, -1.0), axis=1).astype(jnp.int32)
        state, timestep = environment.step(state, action, here)
        seen = {
            "done": timestep.done,
            "counts": timestep.episode.counts,
            "new": state.is_new_game,
            "length": timestep.episode.length,
            "filled": state.bank.filled,
            "stage": state.inner.games.position.stage,
            "hp": state.inner.games.position.player.hp,
            "shows its game": shows_its_game(state.inner.games, timestep),
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
    filled, games = np.asarray(bank.filled), bank.games.position
    assert filled[:, LOW_HP].all()
    assert filled.sum() > 4
    assert (np.asarray(games.player.hp)[:, LOW_HP] == 1).all()
    for kind in range(7):
        where = filled[:, kind]
        assert (np.asarray(games.stage)[where, kind] == kind + 2).all()
    np.testing.assert_array_equal(filled, np.asarray(bank.reached) > 0)


def test_the_share_of_ended_episodes_begins_from_the_bank(played):
    seen = jax.tree.map(np.asarray, played[1][0])
    late = np.arange(STEPS) > 100  # the banks hold something
    begins = seen["done"] & late[:, None]
    from_bank = begins & ~seen["new"]
    assert begins.sum() > 50
    assert 0.3 < from_bank.sum() / begins.sum() < 0.6
    # New games begin in stage 1 with hp 3; what was saved is one or the other no more.
    assert from_bank.sum() > 10
    assert seen["shows its game"].all()
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
    counts = np.bincount(
        np.asarray(jax.vmap(bank.sample)(words)).ravel(), minlength=len(MILESTONES)
    )
    weights = np.array([1, 1 / 10, 1 / 100])
    np.testing.assert_allclose(counts[[2, 7, 9]] / 3000, weights / weights.sum(), atol=0.02)
    assert counts.sum() == counts[[2, 7, 9]].sum()


def test_evaluation_is_in_whole_games():
    assert whole_games(FRONTIER) is GAME
    assert whole_games(GAME) is GAME
    with pytest.raises(ValueError, match="share must be over 0 and below 1, not 1"):
        frontier(GAME, share=1.0)
    with pytest.raises(ValueError, match=r"num_envs 12 does not divide .* of 8 .* use num_envs=8"):
        FRONTIER.reset(env_keys(jax.random.key(0), 12))


def walked(environment, steps):
    """Random play of 16 games in the corridor: the cells after each step, and what it returned."""
    keys = env_keys(jax.random.key(3), 16)
    state, _ = environment.reset(keys)

    def one(state, number):
        here = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        action = jax.vmap(lambda key: jax.random.bernoulli(key).astype(jnp.int32))(here)
        state, timestep = environment.step(state, action, here)
        return state, (state.games, state.is_new_game, timestep)

    return jax.jit(lambda: jax.lax.scan(one, state, jnp.arange(1, steps + 1, dtype=jnp.uint32)))()


def test_an_own_game_starts_where_its_agent_was():
    state, (cells, new, timestep) = walked(hm.StartStates(CORRIDOR, ARCHIVE, 0.5), 80)
    assert (np.asarray(state.bank.games) == np.arange(8))[np.asarray(state.bank.filled)].all()
    begins = np.asarray(timestep.done)
    assert (np.asarray(cells)[begins & np.asarray(new)] == 0).all()
    elsewhere = begins & ~np.asarray(new)
    assert (np.asarray(cells)[elsewhere] > 0).all()
    assert 0.2 < elsewhere.sum() / begins.sum() < 0.7
    seen = np.argmax(np.asarray(timestep.observation), axis=2)
    np.testing.assert_array_equal(seen, cells)


def test_a_schedule_opens_the_given_states():
    starts = hm.GivenStates(EASY_FIRST, Linear(0.0, 1.0, over=80))
    _, (cells, new, timestep) = walked(hm.StartStates(CORRIDOR, starts, 0.9), 160)
    found = [
        set(cell[done & ~fresh].tolist())
        for cell, done, fresh in zip(*map(np.asarray, (cells, timestep.done, new)), strict=True)
    ]
    assert set() != set().union(*found[:12]) <= {7, 6}  # the easiest first
    assert set().union(*found) == set(range(1, 8))
    seen = np.argmax(np.asarray(timestep.observation), axis=2)
    np.testing.assert_array_equal(seen, cells)


def test_games_with_real_actions_start_in_given_states():
    game = Target()
    given = jax.vmap(lambda key: game.start(key=key))(jax.random.split(jax.random.key(0), 4))
    hm.check_environment(hm.StartStates(hm.Batched(game), hm.GivenStates(given), 0.5), steps=4)


def test_games_start_in_the_stages_asked_for():
    environment = at_stages(GAME, 4, 6, key=jax.random.key(0))
    games = environment.starts.games.position
    assert np.unique(games.stage).tolist() == [4, 5, 6]
    np.testing.assert_array_equal(games.scheduled_task_interval, 13 - games.stage)
    assert (np.asarray(games.transmissions.present).sum(axis=1) == games.stage).all()


def test_positions_are_archived_by_the_points_that_are_left():
    inner = dataclasses.replace(GAME, without_undo_share=0.5)
    environment = frontier(inner, share=0.5, by="points")
    state, (seen, *_) = jax.jit(lambda keys: play(keys, environment))(
        env_keys(jax.random.key(0), NUM_ENVS)
    )
    counts = np.asarray(seen["counts"])
    assert not counts[:, :BLOCK].any(), "games without UNDO do not count either"
    assert counts[:, BLOCK:].any()
    position, filled = state.bank.games.position, np.asarray(state.bank.filled)
    board = position.board
    data = (board.content == Content.DATA) | (board.content == Content.HIDDEN_DATA)
    left = np.asarray(jnp.sum(jnp.where(data & ~board.siphoned, board.value, 0), axis=-1))
    kinds = (np.asarray(position.stage) - 1) * 4 + np.digitize(left, [1, 10, 20])
    assert filled.sum() > 4
    np.testing.assert_array_equal(kinds[filled], np.nonzero(filled)[1])


def start_states(starts, share=0.5, inner=CORRIDOR):
    return lambda: hm.StartStates(inner, starts(), share)


def checked(starts):
    return lambda: hm.check_environment(start_states(starts)())


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (start_states(lambda: ARCHIVE, inner=hm.CartPole()), TypeError, "inner is .*CartPole"),
        (start_states(lambda: reached), TypeError, r"starts is .*hm.Archive\(reached\)"),
        (start_states(lambda: ARCHIVE, share=jnp.nan), ValueError, "share must be over 0"),
        (start_states(lambda: ARCHIVE, share="half"), TypeError, "share is 'half'"),
        (lambda: hm.Archive(8), TypeError, "reached is 8"),
        (lambda: frontier(CORRIDOR), TypeError, "inner is .*Batched; expected .*hm.HackMatrix"),
        (lambda: at_stages(CORRIDOR, 4, 8), TypeError, "inner is .*Batched; expected .*hm.HackM"),
        (lambda: at_stages(GAME, 0, 3), ValueError, "stages 0 to 3: expected two of 1 to 8"),
        (lambda: at_stages(GAME, 5, 4), ValueError, "stages 5 to 4: expected two of 1 to 8"),
        (lambda: frontier(GAME, by="score"), ValueError, "by is 'score'; expected milestones or"),
        (lambda: hm.GivenStates(()), ValueError, "games is .*expected states with one leading"),
        (lambda: hm.GivenStates(EASY_FIRST[:0]), ValueError, r"\(0,\)"),
        (lambda: hm.GivenStates(jnp.int32(3)), ValueError, r"\(\)"),
        (lambda: hm.GivenStates((jnp.zeros(2), jnp.zeros(3))), ValueError, "one leading axis"),
        (lambda: hm.GivenStates({"x": jnp.array([0, jnp.nan])}), ValueError, r"games\['x'\] has N"),
        (lambda: hm.GivenStates(EASY_FIRST, 0.5), TypeError, "schedule is 0.5"),
        (
            checked(lambda: hm.GivenStates(jnp.zeros((2, 3)))),
            ValueError,
            "games are not of this environment: .* int32 of shape .* float32 of shape",
        ),
        (
            checked(lambda: hm.Archive(lambda before, after: after.games)),
            ValueError,
            r"returns int32 of shape \(\); expected bool of 1 axes",
        ),
        (checked(lambda: hm.Archive(lambda before, after: after.cell)), ValueError, "cell"),
        (
            lambda: hm.PPO(
                start_states(lambda: hm.GivenStates(jnp.zeros(2)))(),
                hm.MLPActorCritic(CORRIDOR.spec, width=8, key=jax.random.key(0)),
                num_envs=8,
                num_steps=2,
                num_minibatches=1,
            ),
            ValueError,
            "games are not of this environment",
        ),
    ],
)
def test_wrong_start_states_end_in_one_clear_error(make, kind, said):
    with pytest.raises(kind, match=said) as error:
        make()
    assert "\n" not in str(error.value)


class WithKey(hm.SingleGame):
    """The corridor, with a random key in its state."""

    num_actions = 2

    def start(self, *, key):
        return jnp.int32(0), key

    def observe(self, state):
        return CORRIDOR.game.observe(state[0])

    def play(self, state, action, *, key):
        played = CORRIDOR.game.play(state[0], action, key=key)
        return played._replace(state=(played.state, state[1]))


def at_home(before, after):
    return jnp.arange(8) == after.games[0]


@pytest.mark.parametrize("starts", [hm.Archive(at_home), GIVEN_WITH_KEYS])
def test_states_may_hold_random_keys(starts):
    environment = hm.StartStates(hm.Batched(WithKey(), max_steps=12), starts, 0.5)
    hm.check_environment(environment, steps=40)
