"""Games move by move: played, replayed, and what an agent thinks of them."""

from hackmatrix_rl.view.replays._chosen import ChosenGame, choose_games, parse_choice, replays_of
from hackmatrix_rl.view.replays._match import Match, Mind, Moment, Opinion, Seed, game_seed
from hackmatrix_rl.view.replays._page import (
    Film,
    Json,
    opinion_data,
    page_of,
    rules_data,
    script_source,
    whole_page,
)
from hackmatrix_rl.view.replays._replay import MOST_MOVES, Replay
from hackmatrix_rl.view.replays._watch import GamePage, play_on, watch

__all__ = [
    "MOST_MOVES",
    "ChosenGame",
    "Film",
    "GamePage",
    "Json",
    "Match",
    "Mind",
    "Moment",
    "Opinion",
    "Replay",
    "Seed",
    "choose_games",
    "game_seed",
    "opinion_data",
    "page_of",
    "parse_choice",
    "play_on",
    "replays_of",
    "rules_data",
    "script_source",
    "watch",
    "whole_page",
]
