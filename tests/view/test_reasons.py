"""Why an action is not legal: said for every illegal action, and for no legal one."""

from functools import partial

import jax
import numpy as np
import pytest
from games.hackmatrix.positions import block_of, virus
from games.hackmatrix.recordings import CONFIG, load, rows

from hackmatrix_rl.games.hackmatrix import Action, Program, from_arrays, legal_actions
from hackmatrix_rl.view import KEYS, frame_of, frames_of, why_not
from view.boards import mask_of, state_of

pytestmark = pytest.mark.view


def test_there_is_a_reason_for_illegal_actions_and_for_no_other():
    before = load("observations").before
    index = np.linspace(0, len(before["player"]) - 1, 100).astype(int)
    states = from_arrays(CONFIG, rows(before, index))
    masks = np.asarray(jax.jit(jax.vmap(partial(legal_actions, CONFIG)))(states))
    for frame, mask in zip(frames_of(states), masks, strict=True):
        for shown in (frame, frame.seen()):
            said = [why_not(shown, mask, action) for action in Action]
            assert [each is None for each in said] == [bool(legal) for legal in mask]


def owns(program, *, credits=0, energy=0, **more):
    return {"programs": [program], "credits": credits, "energy": energy, **more}


@pytest.mark.parametrize(
    ("action", "given", "expected"),
    [
        (Action.DOWN, {}, "the board ends here"),
        (Action.LEFT, {"player": (3, 0)}, "the board ends here"),
        (Action.RIGHT, {"player": (3, 5)}, "the board ends here"),
        (Action.UP, {"cells": {(1, 0): block_of(Program.ROW)}}, "a block is in the way"),
        (Action.SIPHON, {}, "you have no data siphon"),
        (Action.ROW, {"credits": 9}, "you do not own it: siphon a block that holds it"),
        (Action.ROW, owns(Program.ROW, credits=1, energy=1), "costs 3 credits: you have 1"),
        (
            *(Action.CRASH, owns(Program.CRASH)),
            "costs 3 credits: you have 0, costs 2 energy: you have 0",
        ),
        (Action.UNDO, owns(Program.UNDO), "costs 1 credit: you have 0"),
        (
            *(Action.ROW, owns(Program.ROW, credits=9, energy=9, enemies=[virus(3, 3)])),
            "needs an enemy in your row",
        ),
        (Action.RESET, owns(Program.RESET, energy=9), "needs less than 3 hp"),
        (Action.UP, {}, None),
    ],
)
def test_the_reason_is_the_one_of_the_rules(action, given, expected):
    found = state_of(**given)
    assert why_not(frame_of(found), mask_of(found), action) == expected


def test_each_action_but_the_directions_has_a_key_of_its_own():
    assert set(KEYS) == set(Action) - {Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT}
    assert len(set(KEYS.values())) == len(KEYS)
    assert not {"h", "q"} & set(KEYS.values())
    assert all(len(key) == 1 and key.islower() for key in KEYS.values())
