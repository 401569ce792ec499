"""`check_environment`: what only playing shows, found in environments that break one promise."""

import dataclasses
import sys
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from training.test_wrong_use import Walk, shows

import hackmatrix_rl as hm
from hackmatrix_rl.env import CartPole, EpisodeStatistics
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.config._environments import make_environment


@pytest.mark.parametrize(
    "environment",
    [CartPole(max_steps=15), Walk(), probes.mask_matters()],
    ids=["cartpole", "walk", "mask"],
)
def test_environments_that_keep_their_promises_pass(environment):
    hm.check_environment(environment, steps=20)


def with_episode(**changes):
    return lambda t: dataclasses.replace(t.episode, **{k: f(t) for k, f in changes.items()})


class NotReset(Walk):
    """Counts episodes anew, but leaves the walker where it is."""

    def step(self, state, actions, keys):
        place, (length, total) = state[0] + 1, state[1]
        done = place >= self.limit
        last = (length + 1, total + 1.0)
        now = jax.tree.map(lambda leaf: jnp.where(done, jnp.zeros_like(leaf), leaf), last)
        timestep = self.show((place, last[1]), (place, last[1]), jnp.ones(keys.shape[0]))
        episode = EpisodeStatistics(last[1], last[0], {})
        return (place, now), dataclasses.replace(timestep, truncated=done, episode=episode)

    def reset(self, keys):
        _, timestep = super().reset(keys)
        zero = jnp.zeros(keys.shape[0], jnp.int32)
        return (zero, (zero, jnp.zeros(keys.shape[0]))), timestep


class Noisy(Walk):
    """What is seen depends on something that it should not depend on."""

    noise: object = eqx.field(static=True, kw_only=True)

    def reset(self, keys):
        state, timestep = super().reset(keys)
        noise = self.noise(keys)
        return (state, noise), self.with_noise(timestep, noise)

    def step(self, state, actions, keys):
        now, timestep = super().step(state[0], actions, keys)
        return (now, state[1]), self.with_noise(timestep, state[1])

    @staticmethod
    def with_noise(timestep, noise):
        more = {
            name: getattr(timestep, name) + noise[:, None]
            for name in ("observation", "last_observation")
        }
        return dataclasses.replace(timestep, **more)


def of_the_trace(keys):
    return jnp.full(keys.shape, np.random.default_rng().random(), jnp.float32)


def of_all_games(keys):
    draws = jax.vmap(jax.random.uniform)(keys)
    return jnp.full(keys.shape, jnp.mean(draws))


def of_each_game(keys):
    return jax.vmap(jax.random.uniform)(keys)


def odd(value):
    return lambda t: jnp.where(t.reward > 0, value, t.reward)


BROKEN = {
    "no legal action": (
        shows(mask=lambda t: t.mask & (t.reward == 0)[:, None]),
        "mask has no legal action",
    ),
    "NaN seen": (
        shows(observation=lambda t: t.observation + odd(jnp.nan)(t)[:, None]),
        "observation is NaN",
    ),
    "infinite reward": (shows(reward=odd(jnp.inf)), "reward is infinite"),
    "NaN in a term": (shows(terms=lambda t: {"pay": odd(jnp.nan)(t)}), r"terms\['pay'\] is NaN"),
    "both ends": (shows(terminated=lambda t: t.truncated), "terminated and truncated are both"),
    "truncates": (Walk(truncates=False), "truncates says False"),
    "ended at the reset": (
        shows(truncated=lambda t: jnp.ones_like(t.truncated)),
        "reset.*an episode has ended already",
    ),
    "paid at the reset": (shows(reward=lambda t: t.reward + 1), "reset.*reward is 1; expected 0"),
    "other last observation": (
        shows(last_observation=lambda t: t.last_observation + 1),
        "last_observation is not observation",
    ),
    "other last mask": (
        shows(last_mask=lambda t: t.mask & (t.reward == 0)[:, None]),
        "last_mask is not mask",
    ),
    "length": (
        shows(episode=with_episode(length=lambda t: t.episode.length + 1)),
        "length is 6, but the episode that ended had 5 steps",
    ),
    "return": (
        shows(episode=with_episode(total_reward=lambda t: t.reward)),
        r"total_reward is \d, but .* add up to \d",
    ),
    "extra": (
        shows(episode=with_episode(extra=lambda t: {"luck": t.reward / 0.0})),
        r"extra\['luck'\] is (inf|nan); expected a number",
    ),
    "never reset": (NotReset(), "last 1 step, the first ones 5 or more"),
    "chance of the trace": (Noisy(noise=of_the_trace), "with the same keys and actions"),
    "chance of all games": (Noisy(noise=of_all_games), "in a batch with other games"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_and_named(name):
    environment, said = BROKEN[name]
    with pytest.raises(ValueError, match=said) as error:
        hm.check_environment(environment, steps=12)
    assert "\n" not in str(error.value)
    assert type(environment).__name__ in str(error.value)


def test_chance_of_each_games_own_passes_and_it_says_so_if_no_episode_ended():
    hm.check_environment(Noisy(noise=of_each_game), steps=12)
    with pytest.warns(UserWarning, match=r"no episode ended in 4 steps.*steps=40"):
        hm.check_environment(Walk(), steps=4)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"num_envs": 1}])
def test_it_needs_something_to_play(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        hm.check_environment(Walk(), **wrong)


class Shown(hm.SingleGame):
    """Ends at once; `text` and `picture` are the results of `render` and `draw`."""

    text: object = eqx.field(static=True, default=None)
    picture: object = eqx.field(static=True, default=None)
    num_actions = 2

    def start(self, *, key):
        return jnp.zeros(2)

    def observe(self, state):
        return state

    def play(self, state, action, *, key):
        return hm.Played(state, jnp.float32(1), jnp.bool_(True))

    def render(self, state):
        return None if self.text is None else self.text()

    def draw(self, state):
        return None if self.picture is None else self.picture()


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"text": lambda: ["a", "b"]}, r'Shown.render .*: return "\\n"\.join\(lines\)'),
        ({"text": lambda: np.zeros((2, 2, 3), np.uint8)}, "render .*by a method draw"),
        ({"text": lambda: 3}, "Shown.render .* returns 3.*; expected one string"),
        ({"picture": lambda: np.zeros((2, 2, 3))}, "Shown.draw .* float64 .*np.uint8 of"),
        ({"picture": lambda: np.zeros((2, 2), np.uint8)}, r"Shown.draw .*\[height, width, 3\]"),
        ({"picture": lambda: np.zeros((0, 2, 3), np.uint8)}, "sides of 1 to 4096 pixels"),
        ({"picture": lambda: "a text"}, "Shown.draw .* expected an array"),
    ],
)
def test_what_nobody_can_show_is_refused_by_its_method(shown, said):
    environment = hm.Batched(Shown(**shown))
    with pytest.raises(hm.ConfigError, match=said):
        hm.check_environment(environment, steps=2)
    policy = hm.MLPActorCritic(environment.spec, width=4, key=jax.random.key(0))
    algorithm = hm.PPO(environment, policy, num_envs=8, num_steps=4, num_minibatches=2)
    with pytest.raises(hm.ConfigError, match=said):
        hm.Trainer(algorithm)
    with pytest.raises(hm.ConfigError, match=said):
        hm.watch(policy, environment=environment)


class Wrong(Shown):
    """A game with one wrong method."""

    wrong: str = eqx.field(static=True, default="")

    def legal(self, state):
        return {"short": jnp.ones(1, bool), "float": jnp.ones(2)}.get(self.wrong, jnp.ones(2, bool))

    def play(self, state, action, *, key):
        if self.wrong == "if" and action == 1:
            return None
        if self.wrong == "tuple":
            return state, 1.0, True
        reward = jnp.ones(1) if self.wrong == "reward" else 1.0
        after = state[:1] if self.wrong == "state" else state
        return hm.Played(after, reward, 1.0 if self.wrong == "done" else jnp.bool_(True))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("short", r"Wrong.legal .*of shape \(1,\); expected bool of shape \(2,\)"),
        ("float", "Wrong.legal .*add .astype\\(bool\\)"),
        ("if", "Wrong.play .* fails: TracerBoolConversionError"),
        ("tuple", "Wrong.play .* expected an hm.Played"),
        ("reward", "Wrong.play .* a reward of shape"),
        ("state", "Wrong.play .* a state of another kind"),
        ("done", "Wrong.play .* returns terminated"),
    ],
)
def test_a_wrong_method_of_a_game_is_refused_by_its_name(wrong, said, monkeypatch):
    environment = hm.Batched(Wrong(wrong=wrong))
    policy = hm.MLPActorCritic(hm.Batched(Shown()).spec, width=4, key=jax.random.key(0))
    for algorithm in (hm.PPO, hm.PQN):
        with pytest.raises((TypeError, ValueError), match=said):
            algorithm(environment, policy, num_envs=8, num_steps=4, num_minibatches=2)
    module = types.ModuleType("wrong_games")
    module.Game = lambda: Wrong(wrong=wrong)
    monkeypatch.setitem(sys.modules, "wrong_games", module)
    with pytest.raises(hm.ConfigError, match=f"--env wrong_games:Game: {said}"):
        make_config("debug", {"env": "wrong_games:Game"}).environment()
    make_environment.cache_clear()
