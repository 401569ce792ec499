"""How often a teacher agrees with itself: the upper bound of the agreement of imitation.

    python benchmarks/label_noise.py RUN [--teacher expert] [--league no-rewind] [--games 256]

The network of RUN plays; in every 16th of its positions the teacher acts 65 times with different
random numbers. The limit is the agreement of a student that always plays the teacher's likeliest
action. The shares are of all actions, of siphons and of programs, as in the metrics of imitation.
"""

import argparse

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.env import HackMatrix, HackMatrixState, Timestep
from hackmatrix_rl.evaluation import PolicyAgent, rate_of, read_by
from hackmatrix_rl.games.hackmatrix import FIRST_PROGRAM, LEAGUES, NUM_ACTIONS, SIPHON
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.system import enable_compilation_cache

SEED = 20_261_124
ANSWERS = 64
"""Samples that estimate the teacher's likeliest action; one more is the label of a student."""
EVERY = 16
KINDS = {
    "all": (0, NUM_ACTIONS),
    "siphons": (SIPHON, FIRST_PROGRAM),
    "programs": (FIRST_PROGRAM, NUM_ACTIONS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--teacher", default="expert")
    parser.add_argument("--league", choices=LEAGUES, default=LEAGUES[0])
    parser.add_argument("--games", type=int, default=256, help="parallel games")
    parser.add_argument("--rounds", type=int, default=40, help=f"of {EVERY} moves in each game")
    given = parser.parse_args()
    enable_compilation_cache()
    player, environment = find_player(given.run, league=given.league)
    teacher, _ = find_player(given.teacher, league=given.league)
    assert isinstance(environment, HackMatrix)
    assert isinstance(player, PolicyAgent), f"{given.run}: only a network is a student"
    student = PolicyAgent(player.policy, greedy=True)
    nothing = player.initial_carry()
    assert not jax.tree.leaves(nothing), f"{given.run}: only a network without memory"
    Positions = tuple[HackMatrixState, Timestep]

    @eqx.filter_jit
    def play_on(positions: Positions, key: Key[Array, ""]) -> Positions:
        def one(positions: Positions, key: Key[Array, ""]) -> tuple[Positions, None]:
            state, timestep = positions
            of_player, of_game = jax.random.split(key, (2, given.games))

            def move(seen, mask, key):
                return player.act(seen, mask, nothing, key=key)[0]

            actions = jax.vmap(move)(timestep.observation, timestep.mask, of_player)
            return environment.step(state, actions, of_game), None

        return jax.lax.scan(one, positions, jax.random.split(key, EVERY))[0]

    @eqx.filter_jit
    def ask(
        positions: Positions, key: Key[Array, ""]
    ) -> tuple[Int32[Array, " games"], Int32[Array, "games answers"]]:
        state, timestep = positions
        read = read_by(teacher, timestep.observation, lambda: state.games)

        def of_one(seen, read, mask, keys):
            def answer(key):
                return teacher.act(read, mask, (), key=key)[0]

            said = jax.lax.map(answer, keys, batch_size=ANSWERS // 4)
            return student.act(seen, mask, nothing, key=keys[0])[0], said

        keys = jax.random.split(key, (given.games, ANSWERS + 1))
        return jax.vmap(of_one)(timestep.observation, read, timestep.mask, keys)

    key = jax.random.key(SEED)
    positions = environment.reset(jax.random.split(key, given.games))
    own, said = [], []
    for number in range(given.rounds):
        positions = play_on(positions, jax.random.fold_in(key, 2 * number + 1))
        each, answers = ask(positions, jax.random.fold_in(key, 2 * number + 2))
        own.append(np.asarray(each))
        said.append(np.asarray(answers))
    chosen, answers = np.concatenate(own), np.concatenate(said)
    label, others = answers[:, 0], answers[:, 1:]
    counts = np.stack([(others == action).sum(1) for action in range(NUM_ACTIONS)], axis=1)
    likeliest = counts.argmax(axis=1)
    print("| answers | number | RUN agrees, in 100 | limit |")
    for name, (first, end) in KINDS.items():
        here = (label >= first) & (label < end)
        rates = [rate_of(guess[here] == label[here]) for guess in (chosen, likeliest)]
        cells = [f"{100 * r.mean:.1f} ({100 * r.low:.1f} to {100 * r.high:.1f})" for r in rates]
        print(f"| {name} | {here.sum()} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
