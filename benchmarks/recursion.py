"""Deep supervision of a recursive network, against a plain PyTorch loop.

    pip install torch && python benchmarks/recursion.py [--rounds 7] [--updates 4] [--json FILE]

Both learn the same 9 x 9 Sudokus with the same sizes, batch, loss, halting and AdamW, in float32
and without augmentation. The PyTorch loop is idiomatic eager code: modules, autograd, a Python loop
for the recursion. Each side is a process with all cores, and they run in turns. Times are those of
full updates, after two that are not measured. CPU time is that of all threads; memory is the peak
of the process, its libraries included.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from turns import Side, in_turns, medians, ratio, serve

SIZE, PUZZLES = 9, 256
WIDTH, DEPTH, HIGH, LOW = 128, 2, 3, 6
ROWS, SUPERVISION, EXPLORATION = 64, 16, 0.1
RATE, DECAY, CLIP, BETAS = 1e-4, 0.1, 1.0, (0.9, 0.95)


def ours() -> tuple[Callable[[int], object], int]:
    """A function that makes updates, and the number of parameters."""
    import equinox as eqx
    import jax

    import hackmatrix_rl as hm
    from hackmatrix_rl.algorithms.supervised import AnswerNetwork, Puzzle, Supervised
    from hackmatrix_rl.games.puzzles import ExampleStream, sudokus
    from hackmatrix_rl.training import named_optimizer

    made = sudokus(SIZE, PUZZLES, seed=0)
    examples = ExampleStream(made.inputs, made.labels, rows=SIZE, cols=SIZE, vocabulary=SIZE + 1)
    policy = AnswerNetwork(
        hm.Batched(Puzzle(examples)).spec,
        width=WIDTH,
        depth=DEPTH,
        high_cycles=HIGH,
        low_cycles=LOW,
        key=jax.random.key(0),
    )
    algorithm = Supervised(
        examples,
        policy,
        global_batch_size=ROWS,
        supervision_steps=SUPERVISION,
        halt_exploration=EXPLORATION,
        optimizer=named_optimizer("adamw", CLIP, beta2=0.95, weight_decay=DECAY),
        learning_rate=RATE,
    )
    trainer = hm.Trainer(algorithm)
    trainer.start(jax.random.key(1))
    trained = eqx.filter((policy.token, policy.first, policy.blocks, policy.heads), eqx.is_array)
    return trainer.dispatch, sum(leaf.size for leaf in jax.tree.leaves(trained))


def in_torch() -> tuple[Callable[[int], object], int]:
    """The same by a plain PyTorch loop."""
    import numpy as np
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits, silu

    from hackmatrix_rl.games.puzzles import sudokus

    examples = sudokus(SIZE, PUZZLES, seed=0)
    inputs, labels = (
        torch.from_numpy(np.asarray(each).astype(np.int64))
        for each in (examples.inputs, examples.labels)
    )
    torch.manual_seed(0)
    positions, tokens = 1 + SIZE * SIZE, SIZE + 1

    def normalized(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

    class SwiGLU(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.widen = nn.Linear(width, 6 * width, bias=False)
            self.narrow = nn.Linear(3 * width, width, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gate, value = self.widen(x).chunk(2, dim=-1)
            return self.narrow(silu(gate) * value)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.work = SwiGLU(positions), SwiGLU(WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = normalized(x + self.mix(x.transpose(1, 2)).transpose(1, 2))
            return normalized(x + self.work(x))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(tokens, WIDTH)
            self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
            self.label = nn.Linear(WIDTH, tokens, bias=False)
            self.halt = nn.Linear(WIDTH, 1)
            nn.init.constant_(self.halt.bias, -5.0)

        def cycle(
            self, seen: torch.Tensor, high: torch.Tensor, low: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            for _ in range(LOW):
                low = self.blocks(low + high + seen)
            return self.blocks(high + low), low

        def forward(
            self, x: torch.Tensor, high: torch.Tensor, low: torch.Tensor
        ) -> tuple[torch.Tensor, ...]:
            seen = torch.cat([self.first.expand(len(x), -1, -1), self.token(x)], dim=1)
            with torch.no_grad():
                for _ in range(HIGH - 1):
                    high, low = self.cycle(seen, high, low)
            high, low = self.cycle(seen, high, low)
            return self.label(high[:, 1:]), self.halt(high[:, 0])[:, 0], high.detach(), low.detach()

    def log_stablemax(x: torch.Tensor) -> torch.Tensor:
        share = torch.where(x >= 0, x + 1, 1 / (1 - x.clamp(max=0)))
        return torch.log(share / share.sum(-1, keepdim=True))

    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), RATE, BETAS, weight_decay=DECAY)
    start = [torch.randn(1, 1, WIDTH).expand(ROWS, positions, WIDTH) for _ in range(2)]
    high, low = start
    chosen = torch.randint(PUZZLES, (ROWS,))
    steps = torch.zeros(ROWS, dtype=torch.long)
    halted = torch.ones(ROWS, dtype=torch.bool)

    def updates(count: int) -> None:
        nonlocal high, low, chosen, steps, halted
        for _ in range(count):
            chosen = torch.where(halted, torch.randint(PUZZLES, (ROWS,)), chosen)
            high, low = (
                torch.where(halted[:, None, None], fresh, old)
                for fresh, old in zip(start, (high, low), strict=True)
            )
            steps = torch.where(halted, 0, steps) + 1
            logits, halt, high, low = network(inputs[chosen], high, low)
            right = labels[chosen]
            answer = -log_stablemax(logits).gather(-1, right[..., None]).mean()
            solved = (logits.argmax(-1) == right).all(-1)
            loss = answer + 0.5 * binary_cross_entropy_with_logits(halt, solved.float())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
            least = torch.where(
                torch.rand(ROWS) < EXPLORATION, torch.randint(2, SUPERVISION + 1, (ROWS,)), 0
            )
            halted = (steps >= SUPERVISION) | ((halt > 0) & (steps >= least))
            loss.item()

    return updates, sum(each.numel() for each in network.parameters())


SIDES: dict[str, Side] = {"this package": ours, "PyTorch": in_torch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--updates", type=int, default=4, help="updates of a turn")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        serve(SIDES[given.one], given.updates)
        return
    command = [__file__, "--updates", str(given.updates), "--one"]
    found = in_turns({name: [*command, name] for name in SIDES}, given.rounds)
    for name, row in found.items():
        seconds, cpu, peak = medians(row)
        print(
            f"{name}: {1 / seconds:.2f} updates/s, {cpu:.2f} s of CPU an update, "
            f"{peak / 2**20:,.0f} MiB at most, {row['parameters']:,} parameters, "
            f"first {row['first']:.0f} s"
        )
    mine, theirs = found.values()
    for place, what in enumerate(("time on the clock", "CPU time")):
        print(f"faster by {what}: {ratio(mine, theirs, place)}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
