"""A check of networks that evaluate imagined games."""

import jax

from hackmatrix_rl.agent.networks import ActorCritic


def check_memoryless(policy: ActorCritic) -> None:
    """Refuses a network with memory, which cannot evaluate imagined games.

    Raises:
        ValueError: it has a memory.
    """
    if jax.tree.leaves(policy.initial_carry()):
        raise ValueError(
            "a network with a memory cannot search: it knows the real game, not imagined ones. "
            "Use one without, such as cells"
        )
