"""Measures the tree search: its results, and the time of a move.

    python benchmarks/tree_search.py [--games 256] [--simulations 0 8 32 128]
        [--determinisations 1 4 8] [--share-at 32] [--chance-nodes 64] [--outcomes 4]
        [--playouts 32] [--seeds 1 2 3] [--league no-rewind]
    python benchmarks/tree_search.py --memory 1024 4096 --simulations 32 128

Every player plays the same games of each seed with `pretrained@1` as its network:

- with each number of simulations, and the default determinisations of `Searcher`;
- with `--share-at` simulations and each number of determinisations;
- with explicit chance nodes in one tree, `--chance-nodes` simulations, of which half are positions;
- a one-step lookahead with random playouts, with as many imagined steps as simulations.

Results are written to benchmarks/learning/tree_search.json after each player, and a measurement
that is stopped continues from there. Seconds per move are CPU time for all games in one batch,
without compilation; `taskset -c 0` measures one core. With `--memory` nothing is played: for each
number of games and simulations, a move of all games is compiled, and its memory printed.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, UInt32

import hackmatrix_rl as hm
from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import (
    Agent,
    Evaluation,
    StateAgent,
    Thought,
    mean_of,
    rate_of,
    read_by,
)
from hackmatrix_rl.games.hackmatrix import LEAGUES, NUM_ACTIONS
from hackmatrix_rl.search import HackMatrixModel, Trees
from hackmatrix_rl.system import enable_compilation_cache
from hackmatrix_rl.system.batching import flat_vmap, select
from hackmatrix_rl.training.compiled import program_bytes

FILE = Path(__file__).parent / "learning" / "tree_search.json"
SEEDS = (20_261_201, 20_261_202, 20_261_203)
"""Of the games; no training and no choice has used them."""
KEPT = ("won", "return", "stage", "length")


@final
class OnePly(StateAgent):
    """Takes the action with the highest return of a random playout.

    Attributes:
        model: the game.
        steps: imagined steps for a move, shared evenly by the legal actions.
    """

    model: HackMatrixModel
    steps: int

    def mismatch(self, environment: Environment) -> str | None:
        """As of the model."""
        return self.model.mismatch(environment)

    def think(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Plays one imagined game for each action."""
        legal = self.model.searched(mask)
        length = jnp.maximum(self.steps // jnp.maximum(jnp.sum(legal, dtype=jnp.int32), 1), 1)

        def playout(each: tuple[Array, Array, Array], shared: tuple[Any, Any, Array]) -> Array:
            (action, wanted, key), (model, game, length) = each, shared
            imagine_key, steps_key = jax.random.split(key)

            def step(number: Array, carry: tuple[Any, Array, Array, Array]) -> Any:
                state, action, total, over = carry
                step_key, draw_key = jax.random.split(jax.random.fold_in(steps_key, number))
                made = model.play(state, action, key=step_key)
                total = total + jnp.where(over, 0.0, made.reward)
                state = select(over, state, made.state)
                logits = jnp.where(model.legal(state), 0.0, -1e9)
                action = jax.random.categorical(draw_key, logits).astype(jnp.int32)
                return state, action, total, over | made.terminated

            start = model.imagine(game, key=imagine_key)
            first = (start, action, jnp.float32(0), ~wanted)
            return jax.lax.fori_loop(0, jnp.where(wanted, length, 0), step, first)[2]

        keys = jax.random.split(key, NUM_ACTIONS)
        actions = jnp.arange(NUM_ACTIONS, dtype=jnp.int32)
        shared = (self.model, observation, length)
        returns = flat_vmap(playout, (actions, legal, keys), shared)
        choice = jnp.argmax(jnp.where(legal, returns, -jnp.inf)).astype(jnp.int32)
        return jnp.where(legal.any(), choice, jnp.argmax(mask)).astype(jnp.int32), carry, Thought()


class ChanceNode(eqx.Module):
    """A position in a tree with explicit chance.

    Attributes:
        state: what the model plays; the real state at the root.
        value: what the network says of it, in units of reward.
        over: whether the game is over.
        root: whether it is the real state, whose unseen is still to be drawn.
    """

    state: Any
    value: Float32[Array, "*batch"]
    over: Bool[Array, "*batch"]
    root: Bool[Array, "*batch"]


class Chosen(eqx.Module):
    """An action that is chosen in a position, before its chance outcome."""

    node: ChanceNode
    action: Int32[Array, "*batch"]
    seed: UInt32[Array, "*batch"]


@final
class ChanceNodes(StateAgent):
    """MuZero search with explicit chance nodes, for comparison with several determinisations.

    Each action has `outcomes` equally likely chance outcomes; at the root, they include the hidden
    information. Every second simulation adds a chance node, and no new position.

    Source: Antonoglou et al. 2022, "Planning in stochastic environments with a learned model".

    Attributes:
        trees: have the model, the network, its units and the discount.
        simulations: nodes of the tree.
        outcomes: draws of chance after each action.
    """

    trees: Trees
    simulations: int = eqx.field(static=True)
    outcomes: int = eqx.field(static=True)

    def mismatch(self, environment: Environment) -> str | None:
        """As of the model."""
        return self.trees.model.mismatch(environment)

    def think(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Searches one tree."""
        draw_key, tree_key = jax.random.split(key)
        model = self.trees.model
        legal = model.searched(mask)
        network = self.trees.policy
        logits, value, _ = network(model.observe(observation), network.initial_carry())
        drawn = MaskedCategorical(logits, mask).sample(draw_key)
        logits = jnp.where(legal, logits, -1e9)
        value = self.trees.improvement.scale.denormalize(value.astype(jnp.float32))
        # The arrays of an imagined state, in which the drawn ones are put later.
        imagined = model.imagine(observation, key=tree_key)
        root = ChanceNode((observation, imagined), value, jnp.bool_(False), jnp.bool_(True))
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            output = mctx.stochastic_muzero_policy(
                (),
                tree_key,
                mctx.RootFnOutput(
                    prior_logits=logits[None],
                    value=value[None],
                    embedding=jax.tree.map(lambda leaf: leaf[None], root),
                ),
                self._choose,
                self._happen,
                self.simulations,
                invalid_actions=~legal[None],
                dirichlet_fraction=0.0,
                temperature=0.0,
            )
        choice = output.action[0].astype(jnp.int32)
        return jnp.where(legal[drawn], choice, drawn), carry, Thought()

    def _choose(self, _: Any, key: Array, actions: Array, nodes: ChanceNode) -> Any:
        """Mctx's `decision_recurrent_fn`: the draws are equally likely."""
        seeds = jax.random.bits(key, actions.shape, jnp.uint32)
        output = mctx.DecisionRecurrentFnOutput(
            chance_logits=jnp.zeros((len(actions), self.outcomes), jnp.float32),
            afterstate_value=nodes.value,
        )
        return output, Chosen(nodes, actions.astype(jnp.int32), seeds)

    def _happen(self, _: Any, key: Array, outcomes: Array, chosen: Chosen) -> Any:
        """Mctx's `chance_recurrent_fn`: the action, under one of the draws."""

        def one(outcome: Array, chosen: Chosen) -> tuple[Any, ChanceNode]:
            node, model = chosen.node, self.trees.model
            draw = jax.random.fold_in(jax.random.key(chosen.seed), outcome)
            unseen_key, play_key = jax.random.split(draw)
            real, state = node.state
            state = select(node.root, model.imagine(real, key=unseen_key), state)
            step = model.play(state, chosen.action, key=play_key)
            over = node.over | step.terminated
            after = select(node.over, state, step.state)
            prior = self.trees.judge(after)
            output = mctx.ChanceRecurrentFnOutput(
                action_logits=prior.logits,
                value=prior.value,
                reward=jnp.where(node.over, 0.0, step.reward),
                discount=jnp.where(over, 0.0, self.trees.gamma),
            )
            return output, ChanceNode((real, after), prior.value, over, jnp.bool_(False))

        return jax.vmap(one)(outcomes, chosen)


def players(given: argparse.Namespace, run: Any) -> Iterator[tuple[str, Agent]]:
    """What is measured, by name."""
    agent, environment = run.agent(), run.environment
    for simulations in given.simulations:
        if simulations == 0:
            yield "the network alone", agent
            continue
        player = hm.Searcher(agent, environment, simulations)
        trees = player.search.determinisations
        yield f"{simulations} simulations, {trees} determinisations", player
    for trees in given.determinisations:
        player = hm.Searcher(agent, environment, given.share_at, determinisations=trees)
        yield f"{given.share_at} simulations, {trees} determinisations", player
    for simulations in given.chance_nodes:
        trees = hm.Searcher(agent, environment, 1).search.trees
        for outcomes in given.outcomes:
            name = f"{simulations} simulations, {outcomes} outcomes of chance"
            yield name, ChanceNodes(trees, simulations, outcomes)
    for steps in given.playouts:
        yield f"one move ahead, {steps} random steps", OnePly(HackMatrixModel(environment), steps)


def measure(player: Agent, environment: Any, *, games: int, seed: int) -> dict[str, Any]:
    """The results of some games, one number for each, and the seconds of a move."""
    began: list[float] = []

    def note(finished: int, total: int) -> None:
        if not began:
            began.append(time.process_time())

    played: Evaluation = hm.evaluate(
        player,
        environment,
        episodes=games,
        key=jax.random.key(seed),
        num_envs=games,
        on_progress=note,
    )
    seconds = time.process_time() - began[0]
    moves = float(np.sum(played.values["length"]))
    kept = {name: [round(float(x), 2) for x in played.values[name]] for name in KEPT}
    return {"seed": seed, "seconds_a_move": seconds / moves, **kept}


def memory(player: Agent, environment: Any, games: int) -> int | None:
    """Bytes that the compiled move of some games needs, the games among them."""
    keys = jax.random.split(jax.random.key(0), games)

    def move(state: Any, timestep: Any, keys: Array) -> Array:
        read = read_by(player, timestep.observation, lambda: state.games)
        return jax.vmap(lambda seen, mask, key: player.act(seen, mask, (), key=key)[0])(
            read, timestep.mask, keys
        )

    state, timestep = jax.eval_shape(environment.reset, keys)
    return program_bytes(jax.jit(move).lower(state, timestep, keys).compile())


def line(name: str, parts: list[dict[str, Any]]) -> str:
    """A line of the table: means over all seeds with 95% intervals."""
    values = {each: np.concatenate([part[each] for part in parts]) for each in KEPT}
    won = rate_of(values["won"])
    cells = [name, f"{100 * won.mean:.1f} ({100 * won.low:.1f} to {100 * won.high:.1f})"]
    by_seed = ", ".join(f"{100 * np.mean(part['won']):.0f}" for part in parts)
    cells.append(by_seed)
    for each, digits in (("return", 0), ("stage", 2)):
        mean = mean_of(values[each])
        cells.append(f"{mean.mean:.{digits}f} ({mean.low:.{digits}f} to {mean.high:.{digits}f})")
    milliseconds = 1e3 * float(np.mean([part["seconds_a_move"] for part in parts]))
    return "| " + " | ".join([*cells, f"{milliseconds:.2f}", str(len(values["won"]))]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=256, help="games for each seed")
    parser.add_argument("--simulations", type=int, nargs="*", default=[0, 8, 32, 128])
    parser.add_argument("--determinisations", type=int, nargs="*", default=[1, 4, 8])
    parser.add_argument("--share-at", type=int, default=32)
    parser.add_argument("--playouts", type=int, nargs="*", default=[32])
    parser.add_argument("--chance-nodes", type=int, nargs="*", default=[64])
    parser.add_argument("--outcomes", type=int, nargs="*", default=[4])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--league", choices=LEAGUES, default=LEAGUES[0])
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--memory", type=int, nargs="*", default=[], metavar="GAMES")
    given = parser.parse_args()
    enable_compilation_cache()
    run = hm.load(f"pretrained@1/{given.league}")
    for games in given.memory:
        for simulations in filter(None, given.simulations):
            player = hm.Searcher(run.agent(), run.environment, simulations)
            needed = memory(player, run.environment, games)
            print(f"| {games:,} | {simulations} | {(needed or 0) / 2**20:,.0f} MiB |", flush=True)
    if given.memory:
        return
    found = json.loads(given.file.read_text()) if given.file.exists() else {}
    for name, player in players(given, run):
        parts = found.setdefault(f"{name} | {given.league}", [])
        for seed in given.seeds:
            if any(part["seed"] == seed for part in parts):
                continue
            parts.append(measure(player, run.environment, games=given.games, seed=seed))
            given.file.write_text(json.dumps(found) + "\n")
            print(line(name, parts), flush=True)
    for name, parts in found.items():
        print(line(name, parts))


if __name__ == "__main__":
    main()
