"""The results of a run of `hm.SaveRun`, from its metrics: no game is played for them."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hackmatrix_rl.evaluation import Estimate
from hackmatrix_rl.runs._curve import entry, number
from hackmatrix_rl.runs._record import kind_of
from hackmatrix_rl.runs._trainings import last_part
from hackmatrix_rl.training import MEMBER

LAST_EVALUATION, LAST_TENTH = "last evaluation", "last tenth"
"""The `source` of such results: a hook's last evaluation, or the end of the training."""

_EVAL = "eval/"
_EPISODE = ("return", "length", "score", "stage", "won")
_COUNTS = ("episodes", "unfinished")


def summary_of(
    config: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    episode: Collection[str] = (),
    *,
    plays: int | None = None,
    evaluated: int = 0,
) -> dict[str, Any]:
    """The `summary.json` of a run with these settings and metrics, in the form of other runs.

    The numbers and intervals are from the last evaluation by a hook. Without one, the numbers
    are means over the last tenth of the training, without intervals, because dispatches are not
    independent.

    Args:
        config: the settings.
        rows: the metrics, at least one row.
        episode: names of further metrics that are means over games.
        plays: the number of the training that plays, of several.
        evaluated: the number of the training that hooks evaluate.
    """
    found: dict[str, Any]
    ranked = f"{_EVAL}{kind_of(config).best_by or 'return'}"
    judged = [row for row in rows if not math.isnan(number(row.get(ranked)))]
    if judged and plays in (None, evaluated):
        found = {"source": LAST_EVALUATION, **_evaluation(judged[-1])}
        steps = judged[-1]["env_steps"]
    else:
        begins = "" if plays is None else f"{MEMBER}{plays}/"
        means = {name: last_part(rows, begins + name) for name in [*_EPISODE, *sorted(episode)]}
        found = {
            "source": LAST_TENTH,
            **_estimates({name: (x, math.nan, math.nan) for name, x in means.items()}),
        }
        steps = rows[-1]["env_steps"]
    member = {} if plays is None else {"member": plays}
    return {"trained": {**found, "env_steps": steps, **member}}


def source_in_words(summary: Mapping[str, Any]) -> str:
    """The source of the results of such a run, in words; empty for other runs."""
    trained = entry(summary, "trained")
    source, games = entry(trained, "source"), number(entry(trained, "episodes"))
    if source == LAST_EVALUATION:
        played = "" if math.isnan(games) else f" of {games:,.0f} games"
        return f"The last evaluation{played} during the training; means with 95% intervals."
    if source == LAST_TENTH:
        return (
            "Means over the last tenth of the training, from its own games: there was no "
            "evaluation (hm.EvaluateEvery)."
        )
    return ""


def _evaluation(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name.removeprefix(_EVAL): x for name, x in row.items() if name.startswith(_EVAL)}
    ends = {f"{name}_{end}" for name in found for end in ("low", "high")}
    given = {name: number(found.get(name)) for name in _COUNTS}
    counts = {name: int(count) for name, count in given.items() if not math.isnan(count)}
    means = {
        name: (number(x), number(found.get(f"{name}_low")), number(found.get(f"{name}_high")))
        for name, x in found.items()
        if name not in ends and name not in _COUNTS
    }
    return {**counts, **_estimates(means)}


def _estimates(means: Mapping[str, tuple[float, float, float]]) -> dict[str, Any]:
    """Means with the ends of their intervals, as `Evaluation.as_dict` names them."""
    found = {}
    for name, (mean, low, high) in means.items():
        if not math.isnan(mean):
            found["win_rate" if name == "won" else name] = Estimate(mean, low, high).as_dict()
    return found
