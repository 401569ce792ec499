"""n-back: is this symbol the one of n steps ago?"""

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
        TypeError: a field is no whole number.
        ValueError: a field is too small.
    """

    back: int = 2  #: How many steps ago, 1 or more.
    symbols: int = 4  #: Number of symbols, 2 or more.
    #: Number of answers that count, 1 or more. As many steps as `back` come before.
    scored: int = 18

    def __post_init__(self) -> None:
        check_steps(self, {"back": 1, "symbols": 2, "scored": 1})


class NBackState(eqx.Module):
    """An episode between two answers."""

    #: The last symbols; the first of them is the one to compare with, the last is seen.
    shown: Int32[Array, "*batch newest"]
    step: Int32[Array, "*batch"]  #: Number of answers given.


@final
class NBack(MemoryTask[NBackState]):
    """Symbols one after another: action 1 says that this one was seen `back` steps ago, 0 not.

    A right answer gives 1, once there is something to compare with. Half of the symbols are the
    one of `back` steps ago, the others are each of the rest equally often. So each symbol is as
    frequent as the others, matching or not, and the present one alone says nothing.

    Source: Kirchner 1958, "Age differences in short-term retention of rapidly changing
    information".

    Attributes:
        config: the sizes.
    """

    config: NBackConfig = eqx.field(static=True, default=NBackConfig())
    num_actions = 2  #: No match, match.

    @property
    def best_return(self) -> float:
        """The number of answers that count."""
        return float(self.config.scored)

    @property
    def memoryless_return(self) -> float:
        """Half of the answers that count: each symbol is a match with probability 1/2."""
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
        """Which symbol it is: 1 at its place."""
        return jax.nn.one_hot(state.shown[-1], self.config.symbols, dtype=jnp.float32)

    def render(self, state: NBackState) -> str:
        """The symbols since the one to compare with; the last is seen."""
        symbols = " ".join(chr(ord("A") + int(symbol)) for symbol in state.shown)
        return f"{symbols}    answer {int(state.step) + 1}"

    def play(self, state: NBackState, action: Int32[Array, ""], *, key: Key[Array, ""]) -> Played:
        """Answers, and shows the next symbol."""
        match_key, other_key = jax.random.split(key)
        matches = state.shown[0] == state.shown[-1]
        counts = state.step >= self.config.back
        right = counts & ((action == 1) == matches)
        # What the next one is compared with is now one step nearer to the front.
        past = state.shown[1]
        other = past + jax.random.randint(other_key, (), 1, self.config.symbols)
        again = jax.random.bernoulli(match_key, 0.5)
        following = jnp.where(again, past, other % self.config.symbols)
        shown = jnp.concatenate([state.shown[1:], following[None]])
        after = NBackState(shown, state.step + 1)
        ended = after.step >= self.config.back + self.config.scored
        return Played(after, right.astype(jnp.float32), ended)
