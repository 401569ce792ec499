"""Sequence-replay Q-learning, against a plain PyTorch loop.

    pip install torch && python benchmarks/sequence_replay.py [--rounds 5] [--json FILE]

Both learn go/no-go with a GRU of the same sizes: 64 sequences of 10 steps from a replay buffer,
with the recurrent state stored at their start; double Q-learning with dueling heads and a target
network, Adam. There is one gradient step for each `train_freq` steps. The PyTorch loop is idiomatic
eager code: an environment in NumPy that acts step by step, modules, autograd; the sequences of a
gradient step sequentially, or as a batch. Each row is a process, and they run in turns. Figures are
environment steps per second.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from turns import Side, in_turns, medians, ratio, serve

WIDTH, SEQUENCES, LENGTH, CAPACITY = 64, 64, 10, 32_768
GAMMA, EPSILON, RATE, CLIP, TARGET_UPDATE = 0.97, 0.1, 1e-3, 0.5, 100
GAMES = 8
"""Environments of ours, and gradient steps of an update of each side."""
FREQUENCIES = (1, 4, 8)


def ours(train_freq: int, devices: int) -> tuple[Callable[[int], object], int]:
    """A function that makes updates, and the number of parameters."""
    import equinox as eqx
    import jax

    import hackmatrix_rl as hm
    from hackmatrix_rl.agent import IDENTITY_SCALE

    environment = hm.Batched(hm.GoNoGo())
    policy = hm.GRUActorCritic(environment.spec, width=WIDTH, key=jax.random.key(0))
    algorithm = hm.R2D2(
        environment,
        policy,
        gamma=GAMMA,
        n_step=1,
        value_scale=IDENTITY_SCALE,
        num_envs=GAMES,
        train_freq=train_freq,
        train_steps=GAMES,
        buffer_size=CAPACITY,
        sequence_length=LENGTH,
        sequence_batch_size=SEQUENCES,
        target_update=TARGET_UPDATE,
        learning_rate=RATE,
        mesh=f"data={devices}",
    )
    trainer = hm.Trainer(algorithm)
    trainer.start(jax.random.key(1))
    return trainer.dispatch, sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(policy, eqx.is_array))
    )


def in_torch(train_freq: int, batched: bool) -> tuple[Callable[[int], object], int]:
    """The same by a plain PyTorch loop, with the sequences as a batch or sequentially."""
    import copy

    import numpy as np
    import torch
    from torch import nn
    from torch.nn.functional import mse_loss

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.cell = nn.Linear(3, WIDTH), nn.GRUCell(WIDTH, WIDTH)
            self.advantage, self.value = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

        def forward(self, seen: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
            memory = self.cell(torch.relu(self.embed(seen)), memory)
            advantage = self.advantage(memory)
            return self.value(memory) + advantage - advantage.mean(-1, keepdim=True), memory

    class GoNoGo:
        """Five steps of a sign, five of a delay, at most five to decide in."""

        def reset(self) -> np.ndarray:
            self.step_number, self.go = 0, random.random() < 0.5
            return self.seen()

        def seen(self) -> np.ndarray:
            fixate, sign = self.step_number < 10, self.step_number < 5
            return np.array([fixate, sign and not self.go, sign and self.go], np.float32)

        def step(self, action: int) -> tuple[np.ndarray, float, bool]:
            deciding = self.step_number >= 10
            self.step_number += 1
            reward, done = 0.0, False
            if deciding and action == 1:
                reward, done = (1.0 if self.go else -0.5), True
            elif self.step_number == 15:
                reward, done = (-0.5 if self.go else 0.0), True
            return self.seen(), reward, done

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    network = Network()
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    environment = GoNoGo()
    observations = np.zeros((CAPACITY, 3), np.float32)
    actions = np.zeros(CAPACITY, np.int64)
    rewards, dones = np.zeros(CAPACITY, np.float32), np.zeros(CAPACITY, bool)
    memories = np.zeros((CAPACITY, WIDTH), np.float32)
    seen, memory = environment.reset(), torch.zeros(1, WIDTH)
    steps = learned = 0

    def act() -> None:
        nonlocal seen, memory, steps
        with torch.no_grad():
            values, after = network(torch.from_numpy(seen)[None], memory)
        explores = random.random() < EPSILON
        action = int(random.integers(2)) if explores else int(values.argmax())
        following, reward, done = environment.step(action)
        place = steps % CAPACITY
        observations[place], actions[place], memories[place] = seen, action, memory.numpy()[0]
        rewards[place], dones[place] = reward, done
        seen, memory = (environment.reset(), torch.zeros(1, WIDTH)) if done else (following, after)
        steps += 1

    def values_of(by: Network, places: np.ndarray) -> torch.Tensor:
        """Q-values of sequences, step by step; the memory is reset after the end of a game."""
        memory, found = torch.from_numpy(memories[places[:, 0]]), []
        for number in range(places.shape[1]):
            at = places[:, number]
            values, memory = by(torch.from_numpy(observations[at]), memory)
            memory = torch.where(torch.from_numpy(dones[at])[:, None], 0.0, memory)
            found.append(values)
        return torch.stack(found, dim=1)

    def loss_of(places: np.ndarray) -> torch.Tensor:
        online = values_of(network, places)
        with torch.no_grad():
            other = values_of(target, places)
            best = online[:, 1:].argmax(-1, keepdim=True)
            following = other[:, 1:].gather(-1, best)[..., 0]
            at = places[:, :-1]
            goes_on = 1.0 - torch.from_numpy(dones[at]).float()
            wanted = torch.from_numpy(rewards[at]) + GAMMA * goes_on * following
        value = online[:, :-1].gather(-1, torch.from_numpy(actions[at])[..., None])[..., 0]
        return 0.5 * mse_loss(value, wanted)

    def learn() -> None:
        nonlocal learned
        first = random.integers(min(steps, CAPACITY) - LENGTH - 1, size=SEQUENCES)
        places = (steps - min(steps, CAPACITY) + first[:, None] + np.arange(LENGTH + 1)) % CAPACITY
        optimizer.zero_grad()
        for part in [places] if batched else np.split(places, SEQUENCES):
            (loss_of(part) * len(part) / SEQUENCES).backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        learned += 1
        if learned % TARGET_UPDATE == 0:
            target.load_state_dict(network.state_dict())

    def updates(count: int) -> None:
        for _ in range(count * GAMES):
            for _ in range(train_freq):
                act()
            learn()

    while steps < 4 * LENGTH:
        act()
    return updates, sum(each.numel() for each in network.parameters())


def sides(train_freq: int) -> dict[str, tuple[Side, int, int]]:
    """By name: a side, updates of a turn, and its number of devices."""
    of = {
        f"this package, devices {number}": (partial(ours, train_freq, number), 64, number)
        for number in (1, 2, 8)
    }
    of["PyTorch, batched"] = (partial(in_torch, train_freq, True), 4, 1)
    of["PyTorch, one at a time"] = (partial(in_torch, train_freq, False), 1, 1)
    return of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each row")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        side, updates, _ = sides(int(given.one[1]))[given.one[0]]
        serve(side, updates)
        return
    kept = {}
    print("| train_freq | row | steps/s | as fast as one at a time | by CPU time | parameters |")
    print("|---|---|---|---|---|---|")
    for frequency in FREQUENCIES:
        rows = sides(frequency)
        found = in_turns(
            {name: [__file__, "--one", name, str(frequency)] for name in rows},
            given.rounds,
            {
                name: {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
                for name, (_, _, devices) in rows.items()
            },
        )
        base = found["PyTorch, one at a time"]
        for name, row in found.items():
            speed = GAMES * frequency / medians(row)[0]
            cells = (ratio(row, base), ratio(row, base, 1), f"{row['parameters']:,}")
            print(f"| {frequency} | {name} | {speed:,.0f} | {' | '.join(cells)} |", flush=True)
        kept[frequency] = found
    if given.json:
        given.json.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
