"""Self-play: one update searches, plays and learns."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    IDENTITY_SCALE,
    Schedule,
    ValueScale,
    check_policy_shapes,
    precision_of,
)
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy, parameters_of
from hackmatrix_rl.env import Batched, Environment, SingleGame, env_keys
from hackmatrix_rl.errors import instance, whole
from hackmatrix_rl.self_play._buffer import Buffer, Outcomes
from hackmatrix_rl.self_play._games import Games, Moves, Results, play_moves
from hackmatrix_rl.self_play._loss import Losses, SearchLoss
from hackmatrix_rl.self_play._metrics import Learned, SelfPlayReport, read_report
from hackmatrix_rl.self_play._search import Search
from hackmatrix_rl.self_play._sizes import Sizes, mesh_for
from hackmatrix_rl.self_play._symmetry import Symmetry
from hackmatrix_rl.training import (
    Algorithm,
    AlgorithmState,
    Counter,
    Dispatch,
    Learner,
    Metrics,
    filter_scan,
    optimizer_of,
)
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    constrain,
    each_array,
    fsdp_shardings,
    on_each_device,
    replicated_shardings,
)

_BUFFER = {"moves": BY_ENVIRONMENT, "slot": REPLICATED, "filled": REPLICATED}
"""How the fields of a buffer are cut over devices."""


class GamesAndMoves(eqx.Module):
    """The games between two updates, and their newest moves.

    Attributes:
        games: the games.
        buffer: their moves.
    """

    games: Games
    buffer: Buffer


class SelfPlayState(AlgorithmState):
    """Everything that self-play continues from.

    Attributes:
        learner: the network and everything that changes with it.
        actors: the games and the buffer.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of moves played, over all games.
    """

    learner: Learner
    actors: GamesAndMoves
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter


class SelfPlay(Algorithm[SelfPlayState]):
    """Self-play as in AlphaZero: a network learns what a search with it finds, and who wins.

    An update plays some moves in many games at once. For each move it searches. The positions go
    into a buffer, with the search's policy and, once a game has ended, its result for the player
    to move. Then come gradient steps on positions from the buffer. All of it is one compiled
    program. Games that end begin anew.

    Source: Silver et al. 2018, "A general reinforcement learning algorithm that masters chess,
    shogi, and Go through self-play"; Danihelka et al. 2022, "Policy improvement by planning with
    Gumbel".

    Attributes:
        game: the rules, of two players who move in turn, without chance.
        search: says what to play, and what to learn.
        symmetry: changes the positions that are learned from; `None`: they stay as they are.
        loss: what to descend.
        precision: in which dtype the network computes.
        optimizer: turns gradients into changes of the parameters.
        learning_rate: factor on these changes.
        sizes: of an update.
        opening: the most random moves at the start of a game (see `begin`).
        mesh: the devices that share the games.
    """

    game: SingleGame[Any]
    search: Search
    symmetry: Symmetry | None
    loss: SearchLoss
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: Schedule
    sizes: Sizes = eqx.field(static=True)
    opening: int = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)

    def __init__(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        *,
        search: Search | None = None,
        symmetry: Symmetry | None = None,
        loss: SearchLoss | None = None,
        num_games: int = 64,
        moves_per_update: int = 16,
        buffer_size: int = 65_536,
        training_batch_size: int = 512,
        train_steps: int = 8,
        opening: int = 0,
        optimizer: optax.GradientTransformation | None = None,
        learning_rate: float | Schedule | None = None,
        precision: PrecisionPolicy | str = FLOAT32,
        mesh: Mesh | str | None = None,
    ) -> None:
        """Composes self-play from modules.

            game = CliqueGame(CliqueConfig(vertices=6, clique_size=3))
            policy = hm.MLPActorCritic(hm.Batched(game).spec, key=key)
            play = SelfPlay(game, policy, search=Search(64), symmetry=VertexPermutations(6))
            trainer = hm.Trainer.of(play, policy)

        Args:
            game: see the class.
            policy: the network to start from; one without memory.
            search: see the class; by default 64 simulations.
            symmetry: see the class.
            loss: see the class.
            num_games: number of games at once.
            moves_per_update: moves of each game in an update.
            buffer_size: positions to keep, over all games; rounded down to whole updates.
            training_batch_size: positions of a gradient step. It must divide `num_games`, or be
                divided by it.
            train_steps: gradient steps of an update.
            opening: see the class.
            optimizer: as for `Trainer`.
            learning_rate: as for `Trainer`.
            precision: the dtype in which the network computes: a policy, or its name (`bf16`).
            mesh: the devices to train on, as for `Trainer`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the parts do not fit together.
        """
        instance("game", game, SingleGame, "CliqueGame(CliqueConfig(6, 3))")
        self.search = Search(64) if search is None else search
        self.loss = SearchLoss() if loss is None else loss
        instance("search", self.search, Search, "Search(64)")
        instance("loss", self.loss, SearchLoss, "SearchLoss()")
        if symmetry is not None:
            instance("symmetry", symmetry, Symmetry, "VertexPermutations(6)")
        self.precision = precision_of(precision)
        check_policy_shapes(policy, Batched(game).spec, precision=self.precision)
        if jax.tree.leaves(policy.initial_carry()):
            raise ValueError(
                f"policy is a {type(policy).__name__} with memory, but a search looks at positions "
                "out of order; use a network without memory, such as hm.MLPActorCritic"
            )
        self.game = game
        self.symmetry = symmetry
        self.opening = whole("opening", opening, 0)
        self.optimizer, self.learning_rate = optimizer_of(optimizer, learning_rate)
        self.sizes = Sizes(
            num_games, moves_per_update, buffer_size, training_batch_size, train_steps
        )
        self.mesh = mesh_for(mesh, self.sizes)

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def environment(self) -> Environment:  # type: ignore[override]
        """The game as an environment, in which the policy plays both sides."""
        return Batched(self.game)

    @property
    def steps_per_update(self) -> int:
        """Moves of one update, over all games."""
        return self.sizes.num_games * self.sizes.moves_per_update

    @property
    def resettable(self) -> tuple[str, ...]:
        """The games and the buffer: they begin anew where their number or sizes change."""
        return ("actors",)

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> SelfPlayState:
        """The state before the first update."""
        actors_key, learner_key = jax.random.split(key)
        games = self.sizes.num_games
        return SelfPlayState(
            learner=Learner(
                policy=policy,
                optimizer_state=self.optimizer.init(parameters_of(policy)),
                value_scale=IDENTITY_SCALE,
                scaling=self.precision.initial_scaling(),
                skipped=jnp.zeros((), jnp.int32),
            ),
            actors=GamesAndMoves(
                games=Games.start(self.game, env_keys(actors_key, games), opening=self.opening),
                buffer=Buffer.empty(self.environment.spec, games=games, length=self.sizes.length),
            ),
            key=learner_key,
            update=jnp.zeros((), jnp.int32),
            env_steps=Counter.of(0),
        )

    def policy(self, state: SelfPlayState) -> ActorCritic:
        """The network, which plays without a search."""
        return state.learner.policy

    def value_scale_of(self, state: SelfPlayState) -> ValueScale:
        """Values are results of games: 1 won, 0 drawn, -1 lost."""
        return state.learner.value_scale

    def shardings(self, state: SelfPlayState) -> PyTree[NamedSharding]:
        """The learner is cut along `fsdp`, the games and the buffer along `data`."""
        by_game = NamedSharding(self.mesh, BY_ENVIRONMENT)
        whole = NamedSharding(self.mesh, REPLICATED)
        shardings: PyTree[NamedSharding] = eqx.tree_at(
            lambda state: (state.learner, state.actors),
            replicated_shardings(self.mesh, state),
            (
                fsdp_shardings(self.mesh, state.learner),
                each_array(lambda leaf: by_game if leaf.ndim else whole, state.actors),
            ),
        )
        return shardings

    def metrics(self, report: SelfPlayReport, dispatch: Dispatch) -> Metrics:
        """Results of the games that ended, and means of the losses."""
        return read_report(report, dispatch, batch=self.steps_per_update)

    def __call__(self, state: SelfPlayState) -> tuple[SelfPlayState, SelfPlayReport]:
        """The state after one update, and what happened in it."""
        games, moves, results = self.play(state)
        buffer = state.actors.buffer.write(moves)
        rate = self.learning_rate(state.env_steps.as_float())
        key = jax.random.fold_in(state.key, state.update)
        learner, learned = self.learn(state.learner, buffer, rate, key)
        after = SelfPlayState(
            learner=learner,
            actors=GamesAndMoves(games, buffer),
            key=state.key,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
        )
        return after, SelfPlayReport(
            results=results,
            learned=learned,
            learning_rate=rate,
            scaling=self.precision.report(learner.scaling),
        )

    def play(self, state: SelfPlayState) -> tuple[Games, Moves, Results]:
        """Plays the moves of an update, each device in its own games. See `play_moves`."""

        def on_one(
            search: Search, game: SingleGame[Any], policy: ActorCritic, update: Array, games: Games
        ) -> tuple[Games, Moves, Results]:
            count = self.sizes.moves_per_update
            after, moves, results = play_moves(
                search, game, policy, games, update, count, opening=self.opening
            )
            return after, moves, jax.tree.map(lambda leaf: leaf[None], results)

        # Cast first: then less is gathered if parameters are cut along `fsdp`.
        policy = self.precision.cast_to_compute(state.learner.policy)
        games, moves, results = on_each_device(
            self.mesh,
            on_one,
            (self.search, self.game, policy, state.update),
            state.actors.games,
            takes=BY_ENVIRONMENT,
            returns=BY_ENVIRONMENT,
        )
        return games, moves, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=jnp.int32), results)

    def learn(
        self, learner: Learner, buffer: Buffer, rate: Float32[Array, ""], key: Key[Array, ""]
    ) -> tuple[Learner, Learned]:
        """Takes the gradient steps of an update.

        Args:
            learner: to improve.
            buffer: the positions.
            rate: factor on the optimizer's changes.
            key: decides what is drawn.
        """
        outcomes = on_each_device(
            self.mesh,
            lambda fields: Buffer(**fields).outcomes(),
            (),
            vars(buffer),
            takes=_BUFFER,
            returns=BY_ENVIRONMENT,
        )

        def step(learner: Learner, number: Int32[Array, ""]) -> tuple[Learner, Learned]:
            here = jax.random.fold_in(key, number)
            gradient, losses = self._gradient(learner, buffer, outcomes, here)
            norm = optax.tree.norm(gradient)
            finite, some = jnp.isfinite(norm), losses.count > 0
            taken, skipped = finite & some, ~finite & some
            learner = learner.step(self.optimizer, gradient, rate, take=taken)
            learner = eqx.tree_at(
                lambda x: (x.scaling, x.skipped),
                learner,
                (
                    self.precision.adjust(learner.scaling, finite),
                    learner.skipped + skipped.astype(jnp.int32),
                ),
            )
            learner = constrain(learner, fsdp_shardings(self.mesh, learner))
            learned = Learned(losses, norm, jnp.int32(1), jnp.int32(0))
            kept: Learned = jax.tree.map(lambda leaf: jnp.where(taken, leaf, 0), learned)
            return learner, eqx.tree_at(lambda x: x.skipped, kept, skipped.astype(jnp.int32))

        steps = jnp.arange(self.sizes.train_steps, dtype=jnp.int32)
        learner, learned = filter_scan(step, learner, steps)
        return learner, jax.tree.map(lambda leaf: jnp.sum(leaf, dtype=leaf.dtype), learned)

    def _gradient(
        self, learner: Learner, buffer: Buffer, outcomes: Outcomes, key: Key[Array, ""]
    ) -> tuple[Any, Losses]:
        """The gradient on positions of all devices, and the sums of the losses."""

        def on_one(policy: ActorCritic, scaling: Any, symmetry: Any, loss: Any, given: Any) -> Any:
            fields, outcomes, keys = given
            drawn = Buffer(**fields).draw(outcomes, self.sizes.of_each, symmetry, keys=keys)
            found = self.precision.grad(loss, scaling)(policy, drawn)
            return jax.tree.map(lambda leaf: leaf[None], found)

        gradient, losses = on_each_device(
            self.mesh,
            on_one,
            (learner.policy, learner.scaling, self.symmetry, self.loss),
            (vars(buffer), outcomes, jax.random.split(key, self.sizes.blocks)),
            takes=(_BUFFER, BY_ENVIRONMENT, BY_ENVIRONMENT),
            returns=BY_ENVIRONMENT,
        )
        sums: Losses = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), losses)
        # Each device has the mean over its positions, with 0 where one does not count.
        share = jnp.maximum(sums.count, 1.0) / self.sizes.training_batch_size
        gradient = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0) / share, gradient)
        return constrain(gradient, fsdp_shardings(self.mesh, gradient)), sums
