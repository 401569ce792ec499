"""The trainer: compiles the update of an algorithm once, and runs it repeatedly."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

import jax
import numpy as np
from etils import epath
from jax.sharding import Mesh
from jaxtyping import Array, Key

from hackmatrix_rl.agent import ValueScale, check_is_policy, check_policy_numbers
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment, check_pictures, hold_games, whole_games
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.system import is_process_zero
from hackmatrix_rl.system.errors import ConfigError, check_jax, check_key, finite, instance, whole
from hackmatrix_rl.training import _program as program
from hackmatrix_rl.training._ahead import CompilingAhead
from hackmatrix_rl.training._algorithm import (
    Algorithm,
    AlgorithmState,
    updates_until,
    updates_until_due,
)
from hackmatrix_rl.training._hooks import Callback, Hook, StopTraining, after_dispatch, check_hooks
from hackmatrix_rl.training._new_games import new_games_key, new_games_note, with_new_games
from hackmatrix_rl.training._population import Population, first_policy
from hackmatrix_rl.training._remarks import remarks
from hackmatrix_rl.training._report import Dispatch, Metrics
from hackmatrix_rl.training._tree_file import read_tree, write_tree
from hackmatrix_rl.training._utilization import Utilization
from hackmatrix_rl.training.compiled import program_bytes
from hackmatrix_rl.training.sharding import POPULATION, gather, on_device, place

TRAINING = "training state"
"""The kind of file that `Trainer.save` writes."""

A = TypeVar("A", bound=Algorithm[Any])


class Trainer(Generic[A]):
    """Trains a policy with an algorithm: compiles its update once, and runs it repeatedly.

        trainer = hm.Trainer(hm.PPO(environment, policy), updates_per_dispatch=10)

    Nothing is compiled and no random number is drawn before `train`, `fit`, `start` or `compile`.

    Attributes:
        algorithm: the algorithm.
        hooks: callbacks run between dispatches.
        updates_per_dispatch: number of updates in one call of the compiled program.
        member: the index of the member of a `Population` whose policy plays; initially 0.
    """

    def __init__(
        self,
        algorithm: A,
        *,
        hooks: Sequence[Hook | Callback] = (),
        updates_per_dispatch: int = 1,
        population: int | None = None,
        eager: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        report: Callable[[str], object] = warnings.warn,
    ) -> None:
        """Takes an algorithm, and checks its modules (see `Algorithm.check`).

        The policy must have parameters and finite outputs; see `check_policy`. Warnings name
        sequences that are shorter than `Environment.longest_dependence`, and layers that ignore the
        precision.

        Args:
            algorithm: `hm.PPO(environment, policy)`, or any other `Algorithm`. The training starts
                from its `initial_policy`.
            hooks: callbacks run between dispatches, in this order: `Hook` instances, or functions
                that are called as `function(trainer, metrics)` after each dispatch.
            updates_per_dispatch: number of updates in one call of the compiled program. Each call
                returns one `Metrics`.
            population: number of trainings in one program, each with its own key and the same
                initial weights; `None`: one training. The algorithm becomes
                `hm.Population(algorithm, population)`, where members may also differ.
            eager: whether to run each operation uncompiled, so breakpoints and `print` work in
                the loss. The environment stays compiled. It needs one device, and an algorithm
                that supports it, such as `PPO`.
            clock: a function that returns seconds, to measure durations.
            report: called with each warning.

        Raises:
            ConfigError: JAX has an unsupported setting (`JAX_ENABLE_X64`).
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the modules of the algorithm do not fit
                together.
        """
        check_jax(compiles=not eager)
        instance("algorithm", algorithm, Algorithm, "hm.PPO(environment, policy)")
        if population is not None:
            algorithm = cast(A, Population(algorithm, whole("population", population)))
        policy = algorithm.initial_policy
        check_is_policy(policy)
        if POPULATION in algorithm.mesh.axis_names and not isinstance(algorithm, Population):
            raise ValueError(
                "mesh has the axis population, and the algorithm is one training; use "
                "hm.Population(algorithm, size), or a mesh of data and fsdp"
            )
        if not eager:
            check_policy_numbers(first_policy(algorithm, policy), algorithm.environment.spec)
            algorithm.check(policy)
            for remark in remarks(algorithm):
                report(str(remark))
        check_pictures(algorithm.environment)
        self.algorithm = algorithm
        self.hooks = check_hooks(hooks)
        self.updates_per_dispatch = whole("updates_per_dispatch", updates_per_dispatch)
        self.member = 0
        self._policy = policy
        self._clock = clock
        self._eager = program.eager_program(algorithm) if eager else None
        self._state: AlgorithmState | None = None
        self._abstract: AlgorithmState | None = None
        self._starter: program.Starter | None = None
        self._program: program.Program | None = None
        self._compiled: program.CompiledProgram | None = None
        self._ahead: CompilingAhead | None = None

    @property
    def mesh(self) -> Mesh:
        """The mesh of devices that train."""
        return self.algorithm.mesh

    @property
    def environment(self) -> Environment:
        """The environment of the training, in which every game starts at its beginning."""
        return whole_games(self.algorithm.environment)

    @property
    def batch_size(self) -> int:
        """Environment steps of one update, over all environments."""
        return self.algorithm.steps_per_update

    @property
    def policy(self) -> ActorCritic:
        """A copy of the current policy on one device."""
        if self._state is None:
            return first_policy(self.algorithm, self._policy)
        return gather(self.algorithm.policy(self._state, **self._which), self.mesh)

    @property
    def value_scale(self) -> ValueScale | None:
        """A copy of the value scale; `None` without a trained value, or before the start."""
        if self._state is None:
            return None
        return gather(self.algorithm.value_scale_of(self._state, **self._which), self.mesh)

    @property
    def _which(self) -> dict[str, int]:
        """The argument that selects the member of a population."""
        return {"member": self.member} if isinstance(self.algorithm, Population) else {}

    @property
    def agent(self) -> PolicyAgent:
        """The current policy as a player; greedy if its algorithm says so."""
        greedy = self.algorithm.greedy
        return PolicyAgent(self.policy, greedy=greedy, value_scale=self.value_scale)

    @property
    def state(self) -> Any:
        """The complete state of the training. Set it to continue from another state.

        The next dispatch overwrites its arrays; copy those that you keep.

        Raises:
            ValueError: training has not started.
        """
        if self._state is None:
            raise ValueError("training has not started; call start(key) or train(..., key=key)")
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        placed = self.place(state)
        if self._state is None or program.sizes_of(placed) != program.sizes_of(self._state):
            self._program = None
        self._take(placed)

    def _take(self, state: AlgorithmState) -> None:
        """Sets the state. Games that Python holds for it stay open as long as it exists."""
        hold_games(state)  # before the previous state is released, which may hold them alone
        self._state = state

    def place(self, state: Any) -> Any:
        """A copy of a state, from the host or any mesh, on this trainer's mesh."""
        return place(state, self.algorithm.shardings(state))

    def abstract_state(self) -> Any:
        """The state of `start`, with a shape, dtype and sharding in place of each array."""
        if self._abstract is None:
            self._abstract = program.first_state(self.algorithm, self._policy)
        return self._abstract

    def start(self, key: Key[Array, "*members"], policy: ActorCritic | None = None) -> None:
        """Starts the training from the beginning, with `key` as the only source of randomness.

        A `Population` also takes an array with a key for each member. A `policy` replaces the
        algorithm's initial policy. It must have the same structure, and causes no recompilation.
        """
        members = self.algorithm.size if isinstance(self.algorithm, Population) else None
        check_key(key, members=members)
        if policy is not None:
            self._policy = policy
        if self._starter is None and self._ahead is not None:
            ready = self._ahead.starter()
            if ready is not None and ready.fits(self.algorithm, self._policy):
                self._starter = ready
        made = self.starter()(key, self.algorithm, self._policy)
        if self._state is None or program.sizes_of(made) != program.sizes_of(self._state):
            self._program = None
        self._take(made)

    def starter(self, key: Key[Array, "*members"] | None = None) -> program.Starter:
        """The program that makes the first state. With a `key` for `start`, it is compiled."""
        if self._starter is None:
            self._starter = program.Starter(self.algorithm, self._policy)
        if key is not None:
            self._starter.compile(key)
        return self._starter

    @property
    def compiled(self) -> bool:
        """Whether the program for the current state is compiled."""
        return self._program is not None

    def compile(self) -> float:
        """Compiles the program for the current state, unless it is already compiled.

        Returns:
            The duration in seconds.
        """
        began = self._clock()
        if self._program is None and self._eager is not None:
            self._program = self._eager
        if self._program is None:
            found = None if self._ahead is None else self._ahead.program()
            if found is None or not found.fits(self.algorithm, self.state):
                found = self.lower_program().compile()
            self._program, self._compiled = found.bind(self.algorithm, self.state), found
            self._ahead = None
        return self._clock() - began

    def compile_ahead(self, ahead: "CompilingAhead | None" = None) -> None:
        """Compiles the program in a background thread; `compile` waits for it and has its errors.

        `ahead` is a compilation that has begun elsewhere, of a trainer of the same settings; only
        the shapes of arrays are compared. By default, one begins here: of the program alone, for
        the shapes of the state of `start`. It does nothing where that is impossible; see
        `CompilingAhead.can`.
        """
        if ahead is None and CompilingAhead.can(self):
            ahead = CompilingAhead(lambda: (self, None))
        self._ahead = ahead

    def lower(self, platforms: tuple[str, ...] | None = None) -> jax.stages.Lowered:
        """The program of a dispatch, lowered but not compiled.

        It needs only the shapes of the state, so it works before the training has started.
        `platforms` are the platforms to lower for, such as `tpu`; by default the mesh's.
        """
        return self.trace().lower(lowering_platforms=platforms)

    def lower_program(self) -> program.LoweredProgram:
        """`lower` for the mesh's devices, with what `compile` needs."""
        state = self.abstract_state() if self._state is None else self._state
        return program.LoweredProgram.of(self.trace(), self.algorithm, state)

    def trace(self) -> jax.stages.Traced:
        """The program of a dispatch for the current state, or for its shapes before the start."""
        state = self.abstract_state() if self._state is None else program.shapes_of(self._state)
        return program.traced(self.algorithm, state)

    @property
    def eager(self) -> bool:
        """Whether each operation runs uncompiled."""
        return self._eager is not None

    def utilization(self) -> Utilization:
        """How much of the peak of its devices the training may use. Compiles the program.

        The peak of a CPU is measured, which takes a fraction of a second, once in a process.
        """
        self.compile()
        operations = None if self._compiled is None else self._compiled.operations
        return Utilization.of(operations, self.mesh)

    def program_memory(self) -> int | None:
        """Bytes of arguments, results and temporary arrays on each device, from the compiler.

        `None` if the backend does not report them.
        """
        self.compile()
        assert self._compiled is not None, "an eager trainer has no compiled program"
        return program_bytes(self._compiled.executable)

    def train(
        self,
        total_timesteps: int,
        *,
        key: Key[Array, "*members"] | None = None,
        hooks: Sequence[Hook | Callback] = (),
    ) -> Iterator[Metrics]:
        """Trains, and yields the metrics of each dispatch.

        Args:
            total_timesteps: total of environment steps, over all environments and since the start
                of training, rounded up to full updates. An algorithm may measure its `progress` in
                another unit: finished games for `SelfPlay`.
            key: starts the training from the beginning; `None` continues from `state`.
            hooks: more hooks for this call, after the trainer's own.

        Returns:
            A lazy iterator over the metrics of each dispatch: a dispatch runs when its metrics are
            requested. `fit` runs all of them.

        Raises:
            TypeError: the total is not a number, the key is not a random key, or a hook is
                neither a `Hook` nor a function.
            ValueError: there is no state to continue from and no key, or the total is less
                than 1.
        """
        every = (*self.hooks, *check_hooks(hooks))
        if finite("total_timesteps", total_timesteps) < 1:
            raise ValueError(f"total_timesteps must be at least 1, not {total_timesteps}")
        if key is not None:
            self.start(key)
        elif self._state is None:
            raise ValueError("train needs a key to start with: train(..., key=jax.random.key(0))")
        return self._train(total_timesteps, every)

    def _train(self, goal: int, hooks: Sequence[Hook]) -> Iterator[Metrics]:
        """The loop of every training, in a notebook and on the command line."""
        with ExitStack() as leaving:
            for hook in hooks:
                leaving.callback(hook.on_exit, self)
            for hook in hooks:
                hook.on_start(self)
            stop = False
            while not stop:
                try:
                    for hook in hooks:
                        hook.before_dispatch(self)
                except StopTraining:
                    return
                if (missing := updates_until(self.algorithm, self.state, goal)) <= 0:
                    break
                due = [hook.updates_until_due(self) for hook in hooks]
                due.append(updates_until_due(self.algorithm, self.state))
                limits = [missing, self.updates_per_dispatch, *(each for each in due if each)]
                metrics, stop = after_dispatch(hooks, self, self.dispatch(min(limits)))
                yield metrics
            if not stop:
                for hook in reversed(hooks):
                    hook.on_end(self)

    def fit(
        self,
        total_timesteps: int,
        *,
        key: Key[Array, "*members"] | None = None,
        hooks: Sequence[Hook | Callback] = (),
    ) -> Metrics | None:
        """Trains until `total_timesteps` in one call: `train` with hooks instead of a loop.

        Args:
            total_timesteps: see `train`.
            key: see `train`.
            hooks: see `train`.

        Returns:
            The metrics of the last dispatch; `None` if the total was already reached.

        Raises:
            TypeError: see `train`.
            ValueError: see `train`.
        """
        last = None
        for metrics in self.train(total_timesteps, key=key, hooks=hooks):
            last = metrics
        return last

    def save(self, path: epath.PathLike) -> None:
        """Writes the complete state of the training into one file, for `load`.

        The file does not contain the modules: compose the trainer before you call `load`. With
        several processes, each must call `save`, and process 0 writes. An existing file is replaced
        atomically.

        Raises:
            ValueError: training has not started.
            OSError: the file cannot be written.
        """
        write_tree(path, TRAINING, self.state, to_host=self.to_host, write=is_process_zero())

    def to_host(self, leaf: jax.Array) -> np.ndarray:
        """An array of the state in this process's memory; all processes of a mesh must call it."""
        leaf = on_device(leaf)
        return np.asarray(leaf if leaf.is_fully_addressable else gather(leaf, self.mesh))

    def load(
        self, path: epath.PathLike, *, report: Callable[[str], object] = warnings.warn
    ) -> None:
        """Reads the state that `save` wrote. The training continues bit for bit.

        The file must be from a trainer with the same environment, policy, optimizer and sizes. The
        number of devices may differ. The random keys keep the generator of the saved training. If
        the environment steps in Python (`Environment.pure` is false), the file does not contain its
        games: new ones start, and `report` is called with a message.

        Raises:
            ConfigError: the file does not exist, is damaged, or does not match this trainer; the
                message names the array.
        """
        stored = read_tree(path, TRAINING)
        generators = {*stored.keys.values()}
        generator = generators.pop() if len(generators) == 1 else None
        like = program.first_state(self.algorithm, self._policy, generator)
        if (wrong := stored.mismatch(like, stored="the file", here="the modules here")) is not None:
            raise ConfigError(f"{path}: does not fit this trainer: {wrong}.")
        state, reinit_fields = stored.fill(like), self.algorithm.reinit_fields
        if self.environment.pure:
            self.state = state
            return
        self.start(new_games_key(state, reinit_fields))
        self.state = with_new_games(state, self.state, reinit_fields)
        report(new_games_note(state, reinit_fields))

    def dispatch(self, updates: int) -> Metrics:
        """Runs `updates` updates in one call of the compiled program."""
        self.compile()
        assert self._program is not None
        began = self._clock()
        state, sums = self._program(self.state, updates)
        self._take(state)
        sums = jax.device_get(sums)
        metrics = self.algorithm.metrics(
            sums,
            Dispatch(
                count=updates,
                updates=int(self.state.update),
                env_steps=int(self.state.env_steps),
                seconds=self._clock() - began,
                progress=self.algorithm.progress(self.state),
            ),
        )
        return replace(metrics, dispatched=updates)
