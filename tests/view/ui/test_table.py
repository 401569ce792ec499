"""A game at the table: moves, agents, thoughts, branches, replays."""

import pytest

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import SCRIPTS
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.ui._table import Table

pytestmark = pytest.mark.view

NOTHING = {"game": None, "moments": 0, "shapes": 0}


def find_player(name):
    """The scripts; nobody else is known."""
    if name not in SCRIPTS:
        raise ConfigError(f"there is no player {name}")
    return SCRIPTS[name](), HackMatrix(max_steps=5)


@pytest.fixture
def table():
    table = Table(find_player, seed=3)
    table.state(NOTHING)
    return table


def legal(answer):
    return answer["moments"][-1]["legal"]


def test_a_page_gets_what_it_does_not_have(table):
    first = table.state(NOTHING)
    assert (first["first"], len(first["moments"]), first["from"]) == (0, 1, 0)
    assert first["rules"]["actions"][0]["name"] == "UP"
    have = {"game": first["game"], "moments": 1, "shapes": len(first["shapes"])}
    second = table.play(have, number=0, action=legal(first)[0])
    assert (second["first"], len(second["moments"])) == (1, 1)
    assert second["from"] == have["shapes"]
    assert "rules" not in second
    whole = table.state(NOTHING)
    assert whole["moments"] == first["moments"] + second["moments"]
    assert whole["shapes"] == first["shapes"] + second["shapes"]


def test_a_position_says_why_actions_are_not_legal(table):
    (moment,) = table.state(NOTHING)["moments"]
    for action, why in moment["why"].items():
        assert (why is None) == (action in moment["legal"])


def test_an_illegal_action_changes_nothing_and_two_moves_are_one_too_many(table):
    before = table.state(NOTHING)
    with pytest.raises(ConfigError, match="not legal"):
        table.play(NOTHING, number=0, action=27)
    with pytest.raises(ConfigError, match="does not exist"):
        table.play(NOTHING, number=0, action=28)
    assert table.state(NOTHING) == before
    action = legal(table.state(NOTHING))[0]
    table.play(NOTHING, number=0, action=action)
    with pytest.raises(ConfigError, match="has moved on"):
        table.play(NOTHING, number=0, action=action)


def test_without_an_agent_nobody_thinks_and_an_unknown_one_changes_nothing(table):
    with pytest.raises(ConfigError, match="no agent"):
        table.think(NOTHING, number=0)
    with pytest.raises(ConfigError, match="no agent"):
        table.agent_move(NOTHING, number=0)
    table.agent(NOTHING, name="runner")
    with pytest.raises(ConfigError, match="no player nobody"):
        table.agent(NOTHING, name="nobody")
    assert table.state(NOTHING)["agent"] == "runner"


def test_the_agent_plays_what_it_thinks(table):
    table.agent(NOTHING, name="runner")
    thought = table.think(NOTHING, number=0)["opinions"]
    answer = table.agent_move(NOTHING, number=0)
    assert [each[:2] for each in answer["opinions"]] == [[0, "runner"], [1, "runner"]]
    assert answer["opinions"][0] == thought[0]
    assert answer["moments"][1]["action"] == thought[0][2]["action"]


def test_a_person_plays_on_from_any_move(table):
    table.agent(NOTHING, name="runner")
    for number in range(4):
        whole = table.agent_move(NOTHING, number=number)
    back = table.branch({"game": whole["game"], "moments": 5, "shapes": 0}, number=2)
    assert back["game"] != whole["game"], "the page forgets the moves after it"
    assert back["moments"] == whole["moments"][:3]
    # The same moves lead to the same game.
    again = table.play(NOTHING, number=2, action=whole["moments"][3]["action"])
    assert again["moments"][3] == whole["moments"][3]
    with pytest.raises(ConfigError, match="move 9 does not exist"):
        table.branch(NOTHING, number=9)


def test_a_replay_goes_out_and_comes_back(table):
    table.agent(NOTHING, name="runner")
    table.play(NOTHING, number=0, action=legal(table.state(NOTHING))[0])
    whole = table.agent_move(NOTHING, number=1)
    replay = table.replay(NOTHING)["replay"]
    assert replay["player"] == "a person and runner"
    table.new(NOTHING, seed=4)
    assert table.state(NOTHING)["moments"][0] != whole["moments"][0]
    assert table.open(NOTHING, replay=replay)["moments"] == whole["moments"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"format": "other"}, "not a replay"),
        ({"actions": "?"}, "not an action"),
        ({"check": "00"}, "plays otherwise"),
        ({"rules": 999}, "rules version 999"),
    ],
)
def test_a_bad_replay_leaves_the_game_that_is_there(table, change, line):
    before = table.state(NOTHING)
    replay = table.replay(NOTHING)["replay"]
    with pytest.raises(ConfigError, match=line):
        table.open(NOTHING, replay=replay | change)
    assert table.state(NOTHING) == before


def test_a_seed_is_a_game_and_nobody_is_cut_off():
    one, other = Table(find_player, seed=5), Table(find_player)
    assert one.state(NOTHING)["moments"] == other.new(NOTHING, seed=5)["moments"]
    one.agent(NOTHING, name="runner")
    for number in range(6):  # of an environment with five moves
        answer = one.agent_move(NOTHING, number=number)
    assert answer["moments"][-1]["end"] is None
