"""Real positions with something changed: refused by name, or the same again and playable."""

from games.hackmatrix.invariants import play_at_random
from games.hackmatrix.mutations import Mutated, accepted, mutated_positions, together
from games.hackmatrix.replay import BATCH, shared_replay

from fuzz.worker import Fuzzer

STEPS = 60

taken = []


def check(mutated: Mutated) -> None:
    state = accepted(mutated.arrays())
    if state is not None:
        taken.append(state)


def play(seed: int) -> None:
    """Plays what the round's positions came to."""
    play_at_random(shared_replay(), together(taken, BATCH), steps=STEPS, seed=seed)
    taken.clear()


FUZZER = Fuzzer(mutated_positions, check, examples=1500, after=play)
