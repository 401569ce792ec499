"""One-step lookahead for the game's return, with UNDO."""

from typing import NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.evaluation import GameAgent, Thought
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, GameConfig, State, rewound
from hackmatrix_rl.search._evaluation import DEAD, heuristic
from hackmatrix_rl.search._expert import UNDO, without_undo
from hackmatrix_rl.search._imagined import NOTHING, Legal, PerAction, decide
from hackmatrix_rl.search._streams import ImaginedStream
from hackmatrix_rl.search._unseen import draw_unseen
from hackmatrix_rl.search._weights import ReturnWeights
from hackmatrix_rl.system.batching import Chance

Value = Float32[Array, ""]
Flag = Bool[Array, ""]

_NONE = -1
"""As an action: none. As `Tried.since`: UNDO has brought the previous board back."""
_MOST_IN_A_ROW, _PATIENCE = 6, 100
"""Most UNDOs in a row; the number of UNDOs in a stage after which only death is undone."""
_FATAL = 500.0
"""A difference in value that only death makes."""
_SOON = 3
"""Free snapshots with which the history is about to lose the previous board."""


class Tried(NamedTuple):
    """The player's memory."""

    action: Int32[Array, ""]  #: The last action that was not UNDO; -1 for none.
    regretted: Int32[Array, ""]  #: That action, if UNDO has just been played; else -1.
    in_a_row: Int32[Array, ""]  #: Number of UNDOs since that action.
    stage: Int32[Array, ""]  #: The stage of the last action.
    in_stage: Int32[Array, ""]  #: Number of UNDOs in that stage.
    slot: Int32[Array, ""]  #: `History.next_slot` at the last action.
    since: Int32[Array, ""]  #: Snapshots of this board; -1 once UNDO has restored the previous one.


@final
class ReturnExpert(GameAgent):
    """One-step lookahead that collects points and undoes mistakes.

    Like `Expert`, it plays the action whose result has the best heuristic value, and is fair. It
    differs in four ways:

    - A point has a value where it will be paid (`ReturnWeights`).
    - With 1 hp it simulates each action twice and counts the worse result: the next hit is fatal.
    - It plays a legal UNDO if the previous position has a higher value, by a margin, than the
      current one or than the best result of another action. It does not repeat the undone action
      next.
    - In the league original, UNDO also restores the board of the previous stage. With this in
      reserve it plays the new stage for its points, and returns if the old board, one step from
      its exit, has a higher value.
    """

    config: GameConfig = eqx.field(static=True)  #: Sizes and league of the game.
    weights: ReturnWeights  #: Of the heuristic, and the margins.

    def __init__(self, config: GameConfig, weights: ReturnWeights | None = None) -> None:
        """A player of a game; by default with the package's weights for its league."""
        self.config = config
        self.weights = ReturnWeights.shipped(config.league) if weights is None else weights

    def initial_carry(self) -> Tried:
        none, zero = jnp.int32(_NONE), jnp.int32(0)
        return Tried(none, none, zero, stage=zero, in_stage=zero, slot=zero, since=zero)

    def think(
        self, observation: PyTree[Array], mask: Legal, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Simulates the legal actions of a `State`; the thought has the value of each."""
        state: State = observation
        tried: Tried = carry
        others = without_undo(mask)
        values = self._results(state, others, Chance.from_key(key))
        since = _snapshots_since(state, tried)
        in_stage = jnp.where(state.position.stage == tried.stage, tried.in_stage, 0)

        must_move = tried.in_a_row >= _MOST_IN_A_ROW
        again = others & (must_move | (jnp.arange(NUM_ACTIONS) != tried.regretted))
        open_ = jnp.where(again, values, NOTHING)
        undo = ~must_move & self._regrets(state, jnp.max(open_), in_stage < _PATIENCE)
        undo = undo | self._retreats(state, jnp.max(values), since) | ~others.any()
        undo = undo & mask[UNDO]
        best = jnp.argmax(jnp.where(again.any(), open_, values)).astype(jnp.int32)

        tried = Tried(
            action=jnp.where(undo, tried.action, best),
            regretted=jnp.where(undo, tried.action, _NONE),
            in_a_row=jnp.where(undo, tried.in_a_row + 1, 0),
            stage=state.position.stage,
            in_stage=in_stage + undo.astype(jnp.int32),
            slot=state.history.next_slot,
            since=since,
        )
        thought = Thought(search_values=jnp.where(others, values, jnp.nan))
        return jnp.where(undo, UNDO, best), tried, thought

    def _results(self, state: State, legal: Legal, chance: Chance) -> PerAction:
        """The value of each legal action's result; `NOTHING` for the others."""

        def results(which: Legal, chance: Chance) -> PerAction:
            seen = draw_unseen(state.position, chance=chance.fold_in(ImaginedStream.UNSEEN))
            play = chance.fold_in(ImaginedStream.PLAY)
            values = decide(self.config, seen, which, self.weights, chance=play).values
            assert values is not None
            return values

        weak = state.position.player.hp <= 1
        tries = enumerate((legal, legal & weak))
        once, twice = (results(which, chance.fold_in(number)) for number, which in tries)
        worse = jnp.where(weak, jnp.minimum(once, twice), once)
        return jnp.where(legal, worse, NOTHING)

    def _before(self, state: State, back: int | Int32[Array, ""]) -> Value:
        """The value of the newest snapshot, or of the one `back` snapshots before it."""
        found = rewound(state.position, state.history, back=back)
        held = state.history.count > back
        return jnp.where(held, heuristic(self.config, found, self.weights), DEAD)

    def _regrets(self, state: State, best: Value, patient: Flag) -> Flag:
        """Whether UNDO gains value over the position, or over `best`, the best other action."""
        # The newest snapshot is of the end of the last turn: to revert that turn takes two UNDOs.
        newest, now = self._before(state, 0), heuristic(self.config, state.position, self.weights)
        back = jnp.maximum(newest, self._before(state, 1))
        worse = (back - now > self.weights["margin"]) | (back - best > self.weights["margin_best"])
        worse = jnp.where(patient, worse, back - best > _FATAL)
        return (newest > DEAD) & (state.position.turn > 0) & worse

    def _retreats(self, state: State, best: Value, since: Int32[Array, ""]) -> Flag:
        """Whether to return to the previous board; `best` is the value of the other actions."""
        if not self.config.rewind_across_stages:
            return jnp.bool_(False)
        home = self._before(state, jnp.maximum(since, 0))
        last_chance = since >= state.history.ring.shape[0] - _SOON
        gain = jnp.where(last_chance, self.weights["sortie_commit"], self.weights["sortie_gain"])
        weak = state.position.player.hp.astype(jnp.float32) < self.weights["sortie_hp"]
        return (since >= 0) & (home > DEAD) & (weak | (best < home + gain))


def _snapshots_since(state: State, tried: Tried) -> Int32[Array, ""]:
    """The number of snapshots of this board, not of the previous one; see `Tried.since`."""
    history = state.history
    # An action adds one snapshot or none, and UNDO removes one.
    change = jnp.remainder(history.next_slot - tried.slot + 1, history.ring.shape[0]) - 1
    since = jnp.where(tried.since < 0, _NONE, tried.since + change)
    return jnp.where(state.position.turn == 0, 0, since)
