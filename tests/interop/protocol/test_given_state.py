"""`setState`: a position that another program describes."""

import numpy as np
import pytest

from hackmatrix_rl.interop.protocol import Server, seen_of

pytestmark = pytest.mark.processes

BLOCK = {"row": 3, "col": 3, "type": "data", "points": 4}


@pytest.fixture(scope="module")
def server():
    return Server(0)


def put(server, row=2, col=2, player=(), **state):
    """The answer to a position with the player in a cell."""
    player = {"row": row, "col": col, **dict(player)}
    return server.answer({"action": "setState", "state": {"player": player, **state}})


def cell(answer, row, col):
    return answer["observation"]["cells"][row][col]


def step(server, action):
    return server.answer({"action": "step", "actionIndex": action})


def test_each_field_of_a_state_is_in_its_observation(server):
    enemy = {"type": "daemon", "row": 2, "col": 4, "hp": 2}
    answer = put(
        server,
        player={
            **{"hp": 2, "credits": 7, "energy": 8, "dataSiphons": 3, "attackDamage": 2},
            "score": 31,
        },
        enemies=[enemy | {"stunned": True, "spawnedFromSiphon": True}],
        transmissions=[{"row": 4, "col": 4, "turnsRemaining": 12, "enemyType": "virus"}],
        blocks=[
            BLOCK | {"spawnCount": 2, "siphoned": True},
            {"row": 1, "col": 1, "type": "program", "programType": "siph+"},
            {"row": 1, "col": 2, "type": "program", "programActionIndex": 27},
        ],
        resources=[
            {"row": 0, "col": 1, "credits": 3},
            {"row": 0, "col": 2, "energy": 2},
            {"row": 0, "col": 5, "dataSiphon": True},
        ],
        ownedPrograms=[5, 18],
        stage=4,
        turn=6,
        showActivated=True,
        scheduledTasksDisabled=True,
    )
    seen = answer["observation"]
    assert (seen["playerRow"], seen["playerCol"], seen["playerHP"]) == (2, 2, 2)
    assert (seen["credits"], seen["energy"], seen["dataSiphons"]) == (7, 8, 3)
    assert (seen["baseAttack"], seen["score"], seen["stage"], seen["turn"]) == (2, 31, 4, 6)
    assert seen["showActivated"]
    assert seen["scheduledTasksDisabled"]
    assert seen["ownedPrograms"] == [5, 18]
    assert cell(answer, 2, 4)["enemy"] == {
        "type": "daemon",
        "hp": 2,
        "isStunned": True,
        "spawnedFromSiphon": True,
    }
    assert cell(answer, 4, 4)["transmission"] == {"turnsUntilSpawn": 12, "enemyType": "virus"}
    assert cell(answer, 3, 3)["block"] == {
        "blockType": "data",
        "isSiphoned": True,
        "points": 4,
        "transmissionSpawnCount": 2,
    }
    assert cell(answer, 1, 1)["block"]["programActionIndex"] == 16
    assert cell(answer, 1, 1)["block"]["transmissionSpawnCount"] == 7
    assert cell(answer, 1, 2)["block"]["programType"] == "HACK"
    assert (cell(answer, 0, 1)["credits"], cell(answer, 0, 2)["energy"]) == (3, 2)
    assert cell(answer, 0, 5)["isDataSiphon"]
    assert cell(answer, 5, 5)["isExit"]


def test_a_state_that_says_nothing_has_the_defaults_of_a_stage(server):
    seen = put(server)["observation"]
    assert (seen["playerHP"], seen["credits"], seen["stage"], seen["turn"]) == (3, 0, 1, 0)
    internal = server.answer({"action": "getInternalState"})
    assert (internal["scheduledTaskInterval"], internal["nextScheduledTaskTurn"]) == (12, 12)
    put(server, stage=3, turn=50)
    internal = server.answer({"action": "getInternalState"})
    assert (internal["scheduledTaskInterval"], internal["nextScheduledTaskTurn"]) == (10, 60)


def test_the_exit_is_on_the_first_corner_where_nothing_stands(server):
    assert cell(put(server, 5, 5), 5, 0)["isExit"]
    block = {"row": 5, "col": 5, "type": "data", "points": 1}
    assert cell(put(server, blocks=[block]), 5, 0)["isExit"]
    corners = [{"row": row, "col": col, "dataSiphon": True} for row in (0, 5) for col in (0, 5)]
    assert "leaves no corner for the exit" in put(server, resources=corners)["error"]


def test_what_no_play_reaches_is_taken_where_it_fits(server):
    answer = put(server, blocks=[BLOCK | {"points": 0}], player={"dataSiphons": 1})
    assert cell(answer, 3, 3)["block"]["points"] == 0
    answer = put(server, blocks=[{**BLOCK, "row": 2, "spawnCount": 10}], player={"dataSiphons": 1})
    assert cell(answer, 2, 3)["block"]["transmissionSpawnCount"] == 10
    coming = [each for row in step(server, 4)["observation"]["cells"] for each in row]
    assert sum("transmission" in each for each in coming) == 10
    answer = put(server, blocks=[{**BLOCK, "row": 2, "points": 10}], player={"dataSiphons": 1})
    assert cell(answer, 2, 3)["block"]["points"] == 10
    assert seen_of(answer["observation"]).plane("value")[2 * 6 + 3] == 10
    assert step(server, 4)["observation"]["score"] == 10


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"resources": [{"row": 1, "col": 1, "credits": 5}]},
            "state.resources[0].credits is 5; expected a whole number from 0 to 3",
        ),
        ({"blocks": [BLOCK | {"spawnCount": 16}]}, "state.blocks[0].spawnCount is 16; "),
        (
            {"blocks": [BLOCK | {"points": 16}]},
            "state.blocks[0].points is 16; expected a whole number from 0 to 15",
        ),
        ({"blocks": [BLOCK | {"type": "question"}]}, "expected one of data, program"),
        ({"blocks": [BLOCK | {"hue": 1}]}, "state.blocks[0] has an unknown field hue; "),
        ({"blocks": [{"row": 1, "col": 1, "type": "program"}]}, "programType is missing"),
        (
            {"enemies": [{"type": "virus", "row": 1, "col": 1, "hp": 3}]},
            "state.enemies[0].hp is 3; expected a whole number from 1 to 2",
        ),
        ({"enemies": [{"type": "bug", "row": 1, "col": 1}]}, "type is 'bug'; expected one of "),
        ({"enemies": 7}, "state.enemies is 7; expected a list"),
        ({"enemies": [7]}, "state.enemies[0] is 7; expected an object"),
        ({"stage": 9}, "state.stage is 9; expected a whole number from 1 to 8"),
        (
            {"turn": 2**31 - 1},
            "state.turn is 2147483647; expected a whole number from 0 to 1000000000",
        ),
        ({"turn": 10**9}, "next_scheduled_task_turn of game is 1000000012"),
        ({"ownedPrograms": [5] * 24}, "expected at most 23 entries"),
        ({"ownedPrograms": [4]}, "state.ownedPrograms is 4; expected whole numbers from 5 to 27"),
        ({"exit": {"row": 0}}, "state has an unknown field exit; its fields are player, "),
        ({"player": None}, "state.player is missing"),
        ({"player": {"row": 1}}, "state.player.col is missing"),
        (
            {"enemies": [{"type": "virus", "row": 1, "col": 1, "hp": 1}] * 25},
            "more than max_enemies=24",
        ),
    ],
)
def test_what_is_no_position_is_refused_by_its_field(server, state, said):
    before = server.engine.look()
    answer = server.answer(
        {"action": "setState", "state": {"player": {"row": 2, "col": 2}} | state}
    )
    assert said in answer["error"]
    assert answer["error"].startswith("setState: ")
    np.testing.assert_array_equal(server.engine.look().seen.grid, before.seen.grid)


def test_a_game_goes_on_from_a_state(server):
    enemy = {"type": "virus", "row": 2, "col": 3, "hp": 1}
    put(server, enemies=[enemy])
    answer = step(server, 3)
    assert not answer["done"]
    assert answer["info"]["reward_breakdown"]["kills"] == pytest.approx(0.3)
    put(server, enemies=[enemy | {"hp": 2}, enemy | {"row": 3, "col": 2}], player={"hp": 1})
    answer = step(server, 1)
    assert answer["info"]["death"]
    assert answer["done"]
