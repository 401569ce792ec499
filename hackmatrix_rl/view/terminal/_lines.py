"""Moves, rewards and opinions as lines of text."""

from rich.text import Text

from hackmatrix_rl.game import SIPHON, Action
from hackmatrix_rl.view._keys import KEYS
from hackmatrix_rl.view._signs import STYLES, Signs, styled
from hackmatrix_rl.view.replays import Moment, Opinion

_SMALLEST = 0.0005  # terms below it print as 0
_RAREST = 0.005  # so do probabilities


def action_name(action: Action, signs: Signs) -> str:
    """The action by name; a direction with its arrow."""
    return f"{signs.arrows[action]} {action.label}" if action < SIPHON else action.label


def key_of(action: Action, signs: Signs) -> str:
    """The key that plays the action."""
    return signs.arrows[action] if action < SIPHON else KEYS[action]


def number(value: float, signs: Signs) -> str:
    """A number with its sign and two digits."""
    return f"{'+' if value >= 0 else signs.minus}{abs(value):.2f}"


def move_line(moment: Moment, signs: Signs) -> Text:
    """The move that led to a position, its reward, and the terms of it."""
    if moment.action is None:
        return styled("The game begins.")
    terms = [
        f"{name} {number(value, signs)}"
        for name, value in moment.terms.items()
        if abs(value) > _SMALLEST
    ]
    found = styled(f"{moment.number} {action_name(moment.action, signs)}", STYLES["title"])
    found += styled(f"  reward {number(moment.reward, signs)}")
    return found + styled(f" = {', '.join(terms)}" if terms else "", STYLES["faint"])


def opinion_line(name: str, opinion: Opinion, signs: Signs, *, most: int = 4) -> Text:
    """What an agent would do, and why, with the probabilities of at most `most` actions."""
    found = styled(f"{name}: {action_name(opinion.action, signs)}", STYLES["title"])
    parts = []
    if opinion.value is not None:
        parts.append(f"value {number(opinion.value, signs)}")
    if opinion.win_probability is not None:
        parts.append(f"win {opinion.win_probability:.0%}")
    likely = [pair for pair in opinion.probabilities.items() if pair[1] >= _RAREST]
    parts += [f"{action.label} {chance:.0%}" for action, chance in likely[:most]]
    searched = _searched(opinion, signs)
    parts += ["search: " + ", ".join(searched[:most])] if searched else []
    return found + styled("  " + ("  ".join(parts) or "(it does not tell why)"))


def _searched(opinion: Opinion, signs: Signs) -> list[str]:
    """What a search found for each action: how often it tried it, and its value."""
    visits, values = opinion.search_visits, opinion.search_values
    return [
        f"{action.label}"
        + (f" {visits[action]} visits" if action in visits else "")
        + (f" {number(values[action], signs)}" if action in values else "")
        for action in visits or values
    ]
