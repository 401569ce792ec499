"""A replay is a few hundred bytes, and plays the same game or says why not."""

import json
from dataclasses import replace
from unittest import mock

import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Replay
from view.games import played

pytestmark = pytest.mark.view


@pytest.fixture(scope="module")
def match():
    """A game of the runner that sees a second stage."""
    match = played(5)
    assert match.now.frame.stage > 1
    return match


@pytest.fixture
def file(match, tmp_path):
    path = tmp_path / "game.json"
    Replay.from_match(match, player="runner").save(path)
    return path


def changed(file, **fields):
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, **fields}))
    return file


def test_the_file_is_small_plays_the_same_game_and_tells_its_result(match, file):
    replay = Replay.load(file)
    assert replay == Replay.from_match(match, player="runner")
    again = replay.match()
    assert again.now.frame == match.now.frame
    assert again.total_reward == match.total_reward
    assert again.now.end == match.now.end == "died"
    assert file.stat().st_size < 400 + len(match.actions)
    said = Replay.load(file).summary()
    assert said.startswith("runner: 40 moves, stage 3, score 0, return 0.47")


def test_a_game_can_be_taken_over_from_any_move(match, file):
    at = Replay.load(file).match(7)
    assert at.actions == match.actions[:7]
    assert at.now.frame == match.moments[7].frame
    at.play(at.now.legal[-1])
    Replay.from_match(at).match()  # the new game is a replay, too


def test_progress_is_told_and_a_move_that_the_replay_does_not_have_is_refused(file):
    with pytest.raises(ConfigError, match="--move 41: the replay has 40 moves; use 0 to 40"):
        Replay.load(file).match(41)
    told = []
    Replay.load(file).match(3, on_move=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_name_of_who_played_can_be_read_back(match):
    replay = Replay.from_match(match, player="\x1b[2J\ud800" + "x" * 500)
    assert replay.player.startswith(r"\x1b[2J\ud800xxx")
    assert Replay.from_dict(replay.as_dict()) == replay


def test_a_game_ends_before_its_snapshots_fill_the_memory(match):
    match = Match(match.seed, config=match.config)
    with mock.patch("hackmatrix_rl.view.replays._match.MOST_SNAPSHOTS", 3 * match.config.history):
        while match.now.end is None:
            match.play(match.now.legal[0])
        assert (match.now.number, match.now.end) == (3, "cut off")
        Replay.from_dict(Replay.from_match(match).as_dict())


def test_an_unfinished_game_is_a_replay(match):
    half = Replay.from_match(Replay.from_match(match).match(5))
    assert half.end is None
    assert half.match().now.frame == match.moments[5].frame


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rules": 999}, "a replay of rules version 999, but this version"),
        ({"format": "other"}, "not a replay: format is other, expected hackmatrix-replay-1"),
        ({"actions": "uu?"}, r"actions: '\?' at move 3 is not an action; actions are the letters"),
        ({"actions": 5}, "actions is 5; expected a text"),
        ({"seed": [1]}, r"seed is \[1\]; expected two whole numbers"),
        ({"seed": [1, 2**32]}, "expected two whole numbers from 0 to 4294967295"),
        ({"seed": [1, True]}, "expected two whole numbers"),
        ({"max_steps": 0}, "max_steps is 0; expected a positive whole number or null"),
        ({"config": {"max_enemies": 0}}, "config: max_enemies must be a positive integer"),
        ({"config": {"history": 10**9}}, "history of 1,000,000,000; games with .* at most 0 moves"),
        # 3.8 MB for each position, had they been played.
        (
            {"config": {"history": 10_000}, "actions": "u" * 20_000},
            "20,000 moves with a history of 10,000; games with such a history have at most 100",
        ),
        ({"config": {"max_enemies": 10**400}}, "must be at most 63, not a number of 1329 bits"),
        ({"config": {"size": 7}}, "config.size, which this version"),
        ({"end": "bored"}, "end is bored; expected null, 'won'"),
        ({"total_reward": float("nan")}, "total_reward is nan; expected a number of at most"),
        ({"total_reward": 10**400}, "total_reward is a number of 1329 bits; expected a number"),
        ({"player": "x" * 201}, "player is x{60}[.]{3}; expected a short printable text"),
        (
            {"player": "\x1b]0;title\x07"},
            r"player is \\x1b\]0;title\\x07; expected a short printable",
        ),
        ({"player": "\ud800"}, r"player is \\ud800; expected a short printable text"),
        ({"check": "\x9b2J"}, r"check is \\x9b2J; expected a short printable text"),
        ({"format": "\ud800" * 20_000}, r"format is (\\ud800){60}[.]{3}, expected"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(file, fields, said):
    with pytest.raises(ConfigError, match=said) as refused:
        Replay.load(changed(file, **fields))
    assert str(refused.value).startswith(str(file))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["rules", "seed", "actions", "config", "check"])
def test_a_missing_field_is_named(file, name):
    content = json.loads(file.read_text())
    del content[name]
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=f"a damaged replay: {name} is missing"):
        Replay.load(file)


def test_a_truncated_file_and_one_that_is_not_there_are_refused(file):
    file.write_text(file.read_text()[:100])
    with pytest.raises(ConfigError, match=r"game.json: .*Give a replay"):
        Replay.load(file)
    with pytest.raises(ConfigError, match="there is no such file"):
        Replay.load(file.with_name("none.json"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda actions: actions[:3] + "W" + actions[4:],
            r"move 4 of 40: .* not legal here; legal",
        ),
        (lambda a: a + "u", r"move 41 of 41: the game has ended \(died\)"),
    ],
)
def test_a_move_that_cannot_be_played_is_named(file, change, said):
    letters = json.loads(file.read_text())["actions"]
    with pytest.raises(ConfigError, match=said):
        Replay.load(changed(file, actions=change(letters))).match()


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"score": 7}, "it ends in stage 3 with score 0 .died., but in the file in stage 3 with s"),
        ({}, "it ends in a position with the checksum [0-9a-f]{16}, but in the file it is 0{16}"),
    ],
)
def test_a_game_that_ends_otherwise_is_noticed_by_what_differs(file, recorded, said):
    replay = Replay.load(file)
    with pytest.raises(ConfigError, match=said):
        replace(replay, check="0" * 16, **recorded).match()


def test_actions_have_one_letter_each():
    from hackmatrix_rl.view.replays._replay import LETTERS

    assert len(set(LETTERS)) == len(LETTERS) == len(hm.Action)
