"""One more program and one more term of the reward, as CONTRIBUTING adds them."""

import json
import re
import shutil
from pathlib import Path

import jax
import pytest
from processes import python

import hackmatrix_rl as hm
from hackmatrix_rl.games.hackmatrix import TERM_NAMES, TERMS, Action, Program
from hackmatrix_rl.games.hackmatrix._programs import Spec
from hackmatrix_rl.interop.protocol._server import BREAKDOWN

pytestmark = pytest.mark.processes

PACKAGE = Path(hm.__file__).parent

# Runs in a process of its own, on a copy of the package that has one more program and one more
# term. Shapes are checked against the annotations, so a number that stands in one is found.
CHILD = """
import json
import equinox as eqx, jax, jax.numpy as jnp, numpy as np
import hackmatrix_rl
hackmatrix_rl.check_types()
from hackmatrix_rl.env import HackMatrix, env_keys, game_identity
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS, NUM_PROGRAMS, GameConfig, Program, RewardConfig, from_arrays, legal_actions,
    new_game, to_arrays
)
from functools import partial
from hackmatrix_rl.interop.protocol import Result, info_of
from hackmatrix_rl.interop.protocol._engine import _play
from hackmatrix_rl.runs.config import make_config
game = new_game(GameConfig(), key=jax.random.key(0))
arrays = to_arrays(game)
arrays["owned"][Program.NOTHING] = 1
game = from_arrays(GameConfig(), arrays)
environment = HackMatrix()
keys = env_keys(jax.random.key(0), 2)
state, timestep = jax.eval_shape(environment.reset, keys)
state, timestep = jax.eval_shape(environment.step, state, jnp.zeros(2, jnp.int32), keys)
features = jax.eval_shape(environment.spec.encode, environment.spec.observation)
zero = np.uint32(0)
play = partial(_play, GameConfig())
_, _, result = jax.eval_shape(play, game, np.int32(0), zero, zero, np.int32(0))
flags = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), result)
filled = eqx.tree_at(lambda r: r.terms, flags, np.arange(result.terms.size, dtype=np.float32))
config = make_config("debug", {"reward": "example=0.5"})
weighted = HackMatrix(reward=RewardConfig(example=0.5)).reward
classic = HackMatrix(observation="classic").spec.observation
print(json.dumps({
    "file": hackmatrix_rl.__file__,
    "programs": NUM_PROGRAMS,
    "actions": NUM_ACTIONS,
    "owned": to_arrays(game)["owned"].tolist(),
    "legal": np.flatnonzero(legal_actions(GameConfig(), game)).tolist(),
    "spec": environment.spec.num_actions,
    "mask": timestep.mask.shape,
    "flat": features.flat.shape,
    "grid": features.grid.shape,
    "classic": (classic.programs.shape, classic.grid.shape),
    "identity": game_identity().actions,
    "terms": [*environment.spec.terms],
    "step": [*timestep.terms],
    "weights": [config.reward, config.reward_config == weighted],
    "breakdown": info_of(filled)["reward_breakdown"],
}))
"""


TERM = """    example: float = term(
        "every hit point", lambda move: 0.25 * move.real(move.after.player.hp)
    )"""


def added(path: Path, after: str, line: str) -> None:
    """Adds a line behind the only one that begins with `after`."""
    text, count = re.subn(rf"(?m)^{re.escape(after)}.*\n", rf"\g<0>{line}\n", path.read_text())
    assert count == 1
    path.write_text(text)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the package says of itself, now and with one more program."""
    root = tmp_path_factory.mktemp("larger")
    shutil.copytree(PACKAGE, root / "hackmatrix_rl", ignore=shutil.ignore_patterns("__pycache__"))
    game = root / "hackmatrix_rl" / "games" / "hackmatrix"
    last = max(Program)
    added(game / "_state.py", f"    {last.name} = {last.value}", f"    NOTHING = {last.value + 1}")
    added(game / "_programs.py", "SPECS: ", '    Program.NOTHING: Spec(0, 0, 1, "", "", _always),')
    name = max(Action)
    added(
        game / "_actions.py", f"    {name.name} = {name.value}", f"    NOTHING = {name.value + 1}"
    )
    added(game / "_reward_config.py", "    program_waste: ", TERM)
    code = "import sys; sys.path.insert(0, sys.argv[1])\n" + CHILD
    said = json.loads(python("-c", code, root, cwd=root))
    assert said.pop("file").startswith(str(root))
    return said


def test_actions_and_masks_follow_and_it_is_owned_and_legal(found):
    programs, actions = len(Program) + 1, hm.HackMatrix().spec.num_actions + 1
    assert (found["programs"], found["actions"], found["spec"]) == (programs, actions, actions)
    assert found["mask"] == [2, actions]
    assert found["identity"].startswith(f"{actions}-")
    assert found["owned"] == [0] * len(Program) + [1]
    assert found["actions"] - 1 in found["legal"]


def test_what_networks_are_fed_follows(found):
    now, classic = hm.HackMatrix().spec, hm.HackMatrix(observation="classic").spec
    encoded = jax.eval_shape(now.encode, now.observation)
    seen = classic.observation
    assert found["flat"] == [encoded.flat.shape[0] + 1]
    assert found["grid"] == [*encoded.grid.shape[:2], encoded.grid.shape[2] + 1]
    assert found["classic"] == [
        [seen.programs.shape[0] + 1],
        [*seen.grid.shape[:2], seen.grid.shape[2] + 1],
    ]


def test_names_weights_and_the_protocol_follow_a_term(found):
    """One declaration, in one file."""
    terms = [*TERM_NAMES[:-1], "example", TERM_NAMES[-1]]
    assert (found["terms"], found["step"]) == (terms, sorted(terms))
    assert found["weights"] == ["example=0.5", True]
    names = [*[*BREAKDOWN][:-1], "example", "siphonDeathPenalty"]
    assert found["breakdown"] == dict(zip(names, range(1, 16), strict=True))


def test_the_page_of_metrics_says_what_each_term_pays_for():
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    rows = re.findall(r"(?m)^\| `reward/(\w+)` \| (.*) \|$", page)
    assert rows == [(name, each.pays_for) for name, each in TERMS.items()]


@pytest.mark.parametrize("cost", [0, 16])
def test_a_spawn_cost_that_a_block_cannot_hold_is_refused(cost):
    with pytest.raises(ValueError, match=f"spawn_cost must be within 1..15, not {cost}"):
        Spec(0, 0, cost, "", "", usable=lambda view: view.can_undo)
