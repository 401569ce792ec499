"""Warnings about likely mistakes in an algorithm and its modules, before compilation."""

from typing import Any

import jax

from hackmatrix_rl.agent import wide_layers
from hackmatrix_rl.system.errors import ArgumentError
from hackmatrix_rl.training._algorithm import Algorithm
from hackmatrix_rl.training._gradient_step import GradientStep
from hackmatrix_rl.training._population import first_policy

_NAMED = 4
"""Maximum number of layers that a remark names."""


def remarks(algorithm: Algorithm[Any]) -> list[ArgumentError]:
    """The warnings of the trainer: sequences shorter than a dependence, and layers in float32.

    An algorithm with sequences has the attribute `sequences`: the name and value of their length.
    """
    policy = first_policy(algorithm, algorithm.initial_policy)
    found = []
    name, steps = getattr(algorithm, "sequences", ("", 0))
    needed = algorithm.environment.longest_dependence
    if name and needed is not None and steps < needed and jax.tree.leaves(policy.initial_carry()):
        said = (
            f"{{{name}}} is less than the {needed} steps that an action in this environment may "
            f"depend on, so earlier observations get no gradient; use {{{name}:={needed}}} or more"
        )
        found.append(ArgumentError(said, **{name: steps}))
    for step in filter(_is_step, jax.tree.leaves(algorithm, is_leaf=_is_step)):
        if wide := wide_layers(policy, algorithm.environment.spec, precision=step.precision):
            more = f" and {len(wide) - _NAMED} more" if len(wide) > _NAMED else ""
            said = (
                f"{{precision:only}} does not reach {', '.join(wide[:_NAMED])}{more}: these layers "
                "stay in float32, because their inputs are float32; cast the inputs in the "
                "network, such as carry.astype(features.dtype)"
            )
            found.append(ArgumentError(said, precision=step.precision))
    return found


def _is_step(node: Any) -> bool:
    return isinstance(node, GradientStep)
