"""The board and the panel as text: fixed positions, exact widths. Colours add no information."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from game.mutations import accepted, mutated_positions
from game.positions import block_of, glitch, virus
from game.recordings import CONFIG, load, rows
from hypothesis import HealthCheck, given, settings
from rich.cells import cell_len
from rich.console import Console

from hackmatrix_rl.game import NUM_ACTIONS, Action, Program, from_arrays, legal_actions
from hackmatrix_rl.view import frame_of, frames_of, why_not
from hackmatrix_rl.view._names import ASCII, STYLES, UNICODE, signs_for
from hackmatrix_rl.view._text import BOARD_HEIGHT, BOARD_WIDTH, panel_of, prospects, text_of

from .positions_shown import busy, crowded, state_of

COMPLETE = """\
┌───────┬───────┬───────┬───────┬───────┬───────┐
│ EXIT  │       │↑D3z   │       │       │ (c2)  │
│       │       │       │       │       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │▒CRASH▒│   ↑   │?7 pts▒│  C?   │       │
│       │▒▒▒▒▒×6│       │▒▒▒▒▒×7│       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │       │   ↑   │ G2!s+v│       │       │
│       │       │+E1    │ANTI-V▒│       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│←◇v1   │ ← ← ← │   @   │ → → → │→V2!   │       │
│       │+$3    │+E2    │ $1   ✓│       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │       │↓D1!   │▒9 pts▒│?anti-v│       │
│       │      ○│       │▒▒▒▒▒×9│▒▒▒▒▒×4│       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │░3 pts░│       │       │ ◇d12  │       │
│ $2[S] │░$2░░░✓│       │       │       │ E3[S]✓│
└───────┴───────┴───────┴───────┴───────┴───────┘"""  # noqa: RUF001

SEEN = """\
+-------+-------+-------+-------+-------+-------+
| EXIT  |       |^D3z   |       |       |       |
|       |       |       |       |       |       |
+-------+-------+-------+-------+-------+-------+
|       |#CRASH#|   ^   |###?###|  C?   |       |
|       |#####x6|       |#######|       |       |
+-------+-------+-------+-------+-------+-------+
|       |       |   ^   | G2zs  |       |       |
|       |       |+E1    |ANTI-V#|       |       |
+-------+-------+-------+-------+-------+-------+
|<~?1   | < < < |   @   | > > > |>V2!   |       |
|       |+$3    |+E2    | $1   %|       |       |
+-------+-------+-------+-------+-------+-------+
|       |       |vD1!   |#9 pts#|###?###|       |
|       |      o|       |#####x9|#######|       |
+-------+-------+-------+-------+-------+-------+
|       |:3 pts:|       |       | ~?12  |       |
| $2[S] |:$2:::%|       |       |       | E3[S]%|
+-------+-------+-------+-------+-------+-------+"""

PANEL = """\
hp 2 ♥♥♡       attack 1
stage 3 of 8   turn 5
score 17       siphons 1
credits $3     energy E2
task in 7      undo: 0 turns

programs
 p  PUSH   E2
 c  CRASH  $3 E2
 r  ROW    $3 E1
(u) UNDO   $1
    needs an earlier turn
(t) STEP   E3
    costs 3 energy: you have 2"""


def mask_of(state):
    return np.asarray(legal_actions(CONFIG, state))


def assert_measures(text, width, height):
    lines = text.plain.split("\n")
    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}


def test_only_who_owns_undo_is_told_how_far_it_goes_back():
    frame = replace(frame_of(busy()), snapshots=1)
    assert "undo: 1 turn " in panel_of(frame).plain
    assert "undo" not in panel_of(replace(frame, owned=())).plain


def test_a_complete_frame_shows_hidden_things_in_lower_case_a_seen_one_not_at_all():
    assert text_of(frame_of(busy())).plain == COMPLETE
    assert text_of(frame_of(busy()).seen(), signs=ASCII).plain == SEEN


def test_the_prospects_name_who_hits_and_what_a_siphon_takes():
    threat, gain = prospects(frame_of(busy()).seen())
    assert threat.plain == "! 2 may hit you next turn (V2, D1): hp 2 to 0, that is death."
    assert gain.plain == "A siphon here takes $3, E3."
    calm = state_of(player=(3, 3), cells={(3, 4): block_of(Program.ANTI_V, 4)})
    threat, gain = prospects(frame_of(calm))
    assert threat.plain == "Nobody in sight hits you in the next turn."
    assert gain.plain == "A siphon here takes ANTI-V and calls 4 transmissions."


def test_the_panel_has_numbers_programs_costs_and_reasons():
    state = busy()
    panel = panel_of(frame_of(state), mask_of(state))
    assert "\n".join(line.rstrip() for line in panel.plain.split("\n")).rstrip() == PANEL


@pytest.mark.parametrize("width", [20, 30, 47, 70])
@pytest.mark.parametrize("count", [0, 1, 6, 7, 12, 13, 23])
def test_the_panel_names_every_owned_program_at_every_width(width, count):
    state = state_of(programs=list(Program)[:count], enemies=[virus(0, 4)])
    frame, mask = frame_of(state), mask_of(state)
    panel = panel_of(frame, mask, width=width)
    assert_measures(panel, width, 19)
    for program in frame.owned:
        assert Action(5 + program).label in panel.plain


def test_with_room_every_program_says_why_it_is_greyed_out():
    state = state_of(programs=list(Program)[:10])
    frame, mask = frame_of(state), mask_of(state)
    plain = panel_of(frame, mask, width=70, height=30).plain
    for program in frame.owned:
        assert why_not(frame, mask, 5 + program) in plain


def test_the_largest_numbers_fit():
    frame = crowded()
    assert_measures(text_of(frame), BOARD_WIDTH, BOARD_HEIGHT)
    assert_measures(panel_of(frame, np.ones(NUM_ACTIONS, bool)), 30, 19)
    assert "+*" in text_of(frame).plain


def test_a_glitch_on_a_block_leaves_its_name_readable():
    on_block = state_of(enemies=[glitch(3, 3)], cells={(3, 3): block_of(Program.COL, 2)})
    lines = text_of(frame_of(on_block)).plain.split("\n")
    assert "▒COL×2▒" in lines[8]  # noqa: RUF001
    assert " G2 " in lines[7]


@pytest.mark.parametrize(("encoding", "signs"), [("utf-8", UNICODE), ("ascii", ASCII)])
@pytest.mark.parametrize("complete", [True, False])
def test_no_colour_and_no_style_hold_the_same_information(encoding, signs, complete, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert signs_for(encoding) is signs
    frame = frame_of(busy()) if complete else frame_of(busy()).seen()
    board = text_of(frame, signs=signs)
    printed = []
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        console.print(board)
        printed.append(re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue()))
    assert printed[0] == printed[1] == board.plain + "\n"
    board.plain.encode(encoding)


def test_other_encodings_get_ascii_and_colours_are_base_colours():
    for encoding in (None, "latin-1", "no-such-encoding"):
        assert signs_for(encoding) is ASCII
    words = {word for style in STYLES.values() for word in style.split()}
    assert words <= {"bold", "dim", "reverse", "red", "green", "cyan", "blue", "magenta"}


def test_real_positions_have_exact_widths():
    before = load("observations").before
    index = np.linspace(0, len(before["player"]) - 1, 12).astype(int)
    for frame in frames_of(from_arrays(CONFIG, rows(before, index))):
        for signs in (UNICODE, ASCII):
            for shown in (frame, frame.seen()):
                assert_measures(text_of(shown, signs=signs), BOARD_WIDTH, BOARD_HEIGHT)
                assert_measures(panel_of(shown, np.zeros(NUM_ACTIONS, bool)), 30, 19)
                prospects(shown)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated_positions)
def test_no_accepted_position_fails(mutated):
    state = accepted(mutated.arrays())
    if state is None:
        return
    batch = state.position.stage.ndim
    for frame in frames_of(state)[:2] if batch else [frame_of(state)]:
        for shown in (frame, frame.seen()):
            assert_measures(text_of(shown), BOARD_WIDTH, BOARD_HEIGHT)
            assert_measures(panel_of(shown, np.zeros(NUM_ACTIONS, bool)), 30, 19)
            prospects(shown)
