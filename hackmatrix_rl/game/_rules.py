"""The version of the rules."""

RULES_VERSION = 1
"""Raised by hand with every change of what happens in a game or of the reward.

Such a change concerns what an action does, when it is legal, what is random and with which
probability, or a term of the reward. A faster implementation of the same game does not raise it.
A policy or recording made under one version is not used under another.
"""
