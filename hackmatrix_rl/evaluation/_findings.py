"""Statistics of the moves of many games: where games end and why, and the use of each tool."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hackmatrix_rl.evaluation._estimate import Estimate, mean_of, rate_of
from hackmatrix_rl.evaluation._journal import Journal
from hackmatrix_rl.games.hackmatrix import FIRST_PROGRAM, LAST_STAGE, SIPHON, EnemyType, Program

AFTERMATH = 10
"""Number of moves after a siphon or a program that its statistics include."""
BINS = 10
"""Number of groups of a calibration, each with as many moves."""


@dataclass(frozen=True)
class Stage:
    """Survival statistics of a stage."""

    stage: int  #: 1 to 8.
    reached: int  #: Number of games that reached it.
    completed: Estimate  #: Share of these that completed it, with its interval.
    hp: float  #: Mean hp at its start.
    moves: float  #: Mean number of moves in it.
    deaths: int  #: Number of games that ended in it by death.


@dataclass(frozen=True)
class Cause:
    """A cause of death."""

    attackers: str  #: The types of the enemies next to the player at the end, as text.
    deaths: int  #: Number of games.
    share: float  #: Share of all deaths.
    stage: float  #: Mean stage of these deaths.
    after_siphon: float  #: Share of them at most `AFTERMATH` moves after a siphon in the stage.
    from_siphon: float  #: Share of them with an attacker that a siphon had called.


@dataclass(frozen=True)
class Tool:
    """The effects of siphons or of one program."""

    name: str  #: Name of the action.
    a_game: float  #: Mean number of uses per game.
    games: float  #: Share of the games that used it at all.
    won_if_used: float  #: Share of the games won among those that used it; NaN if none did.
    won_if_not: float  #: Share of the games won among the others; NaN if there are none.
    hp_after: float  #: Mean change of hp over the move and the next `AFTERMATH`.
    kills_after: float  #: Mean kills over the same moves.
    died_after: float  #: Share of the uses with a death in the same moves.


@dataclass(frozen=True)
class Siphons:
    """The yields of siphons in one stage."""

    stage: int  #: 1 to 8.
    a_game: float  #: Mean number of siphons per game that reached the stage.
    points: float  #: Mean score per siphon.
    credits: float  #: Mean credits per siphon.
    energy: float  #: Mean energy per siphon.
    programs: float  #: Mean number of new programs per siphon.
    called: float  #: Mean number of called transmissions per siphon.
    died_after: float  #: Share of the siphons with a death in the move or the next `AFTERMATH`.


@dataclass(frozen=True)
class Points:
    """The points gained in one stage, and those left behind in it."""

    stage: int  #: 1 to 8.
    gained: float  #: Mean change of the score in it, among the games that reached it.
    #: Mean number of data siphons in hand when a game completed it; NaN if none did.
    siphons_held: float
    #: Mean of `Moves.points_left` when a game completed it; NaN if none did.
    left: float


@dataclass(frozen=True)
class Undo:
    """The ownership and use of UNDO."""

    owned: float  #: Share of the games that owned it at some time.
    a_game: float  #: Mean number of uses per game.
    after_stage_change: float  #: Share of the uses right after a stage change.
    won_if_owned: float  #: Share of the games won among those that owned it; NaN if none did.
    won_if_not: float  #: Share of the games won among the others; NaN if there are none.


@dataclass(frozen=True)
class Calibration:
    """Predictions against outcomes, over groups of moves with similar predictions."""

    told: tuple[float, ...]  #: Mean prediction of each group.
    happened: tuple[float, ...]  #: Mean outcome of each group.
    moves: tuple[int, ...]  #: Number of moves in each group.


@dataclass(frozen=True)
class Findings:
    """The results of an analysis."""

    games: int  #: Number of games.
    total_reward: Estimate  #: Mean return.
    score: Estimate  #: Mean score at the end.
    won: Estimate  #: Share of the games won.
    stages: tuple[Stage, ...]  #: One for each stage that was reached.
    causes: tuple[Cause, ...]  #: Causes of death, the most frequent first.
    tools: tuple[Tool, ...]  #: SIPHON and each program that was used.
    siphons: tuple[Siphons, ...]  #: One for each stage with a siphon.
    points: tuple[Points, ...]  #: One for each stage that was reached.
    taken: Mapping[str, int]  #: How many games took each program, by name.
    undo: Undo  #: Ownership and use of UNDO.
    #: Calibration of the value against the discounted return; `None` without a value.
    value: Calibration | None
    win_probability: Calibration | None  #: Calibration against victories; `None` without one.

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        return _plain(asdict(self))


def find(journal: Journal, *, gamma: float = 1.0) -> Findings:
    """Computes the findings from the moves of a journal.

    Values are compared with the return discounted by `gamma`: use the gamma of the training.
    """
    moves = journal.moves
    return Findings(
        games=journal.games,
        total_reward=mean_of(_by_game(journal, moves.reward)),
        score=mean_of(_by_game(journal, moves.points)),
        won=rate_of(journal.won),
        stages=tuple(_stages(journal)),
        causes=tuple(_causes(journal)),
        tools=tuple(_tools(journal)),
        siphons=tuple(_siphons(journal)),
        points=tuple(_points(journal)),
        taken=_taken(journal),
        undo=_undo(journal),
        value=_calibration(moves.value, _returns(journal, gamma)),
        win_probability=_calibration(
            moves.win_probability, journal.won[journal.game].astype(float)
        ),
    )


def _stages(journal: Journal) -> Iterator[Stage]:
    moves = journal.moves
    for stage in range(1, LAST_STAGE + 1):
        here = moves.stage == stage
        games, first = np.unique(journal.game[here], return_index=True)
        if not len(games):
            return
        completed = np.bincount(journal.game[here & moves.completed], minlength=journal.games) > 0
        died = here & moves.died
        yield Stage(
            stage=stage,
            reached=len(games),
            completed=rate_of(completed[games]),
            hp=float(np.mean(moves.hp[here][first])),
            moves=float(here.sum() / len(games)),
            deaths=int(died.sum()),
        )


def _causes(journal: Journal) -> Iterator[Cause]:
    moves = journal.moves
    last = journal.last[journal.died]
    if not len(last):
        return
    since = _since(journal, moves.action == SIPHON)[last]
    words = np.array([_in_words(each) for each in moves.attackers[last]])
    names, counts = np.unique(words, return_counts=True)
    for name, count in sorted(zip(names, counts, strict=True), key=lambda pair: -pair[1]):
        chosen = words == name
        yield Cause(
            attackers=str(name),
            deaths=int(count),
            share=float(count / len(last)),
            stage=float(np.mean(moves.stage[last][chosen])),
            after_siphon=float(np.mean(since[chosen] <= AFTERMATH)),
            from_siphon=float(np.mean(moves.from_siphon[last][chosen] > 0)),
        )


def _in_words(attackers: np.ndarray) -> str:
    """The enemies by type, such as "2 virus, daemon"."""
    counts = zip(EnemyType, attackers.tolist(), strict=True)
    parts = [f"{n} {kind.name.lower()}".removeprefix("1 ") for kind, n in counts if n]
    return ", ".join(parts) or "nobody near"


def _tools(journal: Journal) -> Iterator[Tool]:
    actions = journal.moves.action
    names = {SIPHON: "siphon"} | {FIRST_PROGRAM + each: each.name for each in Program}
    for action, name in names.items():
        used = actions == action
        if not used.any():
            continue
        games = np.bincount(journal.game[used], minlength=journal.games) > 0
        hp, kills, died = _aftermath(journal, np.flatnonzero(used))
        yield Tool(
            name=name,
            a_game=float(used.sum() / journal.games),
            games=float(games.mean()),
            won_if_used=_share(journal.won[games]),
            won_if_not=_share(journal.won[~games]),
            hp_after=float(hp.mean()),
            kills_after=float(kills.mean()),
            died_after=float(died.mean()),
        )


def _siphons(journal: Journal) -> Iterator[Siphons]:
    moves = journal.moves
    for stage in range(1, LAST_STAGE + 1):
        here = moves.stage == stage
        used = np.flatnonzero(here & (moves.action == SIPHON))
        if not len(used):
            continue
        yield Siphons(
            stage=stage,
            a_game=len(used) / len(np.unique(journal.game[here])),
            points=float(np.mean(moves.points[used])),
            credits=float(np.mean(moves.credits_change[used])),
            energy=float(np.mean(moves.energy_change[used])),
            programs=float(np.mean(np.bitwise_count(moves.taken[used]))),
            called=float(np.mean(moves.called[used])),
            died_after=float(_aftermath(journal, used)[2].mean()),
        )


def _points(journal: Journal) -> Iterator[Points]:
    moves = journal.moves
    for stage in range(1, LAST_STAGE + 1):
        here = moves.stage == stage
        if not here.any():
            return
        left = here & moves.completed
        yield Points(
            stage=stage,
            gained=float(moves.points[here].sum() / len(np.unique(journal.game[here]))),
            siphons_held=_share(moves.data_siphons[left]),
            left=_share(moves.points_left[left]),
        )


def _by_game(journal: Journal, values: np.ndarray) -> np.ndarray:
    return np.bincount(journal.game, weights=values, minlength=journal.games)


def _taken(journal: Journal) -> dict[str, int]:
    siphoned = journal.moves.action == SIPHON
    taken = np.where(siphoned, journal.moves.taken, 0)
    counts = {each.name: len(np.unique(journal.game[(taken >> each) & 1 == 1])) for each in Program}
    return {name: n for name, n in sorted(counts.items(), key=lambda pair: -pair[1]) if n}


def _undo(journal: Journal) -> Undo:
    moves = journal.moves
    used = moves.action == FIRST_PROGRAM + Program.UNDO
    has = (moves.programs >> Program.UNDO) & 1 == 1
    owners = np.bincount(journal.game[has], minlength=journal.games) > 0
    return Undo(
        owned=float(owners.mean()),
        a_game=float(used.sum() / journal.games),
        after_stage_change=_share(moves.new_stage[used]),
        won_if_owned=_share(journal.won[owners]),
        won_if_not=_share(journal.won[~owners]),
    )


def _calibration(predicted: np.ndarray, happened: np.ndarray) -> Calibration | None:
    known = ~np.isnan(predicted)
    if not known.any():
        return None
    order = np.argsort(predicted[known], kind="stable")
    groups = [group for group in np.array_split(order, BINS) if len(group)]
    return Calibration(
        told=tuple(float(predicted[known][group].mean()) for group in groups),
        happened=tuple(float(happened[known][group].mean()) for group in groups),
        moves=tuple(len(group) for group in groups),
    )


def _returns(journal: Journal, gamma: float) -> np.ndarray:
    """The return after each move: the discounted sum of learned rewards to the game's end."""
    rewards = np.asarray(journal.moves.learned_reward, np.float64)
    ends = np.zeros(len(rewards), bool)
    ends[journal.last] = True
    returns = np.zeros(len(rewards))
    next_return = 0.0
    for move in reversed(range(len(rewards))):
        next_return = rewards[move] + gamma * (0.0 if ends[move] else next_return)
        returns[move] = next_return
    return returns


def _aftermath(journal: Journal, used: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Change of hp, kills, and whether the player died, over each move and the next `AFTERMATH`."""
    moves = journal.moves
    ends = np.minimum(used + AFTERMATH, journal.last[journal.game[used]]) + 1

    def over(values: Any) -> np.ndarray:
        sums = np.concatenate([[0], np.cumsum(np.asarray(values, np.int64))])
        return sums[ends] - sums[used]

    return over(moves.hp_change), over(moves.kills), over(moves.died) > 0


def _since(journal: Journal, event: np.ndarray) -> np.ndarray:
    """Moves since the last event in the same game and stage; the largest int32 without one."""
    place = np.arange(len(event))
    newest = np.maximum.accumulate(np.where(event, place, -1))
    stage = journal.moves.stage
    same = (newest >= 0) & (journal.game[newest] == journal.game) & (stage[newest] == stage)
    return np.where(same, place - newest, np.iinfo(np.int32).max)


def _share(happened: np.ndarray) -> float:
    return float(np.mean(happened)) if len(happened) else float("nan")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value
