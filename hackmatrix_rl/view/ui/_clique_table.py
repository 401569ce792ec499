"""A clique game between two people, or a person and a network."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.evaluation import Opponent
from hackmatrix_rl.games import clique
from hackmatrix_rl.system.errors import ConfigError, described
from hackmatrix_rl.view.replays import Json, assembled, consider, opinion_data, opinion_of
from hackmatrix_rl.view.ui._served import Served

SEATS = ("first", "second", "both")
"""The players that a person plays: the first, the second, or both."""
COLOURS = ("Blue", "Orange")
"""The page's names of the two players."""
BUDGETS = (0, 16, 64, 256)
"""The offered numbers of simulations, besides the opponent's default. Each compiles a program."""

_played = jax.jit(clique.play, static_argnums=0)


class CliqueTable(Served):
    """A clique game; the network plays every move that is not the person's."""

    title = "The clique game"
    requests = ("state", "new", "play", "reply", "think", "take_back", "strength")

    def __init__(
        self,
        opponent: Opponent,
        *,
        name: str,
        seat: str = SEATS[0],
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        game = opponent.game
        if not isinstance(game, CliqueGame):
            raise TypeError(f"opponent plays {described(game)}; expected a CliqueGame")
        self._game = game
        self._opponent = opponent
        self._name = name
        self._say = say
        self._budgets = sorted({*BUDGETS, opponent.num_simulations})
        self._simulations = opponent.num_simulations
        self._compiled: set[int] = set()
        self._number = 0
        self._sit_down(seat)

    def load(self) -> None:
        """Does nothing: the opponent is already loaded."""

    def page(self) -> tuple[str, str]:
        config = self._game.config
        data = {
            "title": self.title,
            "name": self._name,
            "colours": COLOURS,
            "vertices": config.vertices,
            "edges": clique.edges(config.vertices).tolist(),
            "rules": rules(config),
            "budgets": self._budgets,
            "budget": self._opponent.num_simulations,
        }
        scripts = ("words.js", "panels.js", "server.js", "clique.js")
        styles = ("page.css", "toast.css", "clique.css")
        return assembled(data, "clique.html", scripts=scripts, styles=styles, live=True)

    def warm_up(self) -> None:
        _played(self._game.config, self._states[0], 0)
        if self._seat != "both":
            self._thought()

    @property
    def moves(self) -> int:
        return len(self._moves)

    def state(self) -> Json:
        """The game so far."""
        return self._news()

    def new(self, *, seat: str) -> Json:
        """Starts another game; `seat` is one of `SEATS`."""
        self._sit_down(seat)
        return self._news()

    def play(self, *, number: int, action: int) -> Json:
        """A person's move."""
        self.check_newest(number)
        if not self._over and not self._is_persons(number):
            raise ConfigError(f"it is {COLOURS[number % 2]}'s move, which is not yours")
        self._play(action)
        return self._news()

    def reply(self, *, number: int) -> Json:
        """The network's move."""
        self.check_newest(number)
        if self._over or self._is_persons(number):
            raise ConfigError("it is not the network's move")
        self._play(self._thought()["action"])
        return self._news()

    def think(self, *, number: int) -> Json:
        """The network's opinion of the latest position."""
        self.check_newest(number)
        if self._over:
            raise ConfigError("the game is over")
        return self._news(thought=self._thought())

    def take_back(self, *, number: int) -> Json:
        """Undoes the person's last move and the network's answer to it."""
        self.check_newest(number)
        own = [move for move in range(number) if self._is_persons(move)]
        if not own:
            raise ConfigError("there is no move of yours to take back")
        del self._moves[own[-1] :], self._states[own[-1] + 1 :]
        return self._news()

    def strength(self, *, simulations: int) -> Json:
        """Changes the number of simulations before each move of the network."""
        if simulations not in self._budgets:
            listed = ", ".join(map(str, self._budgets))
            raise ConfigError(f"{simulations} simulations are not available; use one of {listed}")
        self._simulations = simulations
        return self._news()

    def _sit_down(self, seat: str) -> None:
        self._seat = seat
        self._moves: list[int] = []
        self._states = [clique.new_game(self._game.config)]
        self._thoughts: dict[tuple[int, ...], Json] = {}
        self._number += 1

    @property
    def _over(self) -> bool:
        return bool(self._states[-1].over)

    def _is_persons(self, number: int) -> bool:
        """Whether a person plays move `number`, counted from 0."""
        return self._seat == "both" or SEATS[number % 2] == self._seat

    def _play(self, action: int) -> None:
        if self._over:
            raise ConfigError("the game is over: take moves back, or begin a new game")
        if action in self._moves:
            raise ConfigError(f"edge {action} has a colour already")
        if not 0 <= action < self._game.config.num_edges:
            raise ConfigError(f"edge {action} does not exist")
        self._states.append(_played(self._game.config, self._states[-1], action)[0])
        self._moves.append(action)

    def _thought(self) -> Json:
        """The network's opinion of the latest position."""
        known = (self._simulations, *self._moves)
        if known not in self._thoughts:
            amount = f"{self._simulations} simulations" if self._simulations else "no search"
            doing = "Thinking" if self._simulations in self._compiled else "Compiling"
            self._say(f"{doing}: {self._name}, {amount}")
            player = self._opponent.player(self._simulations)
            state = self._states[-1]
            legal, carry = self._game.legal(state), player.initial_carry()
            key = jax.random.key(0)  # unused: the player is deterministic
            action, _, thought = consider(player, self._game, state, legal, carry, key)
            self._compiled.add(self._simulations)
            opinion = opinion_of(int(action), thought, np.flatnonzero(legal).tolist())
            self._thoughts[known] = opinion_data(opinion)
        return self._thoughts[known]

    def _news(self, *, thought: Json | None = None) -> Json:
        state, moves = self._states[-1], self.moves
        over = self._over
        found = clique_of(self._game.config, self._moves) if over else ()
        return {
            "game": self._number,
            "seat": self._seat,
            "simulations": self._simulations,
            "moves": self._moves.copy(),
            "yours": not over and self._is_persons(moves),
            "over": over,
            "clique": found,
            "words": self._result(int(state.winner), found) if over else self._turn(),
            "thought": thought,
        }

    def _turn(self) -> str:
        colour = COLOURS[self.moves % 2]
        if self._seat == "both":
            return f"{colour} to move."
        who = "Your move" if self._is_persons(self.moves) else "The network's move"
        return f"{who}: {colour.lower()}."

    def _result(self, winner: int, found: Sequence[int]) -> str:
        if winner == clique.NOBODY:
            who = "A draw"
        elif self._seat == "both":
            who = f"{COLOURS[winner]} wins"
        else:
            who = "You win" if self._is_persons(winner) else "The network wins"
        if found:
            owner = COLOURS[(self.moves - 1) % 2].lower()
            why = f"{owner} has the clique {', '.join(map(str, found))}"
        else:
            why = "the board is full"
        return f"{who} after {self.moves} moves: {why}."


def clique_of(config: clique.CliqueConfig, moves: Sequence[int]) -> tuple[int, ...]:
    """The vertices of a clique in the colour of the last move; `()` if there is none.

    `moves` are the edges of both players in turn.
    """
    own = moves[(len(moves) - 1) % 2 :: 2]
    return clique.find_clique(config.vertices, own, config.clique_size) or ()


def rules(config: clique.CliqueConfig) -> str:
    full = {"draw": "a full board is a draw", "second-wins": "a full board is orange's win"}
    end = {"form": "wins", "avoid": "loses"}
    return (
        f"Blue and orange colour edges in turn; blue begins. Who first has {config.clique_size} "
        f"vertices with all edges between them in their colour {end[config.objective]}; "
        f"{full[config.full_board]}."
    )
