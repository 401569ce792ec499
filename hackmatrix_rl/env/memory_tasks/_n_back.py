"""n-back: does the current symbol match the one n steps ago?"""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key

from hackmatrix_rl.env import Played
from hackmatrix_rl.env.memory_tasks._trial_task import MemoryTask, check_steps


@dataclass(frozen=True)
class NBackConfig:
    """The sizes of n-back.

    Raises:
        TypeError: a field is not an integer.
        ValueError: a field is too small.
    """

    back: int = 2  #: n: the number of steps, 1 or more.
    symbols: int = 4  #: Number of symbols, 2 or more.
    scored: int = 18  #: Number of scored answers, 1 or more. They follow `back` unscored steps.

    def __post_init__(self) -> None:
        check_steps(self, {"back": 1, "symbols": 2, "scored": 1})


class NBackState(eqx.Module):
    """The state of an episode."""

    #: The last symbols: the first is the one to compare with, the last is the current one.
    shown: Int32[Array, "*batch newest"]
    step: Int32[Array, "*batch"]  #: Number of answers given.


@final
class NBack(MemoryTask[NBackState]):
    """A sequence of symbols: action 1 says that the symbol matches the one `back` steps ago.

    After the first `back` steps, the reward of a correct answer is 1. A symbol matches with
    probability 1/2, and is otherwise uniform over the other symbols. So each symbol is equally
    frequent with and without a match, and the current symbol alone is uninformative.

    Source: Kirchner 1958, "Age differences in short-term retention of rapidly changing
    information".

    Attributes:
        config: the sizes.
    """

    config: NBackConfig = eqx.field(static=True, default=NBackConfig())
    num_actions = 2  #: No match, match.

    @property
    def best_return(self) -> float:
        """The number of scored answers."""
        return float(self.config.scored)

    @property
    def memoryless_return(self) -> float:
        """Half of the scored answers: a symbol matches with probability 1/2."""
        return self.config.scored / 2

    @property
    def longest_dependence(self) -> int:
        """From the symbol to compare with to the answer."""
        return self.config.back + 1

    def start(self, *, key: Key[Array, ""]) -> NBackState:
        """The first symbol."""
        newest = jax.random.randint(key, (self.config.back + 1,), 0, self.config.symbols)
        return NBackState(newest, jnp.int32(0))

    def observe(self, state: NBackState) -> Float32[Array, " symbols"]:
        """The current symbol, one-hot."""
        return jax.nn.one_hot(state.shown[-1], self.config.symbols, dtype=jnp.float32)

    def render(self, state: NBackState) -> str:
        """The symbols from the one to compare with to the current one."""
        symbols = " ".join(chr(ord("A") + int(symbol)) for symbol in state.shown)
        return f"{symbols}    answer {int(state.step) + 1}"

    def play(self, state: NBackState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Answers, and shows the next symbol."""
        match_key, other_key = jax.random.split(key)
        matches = state.shown[0] == state.shown[-1]
        counts = state.step >= self.config.back
        right = counts & ((action == 1) == matches)
        past = state.shown[1]  # the symbol that the next one is compared with
        other = past + jax.random.randint(other_key, (), 1, self.config.symbols)
        again = jax.random.bernoulli(match_key, 0.5)
        following = jnp.where(again, past, other % self.config.symbols)
        shown = jnp.concatenate([state.shown[1:], following[None]])
        after = NBackState(shown, state.step + 1)
        ended = after.step >= self.config.back + self.config.scored
        return Played(after, right.astype(jnp.float32), ended)
