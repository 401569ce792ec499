"""Self-play against the loop of pgx's AlphaZero example, with equal game, batch, search, network.

    pip install pgx
    python benchmarks/alphazero_loop.py [--rounds 5] [--simulations 64] [--only NAME ...]

pgx's repository has an AlphaZero trainer as an example (examples/alphazero). An iteration plays in
one compiled scan, with the Gumbel MuZero policy of mctx and automatic resets; transfers the moves
to the host and shuffles them there; and calls a compiled gradient step for each minibatch, whose
losses it reads. `example` here is that loop, rewritten with this package's network instead of a
residual one, so both sides compute the same layers. `ours` is an update of `SelfPlay` on the same
game through pgx, and on boards of the clique game with a similar number of actions. Both sides make
the same number of moves and gradient steps, and run in turns.

`playing` is the speed of searched moves alone, `whole` that of full iterations with learning and
metrics, and `program` the share of the time in which a compiled program runs.
"""

import argparse
import statistics
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import optax
from self_play import board, network

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import evaluator_of
from hackmatrix_rl.algorithms.self_play import Search, SelfPlay
from hackmatrix_rl.algorithms.self_play._games import Games, play_moves
from hackmatrix_rl.env import Played, SingleGame, env_keys
from hackmatrix_rl.system import describe_device

# A game of pgx, and a board of the clique game with about as many actions.
PAIRS = {"connect_four": (6, 3), "othello": (12, 4), "go_9x9": (14, 4)}


class PgxGame(SingleGame[Any]):
    """A game of pgx for two players, as the player to move sees it."""

    env: Any = eqx.field(static=True)

    @property
    def num_actions(self) -> int:
        """As pgx says."""
        return int(self.env.num_actions)

    def start(self, *, key: Any) -> Any:
        """The first position."""
        return self.env.init(key)

    def observe(self, state: Any) -> Any:
        """What pgx shows to the player to move, as numbers."""
        return state.observation.astype(jnp.float32)

    def legal(self, state: Any) -> Any:
        """As pgx says."""
        return state.legal_action_mask

    def play(self, state: Any, action: Any, *, key: Any) -> Played:
        """A move; the reward is that of the player who makes it."""
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            after = self.env.step(state, action)
        return Played(after, after.rewards[state.current_player], after.terminated)


class Example:
    """The loop of pgx's example on one of its games."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        import pgx
        from pgx.experimental import auto_reset

        self.given, self.env = given, pgx.make(name)
        self.policy = network(PgxGame(self.env), given)
        self.optimizer = optax.adam(1e-3)
        self.state = self.optimizer.init(eqx.filter(self.policy, eqx.is_array))
        self.step = auto_reset(self.env.step, self.env.init)
        self.key = jax.random.key_data(jax.random.key(given.seed))
        self.play, self.learn = eqx.filter_jit(self._play), eqx.filter_jit(self._learn)

    def judge(self, policy: Any, states: Any) -> tuple[Any, Any]:
        """Masked logits and values of a batch."""
        evaluator = evaluator_of(policy)
        seen = states.observation.astype(jnp.float32)[None]
        done = jnp.zeros((1, seen.shape[1]), bool)
        logits, value = evaluator.unroll(seen, evaluator.policy.initial_carry(), done)
        least = jnp.finfo(logits.dtype).min
        return jnp.where(states.legal_action_mask, logits[0], least), value[0]

    def _play(self, policy: Any, key: Any) -> dict[str, Any]:
        games = self.given.at_once

        def imagine(policy: Any, key: Any, action: Any, states: Any) -> Any:
            player = states.current_player
            states = jax.vmap(self.env.step)(states, action)
            logits, value = self.judge(policy, states)
            going = jnp.where(states.terminated, 0.0, 1.0)
            reward = states.rewards[jnp.arange(games), player]
            found = mctx.RecurrentFnOutput(
                reward=reward, discount=-going, prior_logits=logits, value=value * going
            )
            return found, states

        def move(states: Any, key: Any) -> tuple[Any, dict[str, Any]]:
            search_key, reset_key = jax.random.split(key)
            logits, value = self.judge(policy, states)
            found = mctx.gumbel_muzero_policy(
                params=policy,
                rng_key=search_key,
                root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states),
                recurrent_fn=imagine,
                num_simulations=self.given.simulations,
                invalid_actions=~states.legal_action_mask,
                qtransform=mctx.qtransform_completed_by_mix_value,
            )
            keys = jax.random.split(reset_key, games)
            after = jax.vmap(self.step)(states, found.action, keys)
            return after, {
                "seen": states.observation,
                "legal": states.legal_action_mask,
                "weights": found.action_weights,
                "reward": after.rewards[jnp.arange(games), states.current_player],
                "ended": after.terminated,
            }

        first_key, key = jax.random.split(key)
        states = jax.vmap(self.env.init)(jax.random.split(first_key, games))
        _, moves = jax.lax.scan(move, states, jax.random.split(key, self.given.moves))

        def back(value: Any, move: dict[str, Any]) -> tuple[Any, Any]:
            value = move["reward"] - jnp.where(move["ended"], 0.0, value)
            return value, value

        _, moves["value"] = jax.lax.scan(back, jnp.zeros(games), moves, reverse=True)
        known = jnp.cumsum(moves["ended"][::-1].astype(jnp.int32), axis=0)[::-1] > 0
        return {**moves, "known": known}

    def _learn(self, policy: Any, state: Any, batch: dict[str, Any]) -> tuple[Any, Any, Any]:
        def loss(policy: Any) -> Any:
            evaluator = evaluator_of(policy)
            seen = batch["seen"].astype(jnp.float32)[None]
            done = jnp.zeros((1, seen.shape[1]), bool)
            logits, value = evaluator.unroll(seen, evaluator.policy.initial_carry(), done)
            log_probs = jax.nn.log_softmax(jnp.where(batch["legal"], logits[0], -1e9))
            of_policy = -jnp.mean(jnp.sum(batch["weights"] * log_probs, axis=-1))
            of_value = jnp.mean(jnp.where(batch["known"], (value[0] - batch["value"]) ** 2, 0.0))
            return of_policy + of_value, (of_policy, of_value)

        gradient, losses = eqx.filter_grad(loss, has_aux=True)(policy)
        updates, state = self.optimizer.update(gradient, state)
        return eqx.apply_updates(policy, updates), state, losses

    def playing(self) -> int:
        """Plays; the number of games that ended."""
        self.key, key = jax.random.split(self.key)
        return int(jax.block_until_ready(self.play(self.policy, key))["ended"].sum())

    def iteration(self) -> tuple[float, float]:
        """Seconds of an iteration, and those of them in a compiled program."""
        began = time.perf_counter()
        self.key, play_key, shuffle_key = jax.random.split(self.key, 3)
        moves = jax.block_until_ready(self.play(self.policy, play_key))
        computed = time.perf_counter() - began
        moves = jax.device_get(moves)
        flat = {name: each.reshape(-1, *each.shape[2:]) for name, each in moves.items()}
        order = np.asarray(jax.random.permutation(shuffle_key, flat["reward"].size))
        for part in order.reshape(-1, self.given.batch):
            batch = {name: each[part] for name, each in flat.items()}
            started = time.perf_counter()
            self.policy, self.state, losses = self.learn(self.policy, self.state, batch)
            jax.block_until_ready(losses)
            computed += time.perf_counter() - started
            _ = [float(each) for each in losses]
        return time.perf_counter() - began, computed


class Ours:
    """Updates of `SelfPlay`."""

    def __init__(self, game: Any, given: argparse.Namespace) -> None:
        self.given, self.game, self.search = given, game, Search(given.simulations)
        policy = network(game, given)
        algorithm = SelfPlay(
            game,
            policy,
            search=self.search,
            game_batch_size=given.at_once,
            moves_per_update=given.moves,
            buffer_size=given.at_once * given.moves,
            training_batch_size=given.batch,
            train_steps=given.at_once * given.moves // given.batch,
        )
        self.trainer = hm.Trainer(algorithm)
        self.trainer.start(jax.random.key(given.seed))
        self.trainer.compile()

        @eqx.filter_jit
        def play(policy: Any, games: Games, number: Any) -> Any:
            return play_moves(self.search, game, policy, games, number, given.moves)

        keys = env_keys(jax.random.key(given.seed), given.at_once)
        self.play, self.policy, self.games = play, policy, Games.start(game, keys)
        self.number = 0

    def playing(self) -> int:
        """Plays; the number of games that ended."""
        self.games, _, results = self.play(self.policy, self.games, np.int32(self.number))
        self.number += 1
        jax.block_until_ready(self.games)
        return int(results.games)

    def iteration(self) -> tuple[float, float]:
        """Seconds of an iteration, and those of them in a compiled program."""
        began = time.perf_counter()
        metrics = self.trainer.dispatch(1)
        metrics.as_dict()
        return time.perf_counter() - began, metrics.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=64, help="parallel games")
    parser.add_argument("--moves", type=int, default=64, help="moves of each game in an iteration")
    parser.add_argument("--simulations", type=int, default=64, help="simulations before each move")
    parser.add_argument("--batch", type=int, default=512, help="positions of a gradient step")
    parser.add_argument("--width", type=int, default=64, help="width of the network's two layers")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.depth = 2
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")
    print(f"{describe_device()}: medians (least to most) of {given.rounds} turns")
    print("| game | side | playing, moves/s | simulated positions/s | games/s | whole | program |")
    print("|---|---|---|---|---|---|---|")
    for name in given.only:
        import pgx

        vertices, clique = PAIRS[name]
        sides = {
            f"{name} | example": Example(name, given),
            f"{name} | ours": Ours(PgxGame(pgx.make(name)), given),
            f"n={vertices}, k={clique} | ours": Ours(board(vertices, clique), given),
        }
        moves = given.at_once * given.moves
        rows: dict[str, list[tuple[float, ...]]] = {side: [] for side in sides}
        for number in range(given.rounds + 1):
            for side, loop in sides.items():
                began = time.perf_counter()
                games = loop.playing()
                seconds = time.perf_counter() - began
                whole, computed = loop.iteration()
                if number:  # the first turn compiles
                    rows[side].append(
                        (moves / seconds, games / seconds, moves / whole, computed / whole)
                    )
        for side, figures in rows.items():
            played, ended, whole, share = (list(each) for each in zip(*figures, strict=True))
            told = f"{statistics.median(played):,.0f} ({min(played):,.0f} to {max(played):,.0f})"
            simulated = given.simulations * statistics.median(played)
            print(
                f"| {side} | {told} | {simulated:,.0f} | {statistics.median(ended):.1f} | "
                f"{statistics.median(whole):,.0f} | {statistics.median(share):.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
