"""Games of any environment as they were seen: recorded, stored, shown."""

import base64
import copy
import io
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compilations
from env.targets import Dials, Target
from PIL import Image

import hackmatrix_rl as hm
from hackmatrix_rl.env import check_pictures
from hackmatrix_rl.evaluation import PolicyAgent, RandomAgent
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import observed, save_gif
from hackmatrix_rl.view.replays import (
    Recording,
    load_game,
    page_of_recording,
    recorded,
    recording_data,
)

pytestmark = pytest.mark.view

KEY = jax.random.key(0)
SMALL = {"width": 4, "key": jax.random.key(1)}


class Line(hm.SingleGame):
    """A walk to the right; staying is legal only at the start."""

    num_actions = 2

    def start(self, *, key):
        return jnp.int32(0)

    def observe(self, state):
        return jax.nn.one_hot(state, 4)

    def legal(self, state):
        return jnp.array([False, True]) | (state == 0)

    def play(self, state, action, *, key):
        return hm.Played(state + action, action.astype(jnp.float32), state + action >= 3)


class Written(Line):
    def render(self, state):
        return "\n".join(["." * int(state) + "@", "---"])


class Painted(Line):
    def draw(self, state):
        picture = jnp.zeros((2, 4, 3), jnp.uint8)
        return picture.at[:, state].set(255)


class Drawn(Written):
    """Its start is random, so it is several operations."""

    def start(self, *, key):
        return jax.random.randint(key, (), 0, 2)


def test_a_game_starts_and_goes_on_by_one_program_each():
    environment = hm.Batched(Drawn())
    with compilations() as programs:
        check_pictures(environment)
        scenes = recorded(RandomAgent(), environment, KEY).scenes
    assert len(scenes) > 2
    assert programs.count("start_games") == programs.count("_step") == 1
    # What else is compiled takes one game out of its batch, and makes its key.
    rest = set(programs) - {"start_games", "_step"}
    assert not {name for name in rest if not re.match("dynamic_slice|squeeze|_?threefry", name)}


@pytest.mark.parametrize(
    ("game", "texts"), [(Target(), ["-1, 2.97", "-1, -0.295"]), (Dials(), ["0, 1"])]
)
def test_actions_that_are_no_list_are_kept_as_text(game, texts, tmp_path):
    environment = hm.Batched(game)
    player = PolicyAgent(hm.MLPActorCritic(environment.spec, width=8, depth=1, key=KEY))
    found = recorded(player, environment, KEY)
    assert [scene.action for scene in found.scenes] == [None, *texts]
    assert {scene.legal for scene in found.scenes} == {()}
    found.save(tmp_path / "game.json")
    assert Recording.load(tmp_path / "game.json").as_dict() == found.as_dict()
    data = recording_data(found)
    assert [each["name"] for each in data["actions"]] == texts
    assert [moment["action"] for moment in data["moments"]] == [None, *range(len(texts))]


@pytest.fixture(scope="module")
def recordings():
    """A network's game as text, as pixels, and as observations, by the class of the game."""
    found = {}
    for game in (Written(), Painted(), Line()):
        environment = hm.Batched(game, max_steps=9)
        policy = hm.build_network("gru", environment.spec, **SMALL)
        page = hm.watch(policy, environment=environment, name="somebody")
        found[type(game).__name__] = page.match
    return found


def test_the_positions_are_those_of_the_evaluation_up_to_the_last(recordings):
    environment = hm.Batched(Written(), max_steps=9)
    policy = hm.build_network("gru", environment.spec, **SMALL)
    found = hm.evaluate(policy, environment, episodes=1, key=KEY)
    seen = recordings["Written"]
    assert (seen.moves, seen.total_reward) == (found.values["length"][0], 3)
    assert [seen.scenes[0].picture, seen.scenes[-1].picture] == ["@\n---", "...@\n---"]
    assert seen.end == "terminated"
    assert seen.scenes[0].legal == (0, 1)
    first, last = seen.scenes[0], seen.scenes[-1]
    assert sum(first.opinion.probabilities.values()) == pytest.approx(1)
    assert first.opinion.action == seen.scenes[1].action
    assert last.opinion is None
    assert seen.summary() == f"somebody: terminated after {seen.moves} steps: return 3"


def test_each_position_is_drawn_as_the_environment_draws_it(recordings, tmp_path):
    texts = {name: seen.scenes[-1].picture for name, seen in recordings.items()}
    with Image.open(io.BytesIO(texts["Painted"])) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape == (2, 4, 3)
    assert pixels[0, :, 0].tolist() == [0, 0, 0, 255]
    assert texts["Line"].splitlines()[0] == "observation: float32[4]"
    assert "3      +1.0000  " in texts["Line"]
    for name, seen in recordings.items():
        drawings = seen.drawings()
        assert len({(each.width, each.height) for each in drawings}) == 1
        save_gif(drawings, tmp_path / f"{name}.gif")
        with Image.open(tmp_path / f"{name}.gif") as film:
            assert film.n_frames > 1
    assert ("data:image/png;base64," in page_of_recording(recordings["Painted"])) is True


@pytest.mark.parametrize("name", ["Written", "Painted", "Line"])
def test_a_file_holds_the_whole_game(recordings, name, tmp_path):
    seen, file = recordings[name], tmp_path / "game.json"
    seen.save(file)
    found = load_game(file)
    assert found.as_dict() == seen.as_dict()
    assert page_of_recording(found) == page_of_recording(seen)
    assert found.until(1).moves == 1
    with pytest.raises(ConfigError, match=f"--move 99: the replay has {seen.moves} moves"):
        found.until(99)


def changed(content, path, value):
    *parents, last = path
    place = content
    for part in parents:
        place = place[part]
    place[last] = value
    return content


BOMB = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 40).decode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "hackmatrix-recording-9"),
        (("num_actions",), 10**9),
        (("player",), "a\x1b[31m"),
        (("environment",), "x" * 999),
        (("pictures",), {}),
        (("pictures", 0), {"text": "x" * 50_000}),
        (("pictures", 0), {"svg": "<svg/>"}),
        (("pictures", 0), {"png": BOMB}),
        (("pictures", 0), {"png": "%"}),
        (("scenes",), []),
        (("scenes", 0), 3),
        (("scenes", 0, "picture"), -1),
        (("scenes", 0, "picture"), True),
        (("scenes", 1, "action"), 2),
        (("scenes", 1, "reward"), None),
        (("scenes", 1, "reward"), 10**400),
        (("scenes", 1, "end"), "won"),
        (("scenes", 1, "legal"), "01"),
        (("scenes", 1, "terms"), {"a\nb": 1}),
        (("scenes", 0, "opinion", "probabilities"), [[0]]),
        (("scenes", 0, "opinion", "values"), [[7, 0.5]]),
        (("scenes", 0, "opinion", "visits"), [[0, "inf"]]),
        (("scenes", 0, "opinion", "value"), "many"),
    ],
    ids=str,
)
def test_another_content_is_refused_by_its_field(recordings, path, value):
    content = changed(copy.deepcopy(recordings["Written"].as_dict()), path, value)
    field = str(path[-1]) if isinstance(path[-1], str) else f"{path[0]}[{path[-1]}]"
    with pytest.raises(ConfigError) as caught:
        Recording.from_dict(content)
    assert field in str(caught.value)
    assert len(str(caught.value)) < 300


def test_pictures_beyond_the_room_are_left_out():
    environment = hm.Batched(Painted(), max_steps=9)
    seen = recorded(RandomAgent(), environment, KEY, most_bytes=1)
    assert isinstance(seen.scenes[0].picture, bytes)
    assert seen.scenes[1].picture.startswith("(This position has no picture")


@pytest.mark.parametrize(
    ("observation", "lines"),
    [
        (np.zeros((2, 3), bool), ["observation: bool[2, 3]", " . . .", " . . ."]),
        (np.eye(2)[:, :, None] * [0, 1], ["observation: float64[2, 2, 2]", " 2 .", " . 2"]),
        (
            {"far": np.full((9, 9, 9, 9), 2)},
            ["observation['far']: int64[9, 9, 9, 9]", "least 2, mean"],
        ),
        (np.float32(-0.5), ["observation: float32[]", "  0      -0.5000       #####|"]),
        (np.array([np.nan]), ["observation: float64[1]", "  0         +nan            |"]),
        (np.zeros((0,)), ["observation: float64[0]"]),
    ],
    ids=lambda value: "",
)
def test_an_observation_is_text(observation, lines):
    for found, expected in zip(observed(observation).splitlines(), lines, strict=False):
        assert found.startswith(expected)
