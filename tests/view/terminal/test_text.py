"""The board and the panel as text: fixed positions, exact widths. Colours add no information."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from games.hackmatrix.mutations import accepted, mutated_positions
from games.hackmatrix.positions import block_of, glitch, virus
from hypothesis import HealthCheck, given, settings
from rich.cells import cell_len
from rich.console import Console

from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, Action, Program
from hackmatrix_rl.view import frame_of, frames_of, why_not
from hackmatrix_rl.view._names import ASCII, STYLES, UNICODE, signs_for
from hackmatrix_rl.view._text import BOARD_HEIGHT, BOARD_WIDTH, panel_of, prospects, text_of
from view.boards import frame, mask_of, state, state_of

pytestmark = pytest.mark.view

COMPLETE = """\
┌───────┬───────┬───────┬───────┬───────┬───────┐
│       │       │       │ ◇v1   │ANTI-V▒│ EXIT  │
│   [S] │       │       │       │▒▒▒▒▒×4│       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│ V2  +d│       │       │       │ (c2)  │       │
│       │       │       │       │       │ E1   ○│
├───────┼───────┼───────┼───────┼───────┼───────┤
│?reset▒│       │ D3zs  │?4 pts▒│       │ ◇v1   │
│▒▒▒▒▒×2│       │       │▒($2)×4│       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │ G2    │▒UNDO▒▒│ V2!   │░9 pts░│       │
│       │3 pts×3│+▒▒▒▒×3│       │░E3░░░✓│       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │▒6 pts▒│   @   │ → → → │→V1z   │       │
│       │+▒▒▒▒×6│+$2    │+$1    │       │       │
├───────┼───────┼───────┼───────┼───────┼───────┤
│       │       │↓◇g3   │       │       │       │
│ $3    │ E2    │       │       │       │   [S] │
└───────┴───────┴───────┴───────┴───────┴───────┘"""  # noqa: RUF001

SEEN = {
    "│ ◇v1   │": "│ ◇?1   │",
    "│ V2  +d│": "│ V2    │",
    "│ (c2)  │": "│       │",
    "│?reset▒│": "│▒▒▒?▒▒▒│",
    "│▒▒▒▒▒×2│": "│▒▒▒▒▒▒▒│",  # noqa: RUF001
    "│?4 pts▒│": "│▒▒▒?▒▒▒│",
    "│▒($2)×4│": "│▒▒▒▒▒▒▒│",  # noqa: RUF001
    "│↓◇g3   │": "│↓◇?3   │",
}
"""What the player sees in the place of a cell's line."""

IN_ASCII = str.maketrans("─│┌┐└┘├┤┬┴┼▒░×→↓◇✓○", "-|+++++++++#:x>v~%o")  # noqa: RUF001

PANEL = """\
hp 3 ♥♥♥       attack 1
stage 3 of 8   turn 17
score 42       siphons 1
credits $7     energy E11
task in 4

programs
 p  PUSH   E2
 z  WAIT   E1
 i  SIPH+  $5
 b  D_BOM  $3
 v  ANTI-V $3"""


def assert_measures(text, width, height):
    lines = text.plain.split("\n")
    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}


def test_only_who_owns_undo_is_told_how_far_it_goes_back():
    assert "undo: 8 turns " in panel_of(frame("crowded")).plain
    assert "undo" not in panel_of(replace(frame("crowded"), owned=())).plain


def test_a_complete_frame_shows_hidden_things_in_lower_case_a_seen_one_not_at_all():
    assert text_of(frame("everything")).plain == COMPLETE
    seen = COMPLETE
    for complete, instead in SEEN.items():
        seen = seen.replace(complete, instead)
    assert text_of(frame("everything").seen()).plain == seen
    assert text_of(frame("everything").seen(), signs=ASCII).plain == seen.translate(IN_ASCII)


@pytest.mark.parametrize(
    ("shown", "threat", "gain"),
    [
        (
            frame("everything"),
            "! 1 may hit you next turn (V2): hp 3 to 2.",
            "A siphon here takes 6 points, UNDO, $3 and calls 9 transmissions.",
        ),
        (
            frame("crowded"),
            "! 4 may hit you next turn (G2, V2, D2, C2): hp 1 to 0, that is death.",
            "A siphon here takes nothing and calls 6 transmissions.",
        ),
        (
            frame_of(state_of(player=(3, 3), cells={(3, 4): block_of(Program.ANTI_V, 4)})),
            "Nobody in sight hits you in the next turn.",
            "A siphon here takes ANTI-V and calls 4 transmissions.",
        ),
    ],
    ids=["threat", "death", "calm"],
)
def test_the_prospects_name_who_hits_and_what_a_siphon_takes(shown, threat, gain):
    assert [line.plain for line in prospects(shown.seen())] == [threat, gain]


def test_the_panel_has_numbers_programs_and_costs():
    panel = panel_of(frame("everything"), mask_of(state("everything")))
    assert "\n".join(line.rstrip() for line in panel.plain.split("\n")).rstrip() == PANEL


@pytest.mark.parametrize("width", [20, 30, 47, 70])
@pytest.mark.parametrize("count", [0, 1, 6, 7, 12, 13, 23])
def test_the_panel_names_every_owned_program_at_every_width(width, count):
    game = state_of(programs=list(Program)[:count], enemies=[virus(0, 4)])
    panel = panel_of(frame_of(game), mask_of(game), width=width)
    assert_measures(panel, width, 19)
    for program in frame_of(game).owned:
        assert Action(5 + program).label in panel.plain


def test_with_room_every_program_says_why_it_is_greyed_out():
    game = state_of(programs=list(Program)[:10])
    shown, mask = frame_of(game), mask_of(game)
    plain = panel_of(shown, mask, width=70, height=30).plain
    for program in shown.owned:
        assert why_not(shown, mask, 5 + program) in plain


def test_the_largest_numbers_fit():
    assert_measures(text_of(frame("crowded")), BOARD_WIDTH, BOARD_HEIGHT)
    assert_measures(panel_of(frame("crowded"), np.ones(NUM_ACTIONS, bool)), 30, 19)
    many = frame_of(state_of(enemies=[virus(0, 1)] * 20))
    assert "+*" in text_of(many).plain


def test_a_glitch_on_a_block_leaves_its_name_readable():
    on_block = state_of(enemies=[glitch(3, 3)], cells={(3, 3): block_of(Program.COL, 2)})
    lines = text_of(frame_of(on_block)).plain.split("\n")
    assert "▒COL×2▒" in lines[8]  # noqa: RUF001
    assert " G2 " in lines[7]


@pytest.mark.parametrize(("encoding", "signs"), [("utf-8", UNICODE), ("ascii", ASCII)])
@pytest.mark.parametrize("shown", [frame("everything"), frame("everything").seen()], ids=bool)
def test_no_colour_and_no_style_hold_the_same_information(encoding, signs, shown, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert signs_for(encoding) is signs
    board = text_of(shown, signs=signs)
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


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated_positions)
def test_no_accepted_position_fails(mutated):
    found = accepted(mutated.arrays())
    if found is None:
        return
    batch = found.position.stage.ndim
    for complete in frames_of(found)[:2] if batch else [frame_of(found)]:
        for shown in (complete, complete.seen()):
            assert_measures(text_of(shown), BOARD_WIDTH, BOARD_HEIGHT)
            assert_measures(panel_of(shown, np.zeros(NUM_ACTIONS, bool)), 30, 19)
            prospects(shown)
