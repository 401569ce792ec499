"""HackMatrix as an environment: a batch of games that reset themselves."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.env._environment import (
    LEARNED_RETURN,
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Timestep,
    check_max_steps,
)
from hackmatrix_rl.env._forms import Seen, remembered, see, spec_of, supposed
from hackmatrix_rl.env._kinds import KINDS, Kind
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    TERM_NAMES,
    Action,
    GameConfig,
    GameStream,
    Outcome,
    Position,
    Program,
    RewardConfig,
    RewardTerms,
    State,
    StepStream,
    act,
    allowed,
    blank_position,
    forget,
    legal_actions,
    new_game,
    set_up_stage,
)
from hackmatrix_rl.system.batching import (
    Chance,
    games_innermost,
    materialize,
    one_round_loop,
    select,
)
from hackmatrix_rl.system.errors import check_actions, described, share

_Shown = tuple[Seen, Bool[Array, " num_actions"]]
"""An observation and its mask."""


class Tally(eqx.Module):
    """Totals of the current episode."""

    total_reward: Float32[Array, "*batch"]
    length: Int32[Array, "*batch"]
    siphons: Int32[Array, "*batch"]
    #: Number of programs played (lower 16 bits) and of UNDOs among them (upper 16 bits):
    #: 5 programs, 2 of them UNDO -> 2 << 16 | 5. Older stored states have only this field.
    programs: Int32[Array, "*batch"]
    learned_reward: Float32[Array, "*batch"] | None = None

    @property
    def undos(self) -> Int32[Array, "*batch"]:
        return self.programs >> 16

    @staticmethod
    def start(reward: RewardConfig) -> "Tally":
        """The totals before the first step."""
        learned = None if reward.is_the_games else jnp.float32(0)
        return Tally(jnp.float32(0), jnp.int32(0), jnp.int32(0), jnp.int32(0), learned)


class HackMatrixState(eqx.Module):
    """The state of a batch of games."""

    games: State  #: The games; each leaf has a leading `num_envs` axis.
    mask: Bool[Array, "*batch num_actions"]  #: The legal actions of each game.
    tally: Tally  #: Totals of the current episodes.
    #: Which environments keep no snapshots; `None` if all keep them.
    without_undo: Bool[Array, "*batch"] | None = None


class HackMatrix(Environment):
    """A batch of complete HackMatrix games that reset themselves.

    Attributes:
        config: sizes and league of the game.
        max_steps: number of steps after which an episode is truncated; `None` for no limit. The
            rules have no limit.
        observation: `"compact"` (the screen as small integers; the default), `"tactical"` (also
            what a player remembers) or `"classic"` (floats).
        reward: weights of the terms of the reward. `Timestep.reward` is the weighted sum.
            `EpisodeStatistics.total_reward` is unweighted. If a weight is not 1,
            `EpisodeStatistics.extra` has the weighted return as `learned_return`.
        without_undo_share: share of the environments without snapshots, in which UNDO is never
            legal. They are the first ones of each device. Statistics ignore their episodes, unless
            the share is 1.

    Raises:
        TypeError: `reward` is not a `RewardConfig`, or `max_steps` is not an integer.
        ValueError: `max_steps` is out of range, `observation` is unknown, or `without_undo_share`
            is not between 0 and 1.
    """

    config: GameConfig = eqx.field(static=True, default=GameConfig())
    max_steps: int | None = eqx.field(static=True, default=None)
    observation: Kind = eqx.field(static=True, default="compact")
    reward: RewardConfig = eqx.field(static=True, default=RewardConfig())
    without_undo_share: float = eqx.field(static=True, default=0.0)

    def __check_init__(self) -> None:
        if not isinstance(self.reward, RewardConfig):
            raise TypeError(
                f"reward is {described(self.reward)}; expected weights: "
                "reward=hm.RewardConfig(victory=0.1)"
            )
        if self.max_steps is not None:
            check_max_steps(self.max_steps)
        if self.observation not in KINDS:
            raise ValueError(
                f"observation must be one of {', '.join(KINDS)}, not {self.observation!r}"
            )
        share("without_undo_share", self.without_undo_share)

    @property
    def spec(self) -> EnvSpec:
        """Shapes of observations and actions, and how to encode them."""
        return spec_of(self.config, self.observation)

    @property
    def truncates(self) -> bool:
        """Whether `max_steps` is set."""
        return self.max_steps is not None

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[HackMatrixState, Timestep]:
        """Starts one game for each key."""
        games = jax.vmap(lambda key: new_game(self.config, key=key))(keys)
        # Without a barrier, XLA constant-folds parts of the first observations.
        return self.from_games(materialize(games))

    def from_games(self, games: State) -> tuple[HackMatrixState, Timestep]:
        """Starts an episode from each of the given games (a batch)."""
        if self.without_undo_share == 0:
            return jax.vmap(self._begin)(games)
        count = games.position.stage.shape[0]
        without = jnp.arange(count) < round(self.without_undo_share * count)
        return jax.vmap(self._begin)(games, without)

    def restart(self, state: HackMatrixState, games: State) -> tuple[HackMatrixState, Timestep]:
        """Starts an episode from each of the given games, in the environments of `state`."""
        return jax.vmap(self._begin)(games, state.without_undo)

    def observe(self, game: State) -> Seen:
        """The observation of one game, as `reset` and `step` return it for a batch."""
        recalled = remembered(game.history, self.observation)
        return see(game.position, recalled, self.observation, is_rare=True)

    def observe_position(self, position: Position) -> Seen:
        """The observation of one position with an unknown history, as in a simulated game."""
        recalled = supposed(position, self.config, self.observation)
        return see(position, recalled, self.observation, is_rare=True)

    def step(
        self,
        state: HackMatrixState,
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[HackMatrixState, Timestep]:
        """Plays one action in each game and resets the games that ended.

        By the rules, an illegal action ends the episode, as does a number that is not an action.
        """
        check_actions(actions, keys)
        return jax.vmap(self._step)(games_innermost(state), actions, keys)

    @eqx.filter_jit  # traced once, however many programs contain it
    def _begin(
        self, game: State, without_undo: Bool[Array, ""] | None = None
    ) -> tuple[HackMatrixState, Timestep]:
        if without_undo is not None:
            game = State(game.position, forget(game.history, without_undo))
        mask = legal_actions(self.config, game)
        zero, no = jnp.float32(0), jnp.bool_(False)
        outcome = Outcome(RewardTerms(*[zero] * len(TERM_NAMES)), no, no, no, no)
        shown, tally = (self._see(game), mask), Tally.start(self.reward)
        timestep = self._timestep(
            shown, shown, game.position, outcome, zero, no, no, tally, without_undo
        )
        return HackMatrixState(game, mask, tally, without_undo), timestep

    @eqx.filter_jit  # traced once, however many programs contain it
    def _step(
        self, state: HackMatrixState, action: Int32[Array, ""], key: Key[Array, ""]
    ) -> tuple[HackMatrixState, Timestep]:
        chance = Chance.from_key(key)
        acting, coming = chance.fold_in(StepStream.ACT), chance.fold_in(StepStream.NEXT)
        after, outcome = act(self.config, state.games, action, state.mask, chance=acting)
        if state.without_undo is not None:
            after = State(after.position, forget(after.history, state.without_undo))
        completed = outcome.completed & ~outcome.won
        reward = materialize(outcome.terms.total())
        learned, learned_so_far = reward, state.tally.learned_reward
        if learned_so_far is not None:
            learned = materialize(self.reward.weigh(outcome.terms))
            learned_so_far = learned_so_far + learned
        tally = Tally(
            total_reward=state.tally.total_reward + reward,
            length=state.tally.length + 1,
            siphons=state.tally.siphons
            + (outcome.legal & (action == Action.SIPHON)).astype(jnp.int32),
            programs=state.tally.programs
            + (outcome.legal & (action >= FIRST_PROGRAM)).astype(jnp.int32)
            + ((outcome.legal & (action == Action.UNDO)).astype(jnp.int32) << 16),
            learned_reward=learned_so_far,
        )
        terminated = ~outcome.legal | outcome.died | outcome.won
        truncated = jnp.zeros_like(terminated)
        if self.max_steps is not None:
            truncated = ~terminated & (tally.length >= self.max_steps)
        done = terminated | truncated

        position, last = self._go_on(after, completed, done, chance=coming)
        game = State(position, forget(after.history, done))
        mask = legal_actions(self.config, game)
        shown = self._see(game), mask
        last, at = select(done, last, shown), after.position
        without_undo = state.without_undo
        timestep = self._timestep(
            shown, last, at, outcome, learned, terminated, truncated, tally, without_undo
        )
        tally = select(done, Tally.start(self.reward), tally)
        return HackMatrixState(game, mask, tally, without_undo), timestep

    def _go_on(
        self, game: State, completed: Bool[Array, ""], done: Bool[Array, ""], *, chance: Chance
    ) -> tuple[Position, _Shown]:
        """Sets up the next stage after a completed stage, and a new game after an ended episode.

        An action that completes a stage at the step limit needs both, since the last observation of
        its episode shows the next stage. The second result is what was shown before the reset; it
        is undefined unless `done`.
        """
        past = game.history.count > 0, remembered(game.history, self.observation)

        def seen(position: Position, past: Any) -> Any:
            can_undo, recalled = past
            shown = see(position, recalled, self.observation, is_rare=True)
            return shown, allowed(position, can_undo=can_undo)

        def one(carry: Any, given: Any) -> Any:
            next_stage, new_game, position, last = carry
            past, chance = given
            begins = new_game & ~next_stage
            last = select(begins, seen(position, past), last)
            chance = chance.fold_in(begins.astype(jnp.int32))  # `NextStream`
            blank = blank_position(self.config, chance=chance.fold_in(GameStream.PLAYER))
            position = select(begins, blank, position)
            stage = chance.fold_in(GameStream.STAGE)
            position = set_up_stage(position, chance=stage, needed=next_stage | new_game)
            return jnp.zeros_like(next_stage), new_game & ~begins, position, last

        nothing = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
            jax.eval_shape(seen, game.position, past),
        )
        _, _, position, last = one_round_loop(
            lambda carry, _: carry[0] | carry[1],
            one,
            (completed, done, game.position, nothing),
            (past, chance),
            share=8,
        )
        return position, last

    def _timestep(
        self,
        shown: _Shown,
        last: _Shown,
        at: Position,
        outcome: Outcome,
        reward: Float32[Array, ""],
        terminated: Bool[Array, ""],
        truncated: Bool[Array, ""],
        tally: Tally,
        without_undo: Bool[Array, ""] | None,
    ) -> Timestep:
        extra: dict[str, Array] = {
            "stage": at.stage,
            "score": at.player.score,
            "won": outcome.won,
            "siphons": tally.siphons,
            "programs": tally.programs & 0xFFFF,
            "undos": tally.undos,
            "owns_undo": (at.programs >> jnp.uint32(Program.UNDO)) & jnp.uint32(1),
            "dropped": at.dropped,
        }
        if tally.learned_reward is not None:
            extra[LEARNED_RETURN] = tally.learned_reward
        return Timestep(
            observation=shown[0],
            mask=shown[1],
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            last_observation=last[0],
            last_mask=last[1],
            terms=outcome.terms.as_dict(),
            episode=EpisodeStatistics(
                counts=None
                if without_undo is None or self.without_undo_share == 1
                else ~without_undo,
                total_reward=tally.total_reward,
                length=tally.length,
                extra={name: value.astype(jnp.float32) for name, value in extra.items()},
            ),
        )

    def _see(self, game: State) -> Seen:
        return see(game.position, remembered(game.history, self.observation), self.observation)
