"""MaskablePPO of sb3-contrib plays HackMatrix."""

import pytest

pytest.importorskip("sb3_contrib")

import gymnasium
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

import hackmatrix_rl.gymnasium  # noqa: F401


@pytest.mark.parametrize(("policy", "form"), [("MlpPolicy", "flat"), ("MultiInputPolicy", "dict")])
def test_maskable_ppo_learns_without_an_illegal_action(policy, form):
    ends = []

    class Watched(gymnasium.Wrapper):
        def step(self, action):
            legal = self.unwrapped.action_masks()[int(action)]
            found = self.env.step(action)
            ends.append(bool(legal))
            return found

        def action_masks(self):
            return self.unwrapped.action_masks()

    games = make_vec_env(
        lambda: Watched(gymnasium.make("HackMatrix-v0", observation=form, max_episode_steps=200)), 2
    )
    model = MaskablePPO(policy, games, n_steps=32, batch_size=32, n_epochs=1, seed=0)
    before = [part.detach().clone() for part in model.policy.parameters()]
    model.learn(128)
    assert len(ends) >= 128
    assert all(ends)
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
