"""Replays of a training's evaluation games."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from displays import Notes
from processes import assert_same_end

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.evaluation import Evaluation, PolicyAgent
from hackmatrix_rl.runs import ReplayWriter, make_run_folder
from hackmatrix_rl.runs import _replaying as module
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.view.replays import Match, Replay, game_seed

from .on_cartpole import train

pytestmark = pytest.mark.view

KEY = jax.random.key(2)
ENVIRONMENT = hm.HackMatrix(max_steps=20)


@pytest.fixture(scope="module")
def found():
    """An evaluation of five games; played by hand, because the games compile faster so."""
    draws = np.random.default_rng(0)
    matches = [Match(game_seed(KEY, game), max_steps=20) for game in range(5)]
    for match in matches:
        while match.now.end is None:
            match.play(int(draws.choice(match.now.legal)))
    numbers = {
        "return": [match.total_reward for match in matches],
        "stage": [match.now.frame.stage for match in matches],
        "score": [match.now.frame.score for match in matches],
    }
    return Evaluation(
        episodes=5,
        values={name: np.array(values, np.float32) for name, values in numbers.items()},
        unfinished=0,
        actions=tuple(np.array(match.actions) for match in matches),
    )


@pytest.fixture
def folder(tmp_path):
    return make_run_folder(make_config("debug", {"run_dir": str(tmp_path / "run")}))


@pytest.fixture
def told():
    return []


@pytest.fixture
def shown():
    return []


@pytest.fixture
def writer(folder, told, shown):
    made = ReplayWriter.of(folder, ENVIRONMENT, most=3, note=told.append, show=shown.append)
    assert made is not None
    return made


def names(folder: RunFolder):
    return sorted(path.name for path in folder.replays.iterdir())


def test_the_median_game_is_kept_and_the_page_shows_it(writer, folder, found, told, shown):
    writer.keep(found, KEY, update=7)
    assert told == []
    (name,) = names(folder)
    replay = Replay.load(folder.replays / name)
    median = float(np.sort(found.values["return"])[2])
    assert replay.total_reward == pytest.approx(median, abs=1e-3)
    assert name == f"update-00000007_return-{median:.2f}_stage-{replay.stage}.json"
    assert replay.player == "run, update 7"
    assert "run, update 7" in folder.page.read_text()
    assert shown == [folder.page]


def test_the_newest_stay_and_the_best(writer, folder, found, monkeypatch):
    monkeypatch.setattr(module, "page_of", lambda *_, **__: "")
    writer.keep(found, KEY, update=1)
    folder.replays.joinpath("update-00000000_return-900.50_stage-8.json").write_text("{}")
    folder.replays.joinpath("mine.json").write_text("{}")
    for update in (2, 3, 4, 5):
        writer.keep(found, KEY, update=update)
    updates = [name.partition("_")[0] for name in names(folder)]
    assert updates == ["mine.json", *(f"update-{n:08}" for n in (0, 3, 4, 5))]


def test_a_resumed_run_writes_its_replay_again(writer, folder, found, monkeypatch):
    monkeypatch.setattr(module, "page_of", lambda *_, **__: "")
    folder.replays.mkdir()
    folder.replays.joinpath("update-00000004_return-1.50_stage-8.json").write_text("{}")
    writer.keep(found, KEY, update=4)
    (name,) = names(folder)
    assert "stage-8" not in name


def test_what_fails_is_told_once_and_stops_nothing(writer, folder, found, told, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "page_of", lambda *_, **__: "")
    monkeypatch.setattr(module, "write_whole", full)
    for update in (1, 2, 3):
        writer.keep(found, KEY, update=update)
    assert told == [
        "could not write a replay: OSError: [Errno 28] No space left on device. Training continues."
    ]
    monkeypatch.setattr(module, "write_whole", lambda *_: None)
    writer.keep(found, KEY, update=4)
    monkeypatch.setattr(module, "write_whole", full)
    writer.keep(found, KEY, update=5)
    assert len(told) == 2


def test_an_evaluation_of_other_games_is_told(writer, folder, found, told):
    writer.keep(found, jax.random.key(99), update=1)
    assert "could not write a replay: ConfigError: " in told[0]
    assert not folder.page.exists()


def test_only_process_0_writes_and_only_if_asked(folder, told):
    def made(folder=folder, most=3):
        return ReplayWriter.of(folder, ENVIRONMENT, most=most, note=told.append)

    other = RunFolder.seen_by(1, folder.as_dict())
    assert made() is not None
    assert made(folder=other) is made(most=0) is None


def test_a_policy_plays_a_game_and_shows_what_it_is_worth(writer, folder, told):
    policy = hm.build_network("cells", ENVIRONMENT.spec, width=4, key=jax.random.key(0))
    writer.play(PolicyAgent(policy, value_scale=RunningScale()), KEY, update=3)
    assert told == []
    (name,) = names(folder)
    assert len(Replay.load(folder.replays / name).actions) <= 20
    assert '"value":' in folder.page.read_text()


def test_each_evaluation_is_shown_and_training_has_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(ReplayWriter, "of", kept)
    for replays in (2, 0):
        given = {"run_dir": str(tmp_path / str(replays)), "replays": replays, "mesh": "data=1"}
        sizes = {"eval_interval": 2, "eval_interval_episodes": 3, "total_timesteps": 1536}
        config = make_config("debug", {**given, **sizes})
        sink, pages = Notes(), []
        monkeypatch.setattr(sink, "show", lambda page, to=pages: to.append(page.read_text()))
        assert train(config, displays=[sink]).exit_code == 0
        assert pages == [f"update {update}" for update in (2, 4, 6) if replays]
    assert_same_end(tmp_path / "2", tmp_path / "0")


def kept(folder, environment, *, most, note, show, film):
    """In place of `ReplayWriter.of`: keeps evaluations of any environment, as a page."""

    def keep(found, key, *, update, agent=None):
        assert found.episodes == 3
        assert float(agent.value_scale.weight) > 0
        folder.page.write_text(f"update {update}")
        show(folder.page)

    return SimpleNamespace(keep=keep) if most else None
