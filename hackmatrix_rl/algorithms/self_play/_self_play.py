"""Self-play: an update plays moves by tree search, writes them, and takes gradient steps."""

from dataclasses import replace
from typing import Any, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from hackmatrix_rl import training
from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._buffer import Buffer
from hackmatrix_rl.algorithms.self_play._games import Games, Moves, Results, play_moves
from hackmatrix_rl.algorithms.self_play._gating import Gate, Gated
from hackmatrix_rl.algorithms.self_play._learning import LearnFromBuffer, SearchLoss, Sizes
from hackmatrix_rl.algorithms.self_play._search import PlayoutCap, Search
from hackmatrix_rl.env import Batched, Environment, SingleGame, Symmetry, check_discrete, env_keys
from hackmatrix_rl.system import bytes_of
from hackmatrix_rl.system.batching import taken
from hackmatrix_rl.system.errors import ArgumentError, instance, whole
from hackmatrix_rl.training.sharding import (
    constrain,
    devices_of_one,
    fsdp_shardings,
    on_each_device,
)


class GamesAndMoves(eqx.Module):
    """The games between two updates, and the replay buffer."""

    games: Games
    buffer: Buffer


class SelfPlayState(training.TrainState):
    """The training state of self-play; `env_steps` counts moves, `games` finished games.

    `accepted` is the network that plays with a `Gate`; `None` without one.
    """

    collector_state: GamesAndMoves
    games: training.Counter
    accepted: ActorCritic | None = None


class SelfPlay(training.LearnerAlgorithm[SelfPlayState]):
    """AlphaZero self-play with Gumbel MuZero search: a network learns the search policy and result.

    An update plays `moves_per_update` moves in each game, each chosen by a search. It writes the
    positions to a buffer, with the search policy and, once a game has ended, its result for the
    player to move. It then takes gradient steps on positions from the buffer. An update is one
    compiled program. Finished games are reset.

    Source: Silver et al. 2018, "A general reinforcement learning algorithm that masters chess,
    shogi, and Go through self-play"; Danihelka et al. 2022, "Policy improvement by planning with
    Gumbel".

    Attributes:
        learn: takes the gradient steps of an update.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        sizes: the sizes of an update.
    """

    game: SingleGame[Any]
    search: Search
    playout_cap: PlayoutCap | None
    gate: Gate | None
    learn: LearnFromBuffer
    optimization: training.Optimization
    sizes: Sizes = eqx.field(static=True)
    opening: int = eqx.field(static=True)
    initial_policy: ActorCritic

    networks = ("accepted",)

    def __call__(self, state: SelfPlayState) -> tuple[SelfPlayState, training.UpdateReport]:
        games, moves, results = self.play(state)
        buffer = state.collector_state.buffer.write(moves)
        rate = self.optimization.learning_rate(state.games.as_float())
        key = jax.random.fold_in(state.key, state.update)
        learner, steps = self.learn(self.optimization, state.learner, buffer, rate, key)
        ended = state.games.add(results.games)
        means = self.optimization.metrics(learner, rate)
        accepted, gated = self.match(state, learner)
        changes = {"games": ended, "accepted": accepted}
        after = self.advance(state, learner, GamesAndMoves(games, buffer), **changes)
        return after, SelfPlayReport(results, steps, means, gated)

    def match(
        self, state: SelfPlayState, learner: training.Learner
    ) -> tuple[ActorCritic | None, Gated | None]:
        """Plays a gating match if one is due: the network that plays from now on, and a report."""
        gate, accepted = self.gate, state.accepted
        if gate is None or accepted is None:
            return None, None
        candidate, cast = learner.played, self.optimization.precision.cast_to_compute
        key = jax.random.fold_in(jax.random.fold_in(state.key, _GATE), state.update)
        due = gate.due(state.update)
        with taken(0):  # a match has no fixed number of moves
            half_points = jax.lax.cond(
                due,
                lambda: gate.half_points(
                    *(self.mesh, self.search, self.game, cast(candidate), cast(accepted), key)
                ),
                lambda: jnp.int32(0),
            )
        chosen, gated = gate.choose(due, half_points, candidate, accepted)
        return constrain(chosen, fsdp_shardings(self.mesh, chosen)), gated

    def play(self, state: SelfPlayState) -> tuple[Games, Moves, Results]:
        """Plays the moves of an update, each device in its own games. See `play_moves`."""

        def on_one(
            search: Search, game: SingleGame[Any], policy: ActorCritic, update: Array, games: Games
        ) -> tuple[Games, Moves, Results]:
            count = self.sizes.moves_per_update
            after, moves, results = play_moves(
                *(search, game, policy, games, update, count),
                opening=self.opening,
                cap=self.playout_cap,
                keeps=self.keeps,
            )
            return after, moves, jax.tree.map(lambda leaf: leaf[None], results)

        # Cast first: fewer bytes are gathered if parameters are sharded along `fsdp`.
        playing = state.learner.policy if state.accepted is None else state.accepted
        policy = self.optimization.precision.cast_to_compute(playing)
        modules = self.search, self.game, policy, state.update
        games, moves, results = on_each_device(
            self.mesh, on_one, modules, state.collector_state.games
        )
        return games, moves, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=jnp.int32), results)

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> SelfPlayState:
        games_key, learner_key = jax.random.split(key)
        games = self.sizes.game_batch_size
        learner = self.optimization.init(policy, IDENTITY_SCALE)
        begun = Games.start(self.game, env_keys(games_key, games), opening=self.opening)
        buffer = Buffer.empty(
            self.environment.spec, games=games, length=self.sizes.length, keeps=self.keeps
        )
        collector_state, none = GamesAndMoves(begun, buffer), training.Counter()
        accepted = None if self.gate is None else learner.played
        return SelfPlayState.first(
            learner_key, learner, collector_state, games=none, accepted=accepted
        )

    def __init__(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        *,
        search: Search | None = None,
        symmetry: Symmetry | None = None,
        loss: SearchLoss | None = None,
        game_batch_size: int = 64,
        moves_per_update: int = 16,
        buffer_size: int = 65_536,
        training_batch_size: int = 512,
        train_steps: int = 8,
        opening: int = 0,
        playout_cap: PlayoutCap | None = None,
        gate: Gate | None = None,
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes self-play from modules.

            game = CliqueGame(CliqueConfig(vertices=6, clique_size=3))
            policy = hm.MLPActorCritic(hm.Batched(game).spec, key=key)
            play = SelfPlay(game, policy, search=Search(64), symmetry=VertexPermutations(6))
            trainer = hm.Trainer(play)

        Args:
            game: a deterministic game of two players who move alternately.
            policy: the initial network, without memory.
            search: chooses the moves and the policy targets; by default 64 simulations.
            symmetry: random symmetries of the sampled positions; `None`: no augmentation.
            loss: the loss; by default `SearchLoss()`.
            game_batch_size: number of parallel games.
            moves_per_update: moves per game in an update.
            buffer_size: capacity in positions, over all games; rounded down to whole updates.
            training_batch_size: number of positions in a gradient step. It must divide
                `game_batch_size` or be a multiple of it.
            train_steps: number of gradient steps per update.
            opening: maximum number of random moves at the start of a game.
            playout_cap: playout cap randomization; `None`: every move has a full search.
            gate: when the learner's network replaces the network that plays, which is then also
                the policy of the training; `None`: after each update.
            optimization: optimizer, learning rate, precision, memory and devices. The learning
                rate is a schedule of the number of finished games.
            arguments: the arguments of an `Optimization`, in place of one: `learning_rate=1e-3`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the parts do not fit together.
        """
        self.optimization = training.optimization_of(self, optimization, arguments)
        instance("game", game, SingleGame, "CliqueGame(CliqueConfig(6, 3))")
        search = Search(64) if search is None else search
        loss = SearchLoss() if loss is None else loss
        instance("search", search, Search, "Search(64)")
        instance("loss", loss, SearchLoss, "SearchLoss()")
        if playout_cap is not None:
            instance("playout_cap", playout_cap, PlayoutCap, "PlayoutCap(0.25, 16)")
            playout_cap.check(search)
        if gate is not None:
            instance("gate", gate, Gate, "Gate(0.55, games=40, interval=50)")
        if symmetry is not None:
            instance("symmetry", symmetry, Symmetry, "VertexPermutations(6)")
        check_discrete(Batched(game).spec, "self-play")
        self.optimization.check_policy(policy, Batched(game).spec)
        if jax.tree.leaves(policy.initial_carry()):
            raise ArgumentError(
                f"{{policy:only}} is a {type(policy).__name__} with memory, but a search evaluates "
                "positions out of order; use a network without memory, such as hm.MLPActorCritic",
                policy=policy,
            )
        steps = training_batch_size, train_steps
        sizes = Sizes(game_batch_size, moves_per_update, buffer_size, *steps)
        parts = self.optimization.grad_accum
        sizes.in_blocks.check_mesh(self.mesh, grad_accum=parts, samples="positions")
        self.game = game
        self.search = search
        self.playout_cap = playout_cap
        self.gate = gate
        self.sizes = sizes
        self.opening = whole("opening", opening, 0)
        self.initial_policy = policy
        self.learn = LearnFromBuffer(loss, symmetry, sizes)

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def environment(self) -> Environment:  # type: ignore[override]
        """The game as an environment, in which the policy plays both sides."""
        return Batched(self.game)

    @property
    def steps_per_update(self) -> int:
        """Moves of an update, over all games."""
        return self.sizes.game_batch_size * self.sizes.moves_per_update

    def working_bytes(self, state: SelfPlayState) -> int:
        """Bytes of the search trees on one device, one tree for each of its games."""
        games = -(-self.sizes.game_batch_size // devices_of_one(self.mesh))
        if self.gate is not None:
            games = max(games, self.gate.at_once(self.mesh))
        position = bytes_of(jax.eval_shape(lambda: self.game.start(key=jax.random.key(0))))
        return games * self.search.tree_bytes(position, self.game.num_actions)

    def progress(self, state: SelfPlayState) -> int:
        """The number of finished games."""
        return int(state.games)

    @property
    def keeps(self) -> tuple[str, ...]:
        """The fields of `OPTIONAL` that this training stores."""
        return (*(() if self.playout_cap is None else ("policy_weight",)), *self.learn.loss.keeps)

    def policy(self, state: SelfPlayState) -> ActorCritic:
        """The learner's network, averaged if its parameters are; with a gate, `accepted`."""
        return super().policy(state) if state.accepted is None else state.accepted

    def metrics(
        self, report: training.UpdateReport, dispatch: training.Dispatch
    ) -> training.Metrics:
        """The results of finished games, and the means of the losses."""
        extra = {"games": float(dispatch.progress)}
        return replace(super().metrics(report, dispatch), extra=extra)


class SelfPlayReport(training.UpdateReport):
    """The reports of an update and of its gating match; the latter is `None` without a gate."""

    gated: Gated | None = None

    def totals(self) -> dict[str, tuple[Array, Array]]:
        found = super().totals()
        if self.gated is not None:
            found["gate_score"] = self.gated.score, self.gated.matches
        return found

    def metrics(self, dispatch: training.Dispatch, *, batch: int) -> training.Metrics:
        found = super().metrics(dispatch, batch=batch)
        if self.gated is None:
            return found
        learning: dict[str, int | float] = {"gates_passed": int(self.gated.passed)}
        if matches := int(self.gated.matches):
            learning["gate_score"] = float(self.gated.score) / matches
        return replace(found, learning={**found.learning, **learning})


_GATE = 2**32 - 1
"""Folded into the learner's key for gating matches; no update has this number."""
