"""Evaluations side by side, as a table."""

from collections.abc import Mapping

from rich.table import Table

from hackmatrix_rl.evaluation import Estimate, Evaluation

# Names in the evaluation and in the table.
ROWS = (
    ("return", "return"),
    ("learned_return", "learned return"),
    ("stage", "stage reached"),
    ("won", "win rate"),
    ("score", "score"),
    ("length", "length"),
    ("siphons", "siphons"),
    ("programs", "programs used"),
    ("undos", "of them UNDO"),
    ("owns_undo", "own UNDO at the end"),
)


def summary_table(evaluations: Mapping[str, Evaluation], *, title: str) -> Table:
    """Means with their 95% intervals, one column for each policy."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in evaluations:
        table.add_column(name, justify="right")
    for key, label in ROWS:
        if all(key in evaluation.values for evaluation in evaluations.values()):
            write = _rate if key in ("won", "owns_undo") else _mean
            texts = [write(evaluation.estimate(key)) for evaluation in evaluations.values()]
            table.add_row(label, *texts)
    stages = sorted(
        {
            stage
            for evaluation in evaluations.values()
            if "stage" in evaluation.values
            for stage in evaluation.histogram("stage")
        }
    )
    for stage in stages:
        counts = [evaluation.histogram("stage") for evaluation in evaluations.values()]
        table.add_row(f"ended in stage {stage}", *(f"{count.get(stage, 0):,}" for count in counts))
    return table


def _mean(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ± {estimate.high - estimate.mean:.3f}"


def _rate(estimate: Estimate) -> str:
    return f"{estimate.mean:.1%} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
