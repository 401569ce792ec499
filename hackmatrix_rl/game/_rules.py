"""Which rules these are."""

RULES_VERSION = 1
"""Raised by hand with every change after which a game goes, or is worth, something else.

That is: what an action does, when it is legal, what chance does and how likely, the terms of
the reward. A faster way to the same game leaves it as it is. What was learned or recorded under
one number is not played under another.
"""
