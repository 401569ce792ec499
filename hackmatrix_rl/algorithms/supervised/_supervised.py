"""Deep supervision: one update takes one gradient step on the next supervision step of each row."""

from typing import Any, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic, Thought
from hackmatrix_rl.algorithms.supervised._loss import AnswerBatch, AnswerLoss, Outcome
from hackmatrix_rl.algorithms.supervised._names import DECAYS
from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork
from hackmatrix_rl.algorithms.supervised._puzzle import Puzzle
from hackmatrix_rl.algorithms.supervised._schedules import Curriculum, Halting
from hackmatrix_rl.env import Batched, Environment
from hackmatrix_rl.games.puzzles import Examples, ExampleStream
from hackmatrix_rl.system.batching import select
from hackmatrix_rl.system.errors import ArgumentError, instance, whole
from hackmatrix_rl.training.sharding import Blocks

LEARNING_RATE = 1e-3


class Supervised(training.LearnerAlgorithm[training.TrainState]):
    """Deep supervision of a recursive network by labelled examples.

    Each row of a batch keeps its example for several updates. An update calls the network once per
    row, from the latent states of the previous update, and takes one gradient step. A row halts
    after `supervision_steps` updates, or earlier if the network predicts that its answer is
    correct. It then gets a new example. `env_steps` counts network calls over all rows. Progress
    and schedules are measured in updates.

    Source: Jolicoeur-Martineau 2025, "Less is more: recursive reasoning with tiny networks".

    Attributes:
        game: the puzzle, with the examples.
        loss: the loss.
        halting: when a row gets a new example.
        exploration: fraction of rows that need a random minimum of steps before they halt.
        curriculum: the number of cycles over the updates; `None`: always the network's.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        rows: batch size.
        initial_policy: the network to start from.
    """

    game: Puzzle
    loss: AnswerLoss
    halting: Halting
    exploration: agent.Schedule
    curriculum: Curriculum | None
    optimization: training.Optimization
    rows: int = eqx.field(static=True)
    initial_policy: AnswerNetwork

    def __call__(
        self, state: training.TrainState
    ) -> tuple[training.TrainState, training.UpdateReport]:
        draw_key, halt_key = jax.random.split(jax.random.fold_in(state.key, state.update))
        now = state.update.astype(jnp.float32)
        learner, rate = state.learner, self.optimization.learning_rate(now)
        if self.curriculum is not None:
            cycles = self.curriculum(state.update)
            learner = eqx.tree_at(lambda x: x.policy.cycles, learner, cycles)
        policy: Any = learner.policy
        rows = state.collector_state.renewed(policy, self.game.stream.draw(draw_key, self.rows))
        batch = AnswerBatch(rows.example.inputs, rows.example.labels, rows.thought)
        gradient, losses, samples = self.optimization.gradient(learner, self.loss, batch)
        always = jnp.array(True)
        learner, learned = self.optimization.apply(learner, gradient, losses, rate, active=always)
        outcome: Outcome = samples[0]
        steps, exploration = rows.steps + 1, self.exploration(now)
        halted = self.halting(steps, outcome.halt, exploration, key=halt_key)
        rows = Rows(rows.example, outcome.thought, steps, halted)
        means = {
            **self.optimization.metrics(learner, rate),
            "halt_exploration": exploration,
            "high_cycles": policy.cycles.high.astype(jnp.float32),
            "low_cycles": policy.cycles.low.astype(jnp.float32),
        }
        report = training.UpdateReport(Finished.from_rows(rows, outcome), learned, means)
        return self.advance(state, learner, rows), report

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> training.TrainState:
        assert isinstance(policy, AnswerNetwork)
        learner = self.optimization.init(policy, agent.IDENTITY_SCALE)
        return training.TrainState.first(key, learner, Rows.empty(policy, self.rows))

    def __init__(
        self,
        examples: ExampleStream,
        policy: AnswerNetwork,
        *,
        global_batch_size: int = 128,
        supervision_steps: int = 16,
        halting: bool = True,
        halt_exploration: float | agent.Schedule = 0.1,
        output_loss: str = "stablemax",
        curriculum: Curriculum | None = None,
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes the algorithm from modules.

            examples = hackmatrix_rl.games.puzzles.sudokus(4, 500, seed=0)
            policy = AnswerNetwork(Batched(Puzzle(examples)).spec, width=64, key=key)
            trainer = hm.Trainer(Supervised(examples, policy))

        Args:
            examples: the training examples.
            policy: the initial network.
            global_batch_size: number of rows, over all devices.
            supervision_steps: maximum number of updates that a row spends on an example.
            halting: whether the network may halt earlier.
            halt_exploration: fraction of rows, in [0, 1], that must reach a random number of steps
                before they halt.
            output_loss: `stablemax` or `softmax`.
            curriculum: the number of cycles over the updates; `None`: always the network's.
            optimization: optimizer, learning rate, precision, memory and devices; by default
                AdamATan2 with weight decay and a learning rate of 0.001. Schedules are functions of
                the number of updates, and `remat` is `none` or `blocks`.
            arguments: the arguments of an `Optimization`, in place of one: `learning_rate=1e-3`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the parts do not fit together.
        """
        if optimization is None and arguments.get("optimizer") is None:
            arguments["optimizer"] = training.named_optimizer("adam-atan2", 1.0, **DECAYS)
            if arguments.get("learning_rate") is None:
                arguments["learning_rate"] = LEARNING_RATE
        self.optimization = training.optimization_of(self, optimization, arguments)
        instance("examples", examples, ExampleStream, "puzzles.sudokus(4, 500, seed=0)")
        instance("policy", policy, AnswerNetwork, "AnswerNetwork(spec, key=key)")
        self.game = Puzzle(examples)
        rows = rows_of(global_batch_size, len(examples))
        self.rows = rows.batch
        if self.optimization.remat == "full":
            raise ArgumentError(
                "{remat} recomputes each step of a sequence, and an update has only one step; "
                "use {remat:=blocks}",
                remat="full",
            )
        rows.check_mesh(self.mesh, grad_accum=self.optimization.grad_accum, samples="rows")
        self.optimization.check_policy(policy, self.environment.spec)
        self.exploration = agent.fraction_of("halt_exploration", halt_exploration)
        if curriculum is not None:
            instance("curriculum", curriculum, Curriculum, "Curriculum(3, 6, over=1000)")
            if curriculum.low > policy.gradient_cycles:
                raise ValueError(
                    f"curriculum ends with {curriculum.low} cycles of z_L, more than the "
                    f"{policy.gradient_cycles} that the network was built with"
                )
        self.loss = AnswerLoss(output_loss)
        self.halting = Halting(supervision_steps, halting)
        self.curriculum = curriculum
        self.initial_policy = policy

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def environment(self) -> Environment:  # type: ignore[override]
        """The puzzles as games."""
        return Batched(self.game)

    @property
    def steps_per_update(self) -> int:
        """Network calls per update: one for each row."""
        return self.rows

    @property
    def most_progress(self) -> int:
        """1: progress is counted in updates."""
        return 1

    def progress(self, state: training.TrainState) -> int:
        """The number of updates."""
        return int(state.update)

    @property
    def greedy(self) -> bool:
        """`True`: an answer is the most likely token."""
        return True

    def value_scale_of(self, state: training.TrainState) -> None:
        """`None`: the value output is the halting logit."""


class Rows(eqx.Module):
    """The examples of the batch and the latent states of each, between two updates.

    Attributes:
        example: the example of each row.
        thought: both latent states, detached from the gradient.
        steps: supervision steps on this example so far.
        halted: whether the row gets a new example in the next update.
    """

    example: Examples
    thought: Thought
    steps: Int32[Array, " rows"]
    halted: Bool[Array, " rows"]

    @classmethod
    def empty(cls, policy: AnswerNetwork, rows: int) -> "Rows":
        """Rows that all get a new example in the first update."""
        # Two arrays: the state is donated, and a donated array may occur only once.
        cells = [jnp.zeros((rows, policy.cells), jnp.int32) for _ in range(2)]
        begun = jax.tree.map(
            lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype),
            jax.eval_shape(policy.initial_carry),
        )
        return cls(Examples(*cells), begun, jnp.zeros(rows, jnp.int32), jnp.ones(rows, bool))

    def renewed(self, policy: AnswerNetwork, fresh: Examples) -> "Rows":
        """The rows, with new examples where they have halted."""
        begun = policy.initial_carry()

        def renew(halted: Bool[Array, ""], rows: Any, example: Examples) -> Any:
            return select(halted, (example, begun, jnp.int32(0)), rows)

        rows = self.example, self.thought, self.steps
        example, thought, steps = jax.vmap(renew)(self.halted, rows, fresh)
        return Rows(example, thought, steps, jnp.zeros_like(self.halted))


class Finished(eqx.Module):
    """Sums over the rows that halted in an update."""

    examples: Int32[Array, ""]
    steps: Int32[Array, ""]
    cells: Float32[Array, ""]
    solved: Int32[Array, ""]

    @classmethod
    def from_rows(cls, rows: Rows, outcome: Outcome) -> "Finished":
        """The sums of an update, from its rows and their outcome."""

        def total(each: Any) -> Any:
            each = jnp.asarray(each)
            return jnp.sum(jnp.where(rows.halted, each, jnp.zeros_like(each)), dtype=each.dtype)

        one = jnp.int32(1)
        solved = outcome.solved.astype(jnp.int32)
        return cls(total(one), total(rows.steps), total(outcome.cells), total(solved))

    @property
    def count(self) -> Any:
        """The number of rows that halted, on the device or on the host."""
        return self.examples

    @property
    def totals(self) -> dict[str, Any]:
        """The sums whose means are metrics, by name, on the device or on the host."""
        return {
            "supervision_steps": self.steps,
            "cells_right": self.cells,
            "puzzles_right": self.solved,
        }

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """The means per example, by name, on the host; and no reward terms."""
        count = int(self.count)
        return {name: float(each) / count for name, each in self.totals.items() if count}, {}


def rows_of(global_batch_size: int, examples: int) -> Blocks:
    """The rows of a batch, each with its own example."""
    rows = whole("global_batch_size", global_batch_size)
    if examples < rows:
        raise ArgumentError(
            "{examples} are fewer than {global_batch_size}; use more puzzles, or "
            f"{{global_batch_size:={examples}}} or less",
            examples=examples,
            global_batch_size=rows,
        )
    return Blocks("global_batch_size", rows, "global_batch_size", rows)
