"""The settings of supervised learning: its fields are its flags."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final, no_type_check

from hackmatrix_rl import agent, env, training
from hackmatrix_rl.agent import networks
from hackmatrix_rl.agent.networks import MIXERS
from hackmatrix_rl.algorithms.supervised._names import (
    DECAYS,
    FIRST_HIGH,
    FIRST_LOW,
    OUTPUT_LOSSES,
    TASKS,
)
from hackmatrix_rl.games.puzzles import LEVELS
from hackmatrix_rl.runs import config
from hackmatrix_rl.system.errors import ConfigError, in_flags, refusing
from hackmatrix_rl.training import sharding

if TYPE_CHECKING:
    from jax.sharding import Mesh
    from jaxtyping import Array, Key

    from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork
    from hackmatrix_rl.algorithms.supervised._schedules import Curriculum
    from hackmatrix_rl.algorithms.supervised._supervised import Supervised
    from hackmatrix_rl.algorithms.supervised._tasks import Puzzles

in_run = config.options_in("Run")
in_puzzle = config.options_in("Puzzles")
in_network = config.options_in("Network")
in_supervision = config.options_in("Supervision")
in_learning = config.options_in("Learning")
changed = partial(config.changed, config.RunConfig)

_LEARNED = "it has learned from these puzzles"
_MOST_CYCLES = config.most(100, "no deeper recursion is known to learn")


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class SupervisedConfig(config.RunConfig):
    """The settings of a training on labelled examples; see `PPOConfig`."""

    algorithm: ClassVar[str] = "supervised"
    summary: ClassVar[str] = "answers of puzzles, by deep supervision"
    counts: ClassVar[str] = "updates"
    goal_by: ClassVar[str] = "total_updates"
    greedy: ClassVar[bool] = True
    best_by: ClassVar[str | None] = "puzzles_right"
    optimizers: ClassVar[Mapping[str, Mapping[str, float]]] = dict.fromkeys(
        ("adamw", "adam-atan2"), DECAYS
    )
    loader: ClassVar[str] = "hackmatrix_rl.algorithms.supervised.load_answers"
    memory: ClassVar[tuple[str, ...]] = ("global_batch_size", "width")
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        ("puzzles_right", "share of puzzles right"),
        ("cells_right", "share of cells right"),
        ("answer_loss", "loss of a cell (nats)"),
        ("halting_loss", "loss of halting (nats)"),
        ("supervision_steps", "supervision steps of a puzzle"),
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {
            "device": "cpu",
            "cpu_devices": 2,
            "width": 32,
            "high_cycles": 2,
            "low_cycles": 2,
            "global_batch_size": 64,
            "supervision_steps": 8,
            "total_updates": 1500,
            "updates_per_dispatch": 50,
            "learning_rate": "linear:0:0.001@0.1",
            "ema": 0.99,
        },
        **{
            kind: {
                **config.ACCELERATOR,
                "device": kind,
                "width": 512,
                "heads": 8,
                "global_batch_size": 768,
                "learning_rate": "linear:0:0.0001@0.05",
                "weight_decay": 1.0,
                "ema": 0.999,
            }
            for kind in ("gpu", "tpu")
        },
        "debug": {
            "mesh": "data=1",
            "size": 4,
            "puzzles": 32,
            "eval_puzzles": 16,
            "width": 16,
            "heads": 2,
            "high_cycles": 2,
            "low_cycles": 2,
            "global_batch_size": 16,
            "supervision_steps": 4,
            "total_updates": 20,
            "updates_per_dispatch": 5,
        },
    }

    # The run
    total_updates: int = in_run(
        20_000,
        "Number of updates; each is one gradient step.",
        minimum=1,
        **config.most(10_000_000, "a curriculum counts its cycles in 32 bits"),
    )
    eval_puzzles: int = in_run(
        1000,
        "Number of fresh puzzles to evaluate on; 0: no evaluation.",
        minimum=0,
        **config.most(1_000_000, "more do not tighten the interval usefully"),
    )
    eval_interval: int = in_run(
        0, "Updates between evaluations on the fresh puzzles during training; 0: none.", minimum=0
    )

    # The puzzles
    task: str = in_puzzle(
        "sudoku",
        "The puzzle: a Sudoku, or the shortest path through a maze.",
        choices=TASKS,
        resume=_LEARNED,
        alike=True,
        arrays=True,
    )
    size: int = in_puzzle(
        4,
        "Rows and columns of a board: 4, 6 or 9 for a Sudoku, an odd number for a maze.",
        minimum=1,
        resume=_LEARNED,
        alike=True,
        arrays=True,
    )
    level: str = in_puzzle(
        "easy",
        "Difficulty of a Sudoku: easy, solved by singles alone; any; or hard, needs a guess.",
        choices=LEVELS,
        resume=_LEARNED,
    )
    openings: int = in_puzzle(
        0, "Walls removed from a maze to create loops.", minimum=0, resume=_LEARNED
    )
    puzzles: int = in_puzzle(
        1000,
        "Number of training puzzles; random symmetries augment them.",
        minimum=1,
        resume=_LEARNED,
        **config.most(10_000_000, "they are generated before the training, on one core"),
    )
    data_seed: int = in_puzzle(
        0,
        "Seed of the training puzzles and of the fresh puzzles.",
        minimum=0,
        maximum=2**32 - 1,
        resume="other fresh puzzles may be among those that it has learned from",
    )

    # The network
    network: str = changed(
        "network", "recursive", "The network that solves puzzles.", choices=("recursive",)
    )
    width: int | None = changed(
        "width",
        64,
        "Size of the embedding of each cell; a multiple of twice --heads; none: 128.",
        **config.most(8192, "a layer would take more than 2 GiB"),
    )
    heads: int = in_network(
        4,
        "Number of attention heads.",
        minimum=1,
        **config.most(1024, "no --width is large enough for more"),
        alike=True,
        arrays=True,
    )
    mixer: str = in_network(
        "swiglu",
        "Mixes information between cells: attention, or SwiGLU over cells.",
        choices=MIXERS,
        alike=True,
        arrays=True,
    )
    high_cycles: int = in_network(
        3, "Updates of the answer state z_H per supervision step.", minimum=1, **_MOST_CYCLES
    )
    low_cycles: int = in_network(
        6,
        "Updates of the reasoning state z_L before each update of z_H.",
        minimum=1,
        **_MOST_CYCLES,
    )
    curriculum_recursion: float | None = in_network(
        None,
        "Share of the training over which the cycles grow from 1 and 2; none: no curriculum.",
        above=0,
        maximum=1,
    )

    # Supervision
    global_batch_size: int = in_supervision(
        128, "Number of puzzles in a batch, over all devices.", minimum=1
    )
    supervision_steps: int = in_supervision(
        16,
        "Maximum number of updates on a puzzle; evaluations always use all of them.",
        minimum=1,
        **config.most(10_000, "no more are known to help"),
    )
    halting: bool = in_supervision(
        True, "Replace a puzzle once the network predicts that its answer is correct."
    )
    halt_exploration: float | str = in_supervision(
        0.1,
        "Share of puzzles that must reach a random step first; or a schedule: linear:0.3:0.05.",
        minimum=0,
        maximum=1,
    )
    output_loss: str = in_supervision(
        "stablemax", "Output function of the cross-entropy.", choices=OUTPUT_LOSSES
    )

    # Learning
    optimizer: str = changed("optimizer", "adam-atan2")
    max_grad_norm: float = changed("max_grad_norm", 1.0)

    # Memory
    remat: str = changed(
        "remat",
        "none",
        "Recompute blocks in the backward pass instead of storing their activations.",
        choices=("none", "blocks"),
    )

    def check(self) -> None:
        from hackmatrix_rl.algorithms.supervised._tasks import check_task

        super().check()
        check_task(self.task, self.size)
        if self.task != "maze" and self.openings:
            raise ConfigError(f"--openings {self.openings}: only --task maze has walls.")
        if self.task != "sudoku" and self.level != "easy":
            raise ConfigError(f"--level {self.level}: only --task sudoku has levels.")
        if self.eval_interval and not self.eval_puzzles:
            raise ConfigError(
                f"--eval-interval {self.eval_interval}: --eval-puzzles 0 leaves nothing to "
                "evaluate on. Use more, or leave --eval-interval out."
            )
        with in_flags({"examples": "puzzles"}):
            self.rows()
        with in_flags(said=f"--curriculum-recursion {self.curriculum_recursion}: "):
            self.curriculum()

    def rows(self) -> "sharding.Blocks":
        from hackmatrix_rl.algorithms.supervised._supervised import rows_of

        return rows_of(self.global_batch_size, self.puzzles)

    def check_mesh(self, mesh: "Mesh") -> None:
        """Raises a ConfigError if the rows do not divide over a mesh; generates no puzzle."""
        with in_flags():
            self.rows().check_mesh(mesh, grad_accum=self.grad_accum, samples="rows")

    def curriculum(self) -> "Curriculum | None":
        """The number of cycles over the updates; `None`: always the network's."""
        from hackmatrix_rl.algorithms.supervised._schedules import Curriculum

        share = self.curriculum_recursion
        if share is None:
            return None
        over = max(1, round(share * self.total_updates))
        return Curriculum(self.high_cycles, self.low_cycles, over)

    @property
    def goal(self) -> int:
        """The number of updates."""
        return self.total_updates

    @property
    def batch(self) -> int:
        """Network calls in one update."""
        return self.global_batch_size

    @property
    def at_once(self) -> int:
        """Rows in one part of a batch, over all devices."""
        return self.global_batch_size // self.grad_accum

    @property
    def has_value(self) -> bool:
        """`False`: the value output is the halting logit."""
        return False

    def shorten(self, updates: int) -> "SupervisedConfig":
        """These settings, shortened to `updates` updates, without an evaluation."""
        return replace(self, total_updates=updates, eval_puzzles=0, eval_interval=0)

    @classmethod
    def game_identity(cls, settings: Mapping[str, Any]) -> "env.GameIdentity":
        """The identity of the puzzle, by its name."""
        task = settings.get("task")
        return env.other_identity(task if task in TASKS else TASKS[0])

    def spec(self) -> "env.EnvSpec":
        from hackmatrix_rl.algorithms.supervised._puzzle import puzzle_spec
        from hackmatrix_rl.algorithms.supervised._tasks import tokens_of

        return puzzle_spec(*tokens_of(self.task, self.size))

    def examples(self) -> "Puzzles":
        """The puzzles, generated at the first call and cached."""
        from hackmatrix_rl.algorithms.supervised._tasks import make_puzzles

        sizes = self.task, self.size, self.level, self.openings
        return make_puzzles(*sizes, self.puzzles, self.eval_puzzles, self.data_seed)

    def policy(self, *, key: "Key[Array, '']", copies: int = 1) -> "AnswerNetwork":
        from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork

        sizes: dict[str, Any] = {"width": self.width, "depth": self.depth}
        with refusing(f"--width {self.width} --heads {self.heads}: "):
            return AnswerNetwork(
                self.spec(),
                **{name: size for name, size in sizes.items() if size is not None},
                heads=self.heads,
                mixer=self.mixer,
                high_cycles=self.high_cycles,
                low_cycles=self.low_cycles,
                key=key,
            )

    def build(
        self,
        policy: "networks.ActorCritic",
        *,
        trust_code: bool = False,
        **given: Unpack[config.Given],
    ) -> "Supervised":
        from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork
        from hackmatrix_rl.algorithms.supervised._supervised import Supervised

        assert isinstance(policy, AnswerNetwork), "`policy` makes no other"
        return Supervised(
            self.examples().train,
            policy,
            global_batch_size=self.global_batch_size,
            supervision_steps=self.supervision_steps,
            halting=self.halting,
            halt_exploration=config.always_schedule(
                self.halt_exploration, steps=self.total_updates
            ),
            output_loss=self.output_loss,
            curriculum=self.curriculum(),
            optimization=self.optimization(given),
        )

    def rate(self) -> "agent.Schedule":
        """The learning rate as a schedule over the updates."""
        return config.always_schedule(self.learning_rate, steps=self.total_updates)

    def hooks(self, folder: Any, sink: Any) -> "list[training.Hook]":
        """The evaluation on the fresh puzzles, if `eval_interval` is not 0."""
        from hackmatrix_rl.algorithms.supervised._evaluation import EvaluateAnswers

        fresh = self.examples().fresh
        if fresh is None or not self.eval_interval:
            return []
        return [EvaluateAnswers(self.eval_interval, fresh, steps=self.supervision_steps)]

    def judge(self, policy: "networks.ActorCritic") -> tuple[str, Mapping[str, Any]] | None:
        """The results on the fresh puzzles; see `RunConfig.judge`."""
        from hackmatrix_rl.algorithms.supervised._evaluation import answers
        from hackmatrix_rl.algorithms.supervised._network import AnswerNetwork

        fresh = self.examples().fresh
        if fresh is None or not isinstance(policy, AnswerNetwork):
            return None
        found = answers(policy, fresh, steps=self.supervision_steps)
        return str(found), found.as_dict()

    def words(self, devices: int = 1) -> config.Words:
        """The puzzles, the batch, the recursion of the network, and the supervision steps."""
        more = self.level if self.task == "sudoku" else f"{self.openings} openings"
        puzzles = f"{self.puzzles:,}, {self.task} of {self.size} x {self.size}, {more}"
        fresh = f"; {self.eval_puzzles:,} fresh ones"
        least = "at most " if self.halting else ""
        updates, size = f"{self.total_updates:,} updates", self.global_batch_size
        share, grows = self.curriculum_recursion, ""
        if share is not None:
            grows = f", from {FIRST_HIGH} and {FIRST_LOW} over {share:g} of it"
        return config.Words(
            learning=f"a gradient step; {least}{self.supervision_steps} of them on a puzzle",
            length=f"{updates} of {size:,} puzzles at once",
            plan={
                "puzzles": f"{puzzles}{fresh}",
                "batch": f"{size:,}, {size // devices:,} on each device; "
                f"{self.supervision_steps} supervision steps",
                "recursion": f"{self.high_cycles} cycles of z_H, {self.low_cycles} of z_L{grows}",
                "learning": f"{self.output_loss}, {self.optimizer}; {updates}",
            },
            details=(
                f"Puzzles: {puzzles}{f'{fresh} for evaluation' if self.eval_puzzles else ''}",
            ),
        )
