"""The settings of self-play on the clique game: its fields are its flags."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast, final, no_type_check

from hackmatrix_rl import agent, env, evaluation, training
from hackmatrix_rl.agent import networks
from hackmatrix_rl.games import clique as cliques
from hackmatrix_rl.games.clique import FULL_BOARDS, OBJECTIVES, CliqueConfig
from hackmatrix_rl.runs import config
from hackmatrix_rl.system.errors import ConfigError, flag, in_flags
from hackmatrix_rl.training import sharding

if TYPE_CHECKING:
    from jaxtyping import Array, Key

    from hackmatrix_rl.algorithms.self_play._gating import Gate
    from hackmatrix_rl.algorithms.self_play._learning import Sizes
    from hackmatrix_rl.algorithms.self_play._search import PlayoutCap, Search
    from hackmatrix_rl.algorithms.self_play._self_play import SelfPlay

in_run = config.options_in("Run")
in_game = config.options_in("Game")
in_collecting = config.options_in("Collecting")
in_search = config.options_in("Search")
in_learning = config.options_in("Learning")
changed = partial(config.changed, config.RunConfig)

SETTINGS: Mapping[str, str] = {
    "clique_size": "k",
    "simulations": "fast_simulations",
    "full_share": "full_search_share",
    "games": "gate_games",
    "score": "gate",
}
"""Settings whose names differ from the arguments in Python, by argument."""
_BOARD = "it has learned on that board"
_ACCEPTED = "the network that plays is part of its state"


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig(config.RunConfig):
    """The settings of a training by self-play on the clique game; see `PPOConfig`."""

    algorithm: ClassVar[str] = "self-play"
    command: ClassVar[str] = "selfplay"
    counts: ClassVar[str] = "games"
    goal_by: ClassVar[str] = "num_games"
    summary: ClassVar[str] = "the clique game, with tree search"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "debug": {
            "vertices": 4,
            "opening": 1,
            "width": 16,
            "num_simulations": 4,
            "game_batch_size": 8,
            "moves_per_update": 4,
            "training_batch_size": 16,
            "train_steps": 2,
            "buffer_size": 96,
        }
    }
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        ("first_wins", "share of games won by the first player"),
        ("length", "moves per game"),
        ("policy_loss", "policy loss (nats)"),
        ("value_loss", "value loss"),
    )
    synonyms: ClassVar[Mapping[str, str]] = {
        "--minibatch-size": "--training-batch-size",
        "--num-envs": "--game-batch-size",
        "--num-steps": "--moves-per-update",
        "--total-timesteps": "--num-games",
    }
    loader: ClassVar[str] = "hm.load_self_play"
    two_players: ClassVar[bool] = True
    memory: ClassVar[tuple[str, ...]] = ("game_batch_size", "num_simulations", "buffer_size")

    # The run
    num_games: int = in_run(
        100_000,
        "Number of games to play; the run ends with the update that reaches it.",
        minimum=1,
        **config.most(2**63 - 1, "games are counted in 64 bits"),
    )
    league_size: int = in_run(
        5,
        "Snapshots of the network, evenly over the run, for the league at its end.",
        minimum=0,
        maximum=100,
    )
    league_games: int = in_run(
        100,
        "Games of each match of the league, an even number; 0: no league.",
        minimum=0,
        **config.most(1_000_000, "more do not tighten the interval usefully"),
    )

    # The game
    vertices: int = in_game(
        6,
        "Vertices of the complete graph whose edges the players colour.",
        minimum=CliqueConfig.SMALLEST,
        maximum=CliqueConfig.MAX_VERTICES,
        resume=_BOARD,
    )
    k: int = in_game(
        3,
        "Vertices of the clique that ends the game.",
        minimum=CliqueConfig.SMALLEST,
        maximum=CliqueConfig.MAX_CLIQUE,
        resume=_BOARD,
    )
    full_board: str = in_game(
        "draw", "Result of a full board without a clique.", choices=FULL_BOARDS, resume=_BOARD
    )
    objective: str = in_game(
        "form",
        "Result of completing a clique: form, its owner wins; avoid, its owner loses.",
        choices=OBJECTIVES,
        resume=_BOARD,
    )
    opening: int = in_game(
        4, "Maximum number of random opening moves in training games.", minimum=0
    )

    # Devices. Two devices of one thread each synchronize less than one device of two threads.
    cpu_devices: int | None = changed("cpu_devices", 2)

    # Collecting
    game_batch_size: int = in_collecting(64, "Number of parallel games.", minimum=1)
    moves_per_update: int = in_collecting(16, "Moves per game in an update.", minimum=1)

    # Search
    num_simulations: int = in_search(64, "Simulations of the search for each move.", minimum=1)
    simulations_second: int | None = in_search(
        None,
        "Simulations for the player who moves second, a handicap; none: --num-simulations.",
        minimum=1,
    )
    max_considered_actions: int = in_search(
        16, "Maximum number of moves that the search considers at the root.", minimum=1
    )
    full_search_share: float | None = in_search(
        None,
        "Share of moves with a full search; the others have --fast-simulations; none: all moves.",
        above=0,
        maximum=1,
    )
    fast_simulations: int | None = in_search(
        None, "Simulations of the moves without a full search (--full-search-share).", minimum=1
    )

    # The network
    network: str = changed(
        "network", "mlp", "mlp, residual, graph, or my_module:factory; without memory."
    )
    width: int | None = changed("width", 64)

    # Learning
    learning_rate: float | str = changed(
        "learning_rate",
        "linear:0.003:0.00015",
        "Learning rate; a number, or a schedule over the games.",
    )
    training_batch_size: int = in_learning(
        512, "Positions in the batch of a gradient step.", minimum=1
    )
    train_steps: int = in_learning(16, "Gradient steps per update.", minimum=1)
    buffer_size: int = in_learning(
        65_536,
        "Capacity of the buffer in positions, over all games; rounded down to whole updates.",
        minimum=1,
    )
    symmetries: bool = in_learning(
        True, "Augment positions by random permutations of the vertices."
    )
    vf_coef: float = in_learning(1.0, "Weight of the value loss.", minimum=0)
    surprise_weight: float = in_learning(
        0.0,
        "Share of a position's weight proportional to its policy surprise; 0: equal weights.",
        minimum=0,
        maximum=1,
    )
    value_mix: float = in_learning(
        0.0,
        "Share of the search value in the value target; 0: only the result of the game.",
        minimum=0,
        maximum=1,
    )
    gate: float | None = in_learning(
        None,
        "Score in a match at which the learner replaces the network that plays; none: no matches.",
        minimum=0,
        maximum=1,
        resume=_ACCEPTED,
    )
    gate_games: int | None = in_learning(
        None,
        "Games of each match of --gate, an even number.",
        minimum=2,
        **config.most(1_000_000, "more do not tighten the interval usefully"),
    )
    gate_interval: int | None = in_learning(None, "Updates between matches of --gate.", minimum=1)

    def check(self) -> None:
        super().check()
        if self.league_games % 2:
            raise ConfigError(
                f"--league-games {self.league_games}: must be even, since each player begins half "
                f"of them. Use --league-games {self.league_games + 1}."
            )
        self._check_together({"full_search_share": 0.25, "fast_simulations": 16})
        self._check_together({"gate": 0.55, "gate_games": 40, "gate_interval": 50})
        if self.batch * self.train_steps > config.COUNTED or self.batch > config.COUNTED:
            raise ConfigError(
                f"--game-batch-size {self.game_batch_size} x --moves-per-update "
                f"{self.moves_per_update} are too many moves in an update, which numbers them in "
                "32 bits. Use a smaller --game-batch-size."
            )
        lengths = sharding.parse_mesh(self.mesh) or {}
        with in_flags(SETTINGS):
            self.game()
            cap = self.playout_cap()
            if cap is not None:
                cap.check(self.search())
            self.gating()
            # Before the sizes, whose advice does not know the mesh.
            sharding.Blocks(
                *("game_batch_size", self.game_batch_size),
                *("training_batch_size", self.training_batch_size),
            ).check(
                environments="games", samples="positions", devices=sharding.devices_of_one(lengths)
            )
            self.sizes()
        if self.opening >= self.game().num_edges:
            raise ConfigError(
                f"--opening {self.opening}: leaves nothing of a board of "
                f"{self.game().num_edges} edges to play. Use fewer."
            )

    @property
    def goal(self) -> int:
        """The number of games to play."""
        return self.num_games

    @property
    def batch(self) -> int:
        """Moves in one update."""
        return self.game_batch_size * self.moves_per_update

    def shorten(self, updates: int) -> "SelfPlayConfig":
        """These settings, shortened to at least `updates` updates, without a league."""
        clique = self.k * (self.k - 1) - 1  # moves until the first player may have a clique
        shortest = max(1, clique - self.opening)
        games = updates * math.ceil(self.batch / shortest)
        return replace(self, num_games=games, league_games=0)

    def game(self) -> CliqueConfig:
        """The board and its variant."""
        return CliqueConfig(
            self.vertices,
            self.k,
            cast(cliques.FullBoard, self.full_board),
            cast(cliques.Objective, self.objective),
        )

    def search(self) -> "Search":
        """The search of the training."""
        from hackmatrix_rl.algorithms.self_play._search import Search

        return Search(
            self.num_simulations,
            max_considered_actions=self.max_considered_actions,
            simulations_second=self.simulations_second,
        )

    def playout_cap(self) -> "PlayoutCap | None":
        """The playout cap; `None`: every move has a full search."""
        from hackmatrix_rl.algorithms.self_play._search import PlayoutCap

        share, simulations = self.full_search_share, self.fast_simulations
        return None if share is None or simulations is None else PlayoutCap(share, simulations)

    def gating(self) -> "Gate | None":
        """The gate; `None`: the learner's network plays after each update."""
        from hackmatrix_rl.algorithms.self_play._gating import Gate

        score, games, interval = self.gate, self.gate_games, self.gate_interval
        if score is None or games is None or interval is None:
            return None
        return Gate(score, games=games, interval=interval)

    def _check_together(self, examples: Mapping[str, float]) -> None:
        """Raises a ConfigError if some but not all of these settings are given."""
        missing = [name for name in examples if getattr(self, name) is None]
        if not missing or len(missing) == len(examples):
            return
        given = next(name for name in examples if name not in missing)
        raise ConfigError(
            f"{flag(given)} {getattr(self, given)}: needs "
            f"{' and '.join(map(flag, missing))}, too. Use "
            f"{' '.join(f'{flag(name)} {examples[name]}' for name in missing)}, say."
        )

    def sizes(self) -> "Sizes":
        from hackmatrix_rl.algorithms.self_play._learning import Sizes

        return Sizes(**{each.name: getattr(self, each.name) for each in fields(Sizes)})

    @property
    def at_once(self) -> int:
        """Number of blocks of games; each gives equally many positions to a gradient step."""
        return self.sizes().in_blocks.number

    @classmethod
    def game_identity(cls, settings: Mapping[str, Any]) -> "env.GameIdentity":
        return env.clique_identity()

    def spec(self) -> "env.EnvSpec":
        return env.Batched(env.CliqueGame(self.game())).spec

    def policy(self, *, key: "Key[Array, '']", copies: int = 1) -> "networks.ActorCritic":
        return config.build_named(self, self.spec(), key=key, copies=copies)

    def build(
        self,
        policy: "networks.ActorCritic",
        *,
        trust_code: bool = False,
        **given: Unpack[config.Given],
    ) -> "SelfPlay":
        from hackmatrix_rl.algorithms.self_play._learning import SearchLoss
        from hackmatrix_rl.algorithms.self_play._self_play import SelfPlay

        return SelfPlay(
            env.CliqueGame(self.game()),
            policy,
            search=self.search(),
            symmetry=env.VertexPermutations(self.vertices) if self.symmetries else None,
            loss=SearchLoss(self.vf_coef, self.surprise_weight, self.value_mix),
            opening=self.opening,
            playout_cap=self.playout_cap(),
            gate=self.gating(),
            optimization=self.optimization(given),
            **asdict(self.sizes()),
        )

    def rate(self) -> "agent.Schedule":
        """The learning rate as a schedule over finished games."""
        return config.always_schedule(self.learning_rate, steps=self.num_games)

    def opponent(self, policy: "networks.ActorCritic") -> "evaluation.Opponent":
        """The network with the search of the training, without root noise."""
        from hackmatrix_rl.algorithms.self_play._opponent import opponent_of

        return opponent_of(env.CliqueGame(self.game()), policy, self.search())

    def check_algorithm(self, algorithm: "training.Algorithm[Any]", run: object) -> None:
        """Raises a ConfigError if the board of the algorithm differs."""
        from hackmatrix_rl.algorithms.self_play._self_play import SelfPlay

        if isinstance(algorithm, SelfPlay) and isinstance(algorithm.game, env.CliqueGame):
            board = asdict(algorithm.game.config)
            self.check_changes(run, {SETTINGS.get(name, name): board[name] for name in board})

    def hooks(self, folder: Any, sink: Any) -> "list[training.Hook]":
        """The hooks that store snapshots for the league, and full boards without a clique."""
        from hackmatrix_rl.algorithms.self_play._counterexamples import (
            Counterexamples,
            KeepColourings,
        )
        from hackmatrix_rl.algorithms.self_play._league import KeepForLeague, LeagueFolder

        league = LeagueFolder.from_run(folder.path, size=self.league_size, goal=self.num_games)
        board, first = self.game(), folder.process == 0
        kept = Counterexamples(folder.path, board, note=sink.note) if first else None
        return [KeepForLeague(league, writes=first, note=sink.note), KeepColourings(board, kept)]

    def words(self, devices: int = 1) -> config.Words:
        """The board, the games, the search, the gradient steps, and the matches."""
        full = "a draw" if self.full_board == "draw" else "the second player's"
        avoid = "" if self.objective == "form" else "; who completes a clique loses"
        games, fast, other, matches = self.game_batch_size, "", "", ""
        if self.full_search_share is not None:
            fast = f" of a share of {self.full_search_share:g}, {self.fast_simulations} of others"
        if self.simulations_second is not None:
            other = f" of the first player, {self.simulations_second} of the second"
        if self.gate is not None:
            every = f"a match of {self.gate_games} games every {self.gate_interval} updates"
            matches = f"; {every}, to be passed with {self.gate:g}"
        steps = f"{self.train_steps} gradient steps of {self.training_batch_size:,} positions"
        return config.Words(
            learning=f"{self.moves_per_update} moves in each game, then {steps}{matches}",
            plan={
                "board": f"n={self.vertices}, k={self.k}{avoid}; a full board is {full}",
                "games": f"{self.num_games:,}; {games:,} at once, {games // devices:,} on each "
                f"device; {self.moves_per_update} moves each between updates",
                "search": f"{self.num_simulations} simulations before each move{fast}{other}",
                "learning": f"{steps} an update, of the newest {self.buffer_size:,}{matches}",
            },
        )
