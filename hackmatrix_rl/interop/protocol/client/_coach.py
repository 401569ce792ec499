"""Advice for a person who plays in an app's window.

The app answers a person's moves like requested steps, but does not name the action. So an action is
inferred from its result.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import HackMatrix, step_keys
from hackmatrix_rl.evaluation import Agent, Thought, read_by, thinking
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, TERM_NAMES, Action, State
from hackmatrix_rl.interop.protocol._engine import Engine, Result, View
from hackmatrix_rl.interop.protocol._tracker import Step
from hackmatrix_rl.interop.protocol.client._app import App
from hackmatrix_rl.interop.protocol.client._pilot import observed
from hackmatrix_rl.interop.protocol.client._seen_game import SeenGame

_SHOWN = 3  # actions in a line of advice

# Weights of the differences between the result of a tried action and the answer.
_OF_END, _OF_NUMBER, _OF_TERM, _OF_CELL = 100, 10, 5, 1


def coach(
    app: App,
    player: Agent,
    environment: HackMatrix,
    game: SeenGame,
    *,
    key: Key[Array, ""],
    tell: Callable[[str], None],
) -> None:
    """Advises a person before each move of one game.

    Args:
        app: shows the game and answers the person's moves.
        player: the player that gives the advice.
        environment: makes the observation that the player reads.
        game: follows the game by the inferred actions.
        key: key of the player's choices.
        tell: receives one line of advice per position, except for positions that the person has
            already left.

    Raises:
        ConfigError: the app failed, or its answers are not a valid game; the message is one line.
    """
    engine = Engine(0, environment.config)
    engine.begin()
    game.begin(app.reset())
    carry = player.initial_carry()
    while game.end is None:
        mask = app.valid_actions()
        left = app.moved  # the mask is of a later position
        if not left:
            game.allow(mask)
        now = game.moments[-1]
        observation = read_by(player, observed(game, environment), lambda: game.state)
        act_key, _ = step_keys(key, now.number)
        action, carry, thought = _think(player, observation, jnp.asarray(mask), carry, act_key)
        if not left:
            tell(f"move {now.number + 1}: {advice(Action(int(action)), thought, mask)}")
        answer = app.next_move()
        game.follow(recognised(engine, game.state, Step.from_answer(answer)), answer)


def advice(action: Action, thought: Thought, mask: np.ndarray) -> str:
    """`SIPHON 62%, UP 20%, WAIT 8%`: the most probable actions, or else the player's action."""
    if thought.probabilities is None:
        return action.name
    probs = np.where(mask, np.asarray(thought.probabilities), -1)
    best = np.argsort(-probs, kind="stable")[:_SHOWN]
    return ", ".join(f"{Action(each).name} {probs[each]:.0%}" for each in best if mask[each])


def recognised(engine: Engine, state: State, step: Step) -> int:
    """The legal action whose result in the engine is closest to the answer.

    No result need match exactly: hidden parts of the state and random numbers differ. Ties go to
    the first action.

    Args:
        engine: tries the actions; its current game is lost.
        state: the position before the action, with a guess for its hidden parts.
        step: the answer to the action.
    """
    distances = []
    for action in range(NUM_ACTIONS):
        engine.state = state
        view, result = engine.play(action)
        distances.append(_distance(view, result, step) if result.legal else np.inf)
    return int(np.argmin(distances))


def _distance(view: View, result: Result, step: Step) -> float:
    """The distance between the result of a tried action and an answer."""
    ends = [(result.completed, step.completed), (result.died, step.died), (result.over, step.done)]
    terms = dict(zip(TERM_NAMES, np.asarray(result.terms).tolist(), strict=True))
    numbers = np.asarray(view.seen.numbers) != np.asarray(step.seen.numbers)
    # The board of a new stage is random.
    cells = np.asarray(view.seen.grid) != np.asarray(step.seen.grid)
    return (
        _OF_END * sum(bool(one) != other for one, other in ends)
        + _OF_NUMBER * (int(numbers.sum()) + (int(view.seen.programs) != int(step.seen.programs)))
        + _OF_TERM * sum(abs(terms[name] - step.terms.get(name, 0.0)) > 1e-3 for name in terms)
        + _OF_CELL * (0 if step.completed else int(cells.sum()))
    )


@eqx.filter_jit
def _think(
    player: Agent,
    observation: PyTree[Array],
    mask: Bool[Array, " num_actions"],
    carry: PyTree[Array],
    key: Key[Array, ""],
) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
    return thinking(player)(observation, mask, carry, key)
