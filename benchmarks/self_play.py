"""Self-play on the clique game: its speed, and whether it learns perfect play.

python benchmarks/self_play.py --runs runs/0 runs/1             # all of it
python benchmarks/self_play.py games --games 64 --simulations 8 # one part, small

- `games`: the time of full games with a search before each move (n=6, k=3).
- `large`: 1,000 parallel games on a large board (n=14, k=4), and an update of learning there.
- `perfect`: plays the networks of `--runs`, trained by `hackmatrix-rl selfplay`, against the
  perfect player, and counts the won positions that they lost.
- `boards`: plays the networks of `--runs` on boards of `--vertices`, on which they did not train,
  against a random player and an untrained network with the same search and with 4 times as many
  simulations. It runs only if it is named, because it needs `--network graph`.
- `gains`: trains with each option of self-play on and off for `--seconds` each, from the same
  weights, and then both networks play a match with equal search budgets, for three seeds. It runs
  only if it is named. `--simulations`, `--width` and `--large-games` are those of the trainings.

Ten minutes for each option:

python benchmarks/self_play.py gains --seconds 600 --games 200 --devices 2 --json gains.json
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.self_play import (
    Gate,
    MatchResult,
    PerfectPlayer,
    PlayoutCap,
    RandomPlayer,
    Search,
    SearchLoss,
    SearchPlayer,
    SelfPlay,
    judged_match,
    match,
)
from hackmatrix_rl.algorithms.self_play._games import Games, play_moves
from hackmatrix_rl.env import CliqueGame, VertexPermutations, env_keys
from hackmatrix_rl.games.clique import CliqueConfig, solve
from hackmatrix_rl.system import describe_device
from hackmatrix_rl.training import Metrics


def network(game: Any, given: Any) -> Any:
    spec = hm.Batched(game).spec
    key = jax.random.key(given.seed)
    return hm.MLPActorCritic(spec, width=given.width, depth=given.depth, key=key)


def measure_games(
    given: Any, name: str, game: Any, games: int, at_once: int, simulations: int
) -> dict:
    """Plays until a number of games have ended; games are reset at their end, so none waits."""
    policy, search = network(game, given), Search(simulations)

    @eqx.filter_jit
    def play(policy: Any, games: Games, number: Any) -> Any:
        return play_moves(search, game, policy, games, number, given.moves)

    at_once = min(at_once, games)
    started = Games.start(game, env_keys(jax.random.key(given.seed), at_once))
    began = time.perf_counter()
    jax.block_until_ready(play(policy, started, np.int32(0)))
    compiled = time.perf_counter() - began

    ended = moves = number = 0
    began, worked = time.perf_counter(), time.process_time()
    playing = started
    while ended < games:
        playing, _, results = play(policy, playing, np.int32(number))
        ended += int(results.games)
        moves += given.moves * at_once
        number += 1
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    return {
        "board": name,
        "actions": game.num_actions,
        "games at once": at_once,
        "games": ended,
        "moves": moves,
        "seconds": round(seconds, 2),
        "seconds for the games asked for": round(seconds * games / ended, 2),
        "searches/s": round(moves / seconds),
        "simulations/s": round(moves * simulations / seconds),
        "cores busy": round(worked / seconds, 2),
        "compile and first call s": round(compiled, 1),
    }


def board(vertices: int, clique: int) -> CliqueGame:
    """The clique game of these sizes."""
    return CliqueGame(CliqueConfig(vertices, clique))


def measure_iteration(given: Any) -> dict:
    """The time of one update of a training on a large board, after one that compiles."""
    game = board(14, 4)
    policy = network(game, given)
    training = SelfPlay(
        game,
        policy,
        search=Search(given.simulations),
        symmetry=VertexPermutations(14),
        game_batch_size=given.large_games,
        moves_per_update=given.large_moves,
        buffer_size=given.large_games * given.large_moves * 4,
        training_batch_size=given.large_games * max(1, 512 // given.large_games),
    )
    trainer = hm.Trainer(training)
    trainer.start(jax.random.key(given.seed))
    compiled = trainer.compile()
    first, second = trainer.dispatch(1), trainer.dispatch(1)
    memory = trainer.program_memory()
    return {
        "board": "n=14, k=4",
        "games at once": given.large_games,
        "moves": second.env_steps - first.env_steps,
        "seconds": round(second.seconds, 2),
        "searches/s": round(second.steps_per_second),
        "simulations/s": round(second.steps_per_second * given.simulations),
        "memory MiB": None if memory is None else round(memory / 2**20),
        "compile s": round(compiled, 1),
    }


def judge(given: Any, run: Path) -> list[dict]:
    """Half of the games with each side, for each kind of opening."""
    loaded = hm.load_self_play(run)
    solution = solve(loaded.game.config)
    agent, rows = loaded.player(given.simulations), []
    for name, other in (("perfect", PerfectPlayer(solution)), ("random", RandomPlayer())):
        for opening in given.openings:
            found = judged_match(
                agent,
                other,
                solution,
                games=given.games,
                key=jax.random.key(given.seed + 1 + opening),
                opening=opening,
            )
            row = {
                "run": run.name,
                "against": name,
                "random moves first": opening,
                "games": given.games,
                "result": str(found.result),
                "moves in won positions": found.judged.won,
                "given away": found.judged.thrown_away,
                "all different games": found.different,
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def on_boards(given: Any, run: Path) -> list[dict]:
    """Matches of a run's network on boards of other sizes, with two random moves first."""
    loaded, rows = hm.load_self_play(run), []
    for vertices in given.vertices:
        there = loaded.on(CliqueConfig(vertices, loaded.config.k))
        fresh = there.config.policy(key=jax.random.key(given.seed + 1))
        others = {
            "random": RandomPlayer(),
            "untrained": SearchPlayer(fresh, Search(given.simulations)),
            "untrained, 4 times the simulations": SearchPlayer(
                fresh, Search(4 * given.simulations)
            ),
        }
        for name, other in others.items():
            found = match(
                there.player(given.simulations),
                other,
                there.game,
                games=given.games,
                key=jax.random.key(given.seed + 1),
                opening=2,
            )
            row = {"run": run.name, "vertices": vertices, "against": name, "result": str(found)}
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def options(given: Any) -> dict[str, dict[str, Any]]:
    """The options of self-play, each as arguments of `SelfPlay`."""
    few = max(1, given.simulations // 4)
    return {
        "playout cap": {"playout_cap": PlayoutCap(0.25, few)},
        "surprise weights": {"loss": SearchLoss(surprise_weight=0.5)},
        "mixed values": {"loss": SearchLoss(value_mix=0.25)},
        "gate": {"gate": Gate(0.55, games=given.gate_games, interval=given.gate_interval)},
    }


def training(given: Any, game: CliqueGame, seed: int, **changes: Any) -> hm.Trainer[Any]:
    """A training that is compiled and started; weights and games depend on the seed alone."""
    policy = hm.MLPActorCritic(
        hm.Batched(game).spec, width=given.width, depth=given.depth, key=jax.random.key(seed)
    )
    play = SelfPlay(
        game,
        policy,
        search=Search(given.simulations),
        symmetry=VertexPermutations(game.config.vertices),
        game_batch_size=given.large_games,
        moves_per_update=given.large_moves,
        buffer_size=max(65_536, given.large_games * given.large_moves),
        training_batch_size=given.large_games * max(1, 512 // given.large_games),
        train_steps=16,
        opening=4,
        learning_rate=1e-3,
        mesh=f"data={given.devices}",
        **changes,
    )
    trainer = hm.Trainer(play)
    trainer.start(jax.random.key(seed))
    trainer.compile()
    return trainer


def train_for(trainer: hm.Trainer[Any], seconds: float) -> Metrics:
    """Trains for a number of seconds; returns the last metrics.

    The seconds are CPU time by the number of devices, so that a core that others use, too, counts
    as much as a free one.
    """
    began = time.process_time()
    while True:
        metrics = trainer.dispatch(1)
        if time.process_time() - began >= seconds * jax.device_count():
            return metrics


def gains(given: Any) -> list[dict]:
    """Each option on and off at equal time: matches of the networks, for each seed and over all."""
    game, search, found = board(*given.board), Search(given.simulations), []
    plain: dict[int, tuple[Any, Metrics]] = {}
    for seed in given.seeds:
        trainer = training(given, game, seed)
        plain[seed] = trainer.policy, train_for(trainer, given.seconds)
    for name, changes in options(given).items():
        results = []
        for seed in given.seeds:
            trainer = training(given, game, seed, **changes)
            last = train_for(trainer, given.seconds)
            off, last_off = plain[seed]
            result = match(
                SearchPlayer(trainer.policy, search),
                SearchPlayer(off, search),
                game,
                games=given.games,
                key=jax.random.key(seed + 1),
                opening=2,
            )
            results.append(result)
            row = {
                "option": name,
                "seed": seed,
                "games with it": last.as_dict()["games"],
                "games without": last_off.as_dict()["games"],
                "result": str(result),
            }
            print(json.dumps(row), flush=True)
            found.append(row)
        total = MatchResult(*(sum(getattr(each, of) for each in results) for of in POINTS))
        row = {"option": name, "seed": "all", "result": str(total)}
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


POINTS = ("wins", "draws", "losses")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="games, large, perfect, boards, gains")
    parser.add_argument("--games", type=int, default=1000, help="games to play, and in each match")
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--moves", type=int, default=8, help="moves in one call of the program")
    parser.add_argument("--simulations", type=int, default=64, help="simulations before each move")
    parser.add_argument("--width", type=int, default=64, help="width of the network")
    parser.add_argument("--depth", type=int, default=2, help="depth of the network")
    parser.add_argument("--large-games", type=int, default=64, help="parallel games, n=14")
    parser.add_argument("--large-moves", type=int, default=16, help="moves in an update, n=14")
    parser.add_argument(
        "--runs", type=Path, nargs="*", default=[], help="networks of `perfect` and `boards`"
    )
    parser.add_argument(
        "--vertices", type=int, nargs="+", default=[6, 8, 10], help="boards of `boards`"
    )
    parser.add_argument("--openings", type=int, nargs="+", default=[0, 2, 4])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="training time in `gains`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of `gains`")
    parser.add_argument("--board", type=int, nargs=2, default=[14, 4], help="n and k of `gains`")
    parser.add_argument("--gate-games", type=int, default=40, help="games of a match of the gate")
    parser.add_argument("--gate-interval", type=int, default=20, help="updates between matches")
    parser.add_argument("--devices", type=int, default=1, help="devices of the CPU")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    parts = given.parts or ["games", "large", "perfect"]

    if given.devices > 1:
        jax.config.update("jax_num_cpu_devices", given.devices)
    print(describe_device())
    found: dict[str, Any] = {}
    if "games" in parts:
        found["games"] = [
            measure_games(given, "n=6, k=3", board(6, 3), given.games, at_once, given.simulations)
            for at_once in given.at_once
        ]
    if "large" in parts:
        large = board(14, 4)
        found["large"] = measure_games(
            given, "n=14, k=4", large, given.games, given.games, given.simulations
        )
        found["iteration"] = measure_iteration(given)
    print(json.dumps(found, indent=1), flush=True)
    if "perfect" in parts:
        found["matches"] = [row for run in given.runs for row in judge(given, run)]
    if "boards" in parts:
        found["boards"] = [row for run in given.runs for row in on_boards(given, run)]
    if "gains" in parts:
        found["gains"] = gains(given)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
