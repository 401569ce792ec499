"""Demonstrations: written, read back, and refused where they do not fit."""

import json
import os
import zipfile
from dataclasses import replace

import jax
import numpy as np
import pytest

from hackmatrix_rl.algorithms.imitation import (
    Demonstrations,
    DemonstrationsHeader,
    DemonstrationsWriter,
    read_demonstrations,
    record_demonstrations,
)
from hackmatrix_rl.env import HackMatrix, game_identity
from hackmatrix_rl.evaluation import Runner
from hackmatrix_rl.games.hackmatrix import GameConfig
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.search

SMALL = GameConfig(max_enemies=4, max_transmissions=4, history=1)
GAME = HackMatrix(SMALL, max_steps=12)
HEADER = DemonstrationsHeader(
    game=game_identity(), league="original", teacher="somebody", seed=3, games=20, random_share=0.0
)


def numbered(first, count):
    """Positions whose rewards and observations are their numbers."""
    number = np.arange(first, first + count, dtype=np.int32)

    def filled(leaf):
        return np.broadcast_to(
            number.reshape(-1, *(1 for _ in leaf.shape)), (count, *leaf.shape)
        ).astype(leaf.dtype)

    return Demonstrations(
        observation=jax.tree.map(filled, GAME.spec.observation),
        mask=np.ones((count, GAME.spec.num_actions), bool),
        action=number % GAME.spec.num_actions,
        played=number % GAME.spec.num_actions,
        reward=number.astype(np.float32),
        done=number % 5 == 0,
        game=number // 5,
    )


@pytest.fixture
def written(tmp_path):
    folder = tmp_path / "demos"
    with DemonstrationsWriter(folder, HEADER, shard_positions=40) as writer:
        writer.add(numbered(0, 25))
        writer.add(numbered(25, 75))
    return folder


def test_what_is_written_is_read_back(written):
    stored = read_demonstrations(written, GAME)
    assert stored.header == replace(HEADER, shards=(40, 40, 20))
    assert stored.header.positions == 100
    back = Demonstrations.join([stored.shard(n) for n in range(3)])
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(numbered(0, 100)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_batches_are_shuffled_and_hold_each_position_once(written):
    stored = read_demonstrations(written, GAME)
    batches = list(stored.batches(8, seed=1, mixed=2))
    numbers = np.concatenate([batch.reward for batch in batches])
    assert len(numbers) == 96
    assert len(set(numbers.tolist())) == 96
    assert (np.diff(numbers) != 1).mean() > 0.8
    for batch in batches:
        np.testing.assert_array_equal(batch.observation.numbers[:, 0], batch.reward)
    again, other = (
        np.concatenate([b.reward for b in stored.batches(8, seed=seed)]) for seed in (1, 2)
    )
    assert (again != other).any()
    assert len(list(stored.batches(8, seed=1, epochs=2))) == 25


def test_every_host_gets_its_own_share_of_the_same_batches(written):
    stored = read_demonstrations(written, GAME)
    whole = [batch.reward for batch in stored.batches(8, seed=1, mixed=2)]
    by_host = [stored.batches(8, seed=1, mixed=2, host=host, hosts=4) for host in range(4)]
    shares = [[share.reward for share in batch] for batch in zip(*by_host, strict=True)]
    assert {len(share) for batch in shares for share in batch} == {2}
    np.testing.assert_array_equal([np.concatenate(batch) for batch in shares], whole)


@pytest.mark.parametrize(
    ("host", "hosts", "words"),
    [(0, 3, "size 8 does not divide over 3 hosts"), (2, 2, "host must be within 0..1, not 2")],
)
def test_hosts_that_cannot_share_a_batch_are_refused(written, host, hosts, words):
    with pytest.raises(ValueError, match=words):
        next(read_demonstrations(written, GAME).batches(8, seed=1, host=host, hosts=hosts))


@pytest.mark.parametrize(
    ("environment", "change", "message"),
    [
        (HackMatrix(observation="classic"), {}, "observation 'compact-"),
        (
            HackMatrix(GameConfig(rewind_across_stages=False)),
            {},
            "another game: league 'original', but here it is 'no-rewind'",
        ),
        (GAME, {"game": {**game_identity().as_dict(), "rules": "0"}}, "rules '0', but here it is"),
        (GAME, {"format": 9}, "format 9, but this version reads format 1"),
        (GAME, {"shards": "many"}, "no version of hackmatrix-rl writes this"),
        (GAME, {"games": None}, "no version of hackmatrix-rl writes this"),
        (GAME, {"games": 0}, "games must be within 1"),
        (GAME, {"games": 10**30}, r"games cannot have 100 positions"),
        (GAME, {"shards": [40, 10**9]}, "shards must be within 1..1048576, not 1000000000"),
        (GAME, {"random_share": 10**400}, "random_share must be within 0..1, not a number of"),
        (GAME, {"random_share": float("nan")}, "random_share must be within 0..1, not nan"),
        (GAME, {"game": sorted(game_identity().as_dict())}, "game is "),
        (GAME, {"league": "\x1b[2J\ud800"}, "another game: league"),
    ],
)
def test_another_game_is_refused_by_name(written, environment, change, message):
    file = written / "header.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ConfigError, match=message) as error:
        read_demonstrations(written, environment)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("stored", "environment", "advice"),
    [
        (("tactical", "original"), GAME, r"Read them with HackMatrix\(observation=\"tactical\"\)"),
        (("compact", "no-rewind"), GAME, r"HackMatrix\(GameConfig\(rewind_across_stages=False\)\)"),
        (
            ("compact", "original"),
            HackMatrix(GameConfig(rewind_across_stages=False), observation="tactical"),
            r"HackMatrix\(GameConfig\(rewind_across_stages=True\), observation=\"compact\"\)",
        ),
    ],
)
def test_the_environment_that_reads_them_is_named(tmp_path, stored, environment, advice):
    kind, league = stored
    replace(HEADER, game=game_identity(kind), league=league).write(tmp_path)
    with pytest.raises(ConfigError, match=advice):
        read_demonstrations(tmp_path, environment)


def test_demonstrations_of_another_version_must_be_written_again(tmp_path):
    game = replace(game_identity("tactical"), observation="tactical-00000000")
    replace(HEADER, game=game).write(tmp_path)
    with pytest.raises(ConfigError, match="Write the demonstrations again"):
        read_demonstrations(tmp_path, GAME)


def test_files_that_are_cut_short_damaged_missing_or_of_another_shape_give_one_line(written):
    file = written / "00001.npz"
    whole = file.read_bytes()
    garbled = bytearray(whole)
    garbled[len(whole) // 2] ^= 0xFF
    stored = read_demonstrations(written, GAME)
    for content in (whole[: len(whole) // 2], b"", bytes(garbled), b"no archive"):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"00001\.npz: .*damaged") as error:
            stored.shard(1)
        assert "\n" not in str(error.value)
    file.write_bytes((written / "00002.npz").read_bytes())
    with pytest.raises(ConfigError, match=r"00001\.npz: .* is .*\[20.*not .*\[40"):
        stored.shard(1)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="a pipe, a device or a socket"):
        stored.shard(1)
    file.unlink()
    with pytest.raises(ConfigError, match="missing"):
        list(stored.batches(8, seed=0))


def npy(header, data=b""):
    """An array's file as a forger writes it."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


REWARD = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
ABSURD = (
    *(REWARD % length for length in (10**12, 2**80, -1, "1" * 600, "40, 40")),
    *(REWARD.replace("<f4", kind) % 40 for kind in ("|O", ">f4", "<f8")),
    *("", "{", "(" * 500, "__import__('os')", "{'descr': 3}", "\x1b[2J\n"),
)


@pytest.mark.parametrize("header", ABSURD)
def test_a_header_that_no_array_here_has_is_refused_before_the_array_is_read(written, header):
    replaced(written, "reward.npy", npy(header.encode(), b"\0" * 160))
    with pytest.raises(ConfigError, match=r"00001\.npz: its array reward is ") as error:
        read_demonstrations(written, GAME).shard(1)
    assert str(error.value).isprintable()


def replaced(folder, name, content):
    """Writes a member of the second file anew, or another one beside the others."""
    file = folder / "00001.npz"
    with zipfile.ZipFile(file) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, was in members.items():
            if each != name or content is not None:
                archive.writestr(each, content if each == name else was)
        if name not in members:
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("reward.npy", b"no array", "its array reward is no array"),
        ("reward.npy", None, "reward is missing"),
        ("reward.npy", npy((REWARD % 40).encode(), b"\0" * 99), "another size than its shape says"),
        ("more.npy", bytes(10**7), "unpacks to more than 9 arrays or"),
        ("../\x1b.npy", b"", "unpacks to more than 9 arrays or"),
    ],
)
def test_a_member_that_does_not_belong_there_is_named(written, name, content, message):
    replaced(written, name, content)
    with pytest.raises(ConfigError, match=rf"00001\.npz: .*{message}"):
        read_demonstrations(written, GAME).shard(1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("action", 999, "action is 999 in a position, where that is not legal"),
        ("played", -5, "played is -5 in a position, where that is not legal"),
        ("action", 1, "action is 1 in a position, where that is not legal"),
        ("reward", np.nan, "reward holds NaN or infinity"),
        ("reward", np.inf, "reward holds NaN or infinity"),
        ("mask", False, "mask leaves no legal action"),
        ("game", 20, "game is 20, but header.json counts 20 games"),
        ("game", -1, "game is -1, but"),
    ],
)
def test_a_value_that_no_demonstration_holds_is_named(tmp_path, name, value, message):
    some = numbered(0, 100)
    some.mask[7, 1] = False
    getattr(some, name)[7] = value
    with DemonstrationsWriter(tmp_path / "demos", HEADER) as writer:
        writer.add(some)
    with pytest.raises(ConfigError, match=message):
        read_demonstrations(tmp_path / "demos", GAME).shard(0)


def test_arrays_in_another_order_are_read_alike(tmp_path):
    some = jax.tree.map(np.asfortranarray, numbered(0, 100))
    with DemonstrationsWriter(tmp_path / "demos", HEADER) as writer:
        writer.add(some)
    back = read_demonstrations(tmp_path / "demos", GAME).shard(0)
    np.testing.assert_array_equal(back.mask, some.mask)
    np.testing.assert_array_equal(back.observation.numbers, some.observation.numbers)


def test_a_writing_that_was_stopped_is_not_whole(tmp_path):
    def stop():
        with DemonstrationsWriter(tmp_path / "demos", HEADER, shard_positions=4) as writer:
            writer.add(numbered(0, 9))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert (tmp_path / "demos" / "00001.npz").exists()
    with pytest.raises(ConfigError, match=r"header\.json is missing"):
        read_demonstrations(tmp_path / "demos", GAME)
    with pytest.raises(ConfigError, match="exists already"):
        DemonstrationsWriter(tmp_path / "demos", HEADER)


def test_a_teachers_games_do_not_depend_on_how_many_there_are(tmp_path):
    headers = [
        record_demonstrations(
            Runner(),
            GAME,
            tmp_path / str(games),
            name="runner",
            games=games,
            seed=5,
            random_share=0.2,
            num_envs=2,
        )
        for games in (2, 3)
    ]
    assert [header.games for header in headers] == [2, 3]
    two, three = (read_demonstrations(tmp_path / n, GAME).shard(0) for n in ("2", "3"))
    first_two = three.select(slice(len(two)))
    jax.tree.map(np.testing.assert_array_equal, two, first_two)
    assert sorted(set(three.game.tolist())) == [0, 1, 2]
    assert three.done.sum() == 3
    assert three.done[-1]
    assert three.mask[np.arange(len(three)), three.action].all()
    assert 0 < (three.played != three.action).mean() < 0.5
