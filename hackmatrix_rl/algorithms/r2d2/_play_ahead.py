"""Steps environments in Python in a separate thread while the device learns."""

import queue
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._acting import NewSteps
from hackmatrix_rl.algorithms.r2d2._r2d2 import R2D2, R2D2State
from hackmatrix_rl.system.errors import instance, whole
from hackmatrix_rl.training import Dispatch, Metrics

T = TypeVar("T")


def play_ahead(
    algorithm: R2D2,
    state: R2D2State,
    *,
    updates: int,
    ahead: int = 1,
    plays_on: jax.Device | None = None,
) -> Iterator[tuple[R2D2State, Metrics]]:
    """Trains while a thread collects the next steps, for environments that step in Python.

    In `Trainer`, the device waits while such environments step (`hm.from_gymnasium`,
    `hm.from_neurogym`). Here they step in a thread, while the device learns from the previous
    steps. The result does not depend on timing: update `n` learns from steps of the network after
    update `n - 1 - ahead`. The thread ends when the iterator is exhausted or closed.

    The algorithm must be on one device. `plays_on` is the device that chooses the actions; by
    default the CPU. An accelerator runs programs sequentially, so a program that waits for Python
    would block the gradient steps.

    Yields:
        The state after each update, and its metrics. The next update overwrites the arrays of the
        state; copy those that you keep.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a number is out of range, or the algorithm has several devices.
    """
    instance("algorithm", algorithm, R2D2, "hm.R2D2(environment, policy)")
    instance("state", state, R2D2State, "algorithm.init(key, policy)")
    updates, ahead = whole("updates", updates), whole("ahead", ahead, 0)
    if algorithm.mesh.size > 1:
        raise ValueError(
            f"algorithm has {algorithm.mesh.size} devices, but environments in Python step on one; "
            'use mesh=None or mesh="data=1"'
        )
    return _train(algorithm, state, updates, ahead, plays_on)


def _train(
    algorithm: R2D2, state: R2D2State, updates: int, ahead: int, plays_on: jax.Device | None
) -> Iterator[tuple[R2D2State, Metrics]]:
    # The state is donated, because the buffer is too large to copy in each update.
    learn = eqx.filter_jit(
        lambda new, state: algorithm.learn_from(state, new), donate="all-except-first"
    )
    state = _copied(state)
    player = _Player(algorithm, state, updates, ahead, plays_on)
    try:
        for _ in range(updates):
            began = time.perf_counter()
            state, report = learn(player.take(), state)
            player.give(state.learner.policy)
            report = jax.device_get(report)
            update, steps = int(state.update), int(state.env_steps)
            seconds = time.perf_counter() - began
            yield state, algorithm.metrics(report, Dispatch(1, update, steps, seconds, steps))
    finally:
        player.end()


class _Player:
    """The thread that acts, with a network that is `ahead` updates old."""

    def __init__(
        self,
        algorithm: R2D2,
        state: R2D2State,
        updates: int,
        ahead: int,
        plays_on: jax.Device | None,
    ) -> None:
        (self._learns_on,) = algorithm.mesh.devices.flat
        if plays_on is None and self._learns_on.platform == "cpu":
            plays_on = self._learns_on
        self._plays_on = jax.local_devices(backend="cpu")[0] if plays_on is None else plays_on
        axes = algorithm.mesh.axis_names
        mesh = Mesh(np.full([1] * len(axes), self._plays_on), axes)
        self._play = eqx.filter_jit(partial(algorithm.play, mesh=mesh))
        self._collector = _put(state.collector_state.games, self._plays_on)
        self._updates = updates
        self._policies: queue.Queue[ActorCritic | None] = queue.Queue()
        self._played: queue.Queue[NewSteps | BaseException] = queue.Queue()
        for _ in range(ahead + 1):
            self.give(state.learner.policy)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="play_ahead", daemon=True)
        self._thread.start()

    def give(self, policy: ActorCritic) -> None:
        """Queues the network for one more update."""
        self._policies.put(_put(_copied(policy), self._plays_on))

    def take(self) -> NewSteps:
        """The steps of the next update. Reraises an exception of the thread."""
        found = self._played.get()
        if isinstance(found, BaseException):
            raise found
        return _put(found, self._learns_on)

    def end(self) -> None:
        """Ends the thread after its current update."""
        self._ends.set()
        self._policies.put(None)  # wakes it
        self._thread.join()

    def _run(self) -> None:
        try:
            for _ in range(self._updates):
                policy = self._policies.get()
                if policy is None or self._ends.is_set():
                    return
                new = self._play(policy, self._collector)
                self._collector = new.collector
                self._played.put(jax.block_until_ready(new))
        except BaseException as error:  # `take` raises it
            self._played.put(error)


def _copied(tree: T) -> T:
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, tree)


def _put(tree: T, device: jax.Device) -> T:
    """The tree with its arrays on a device; arrays that are already there are not copied."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)
