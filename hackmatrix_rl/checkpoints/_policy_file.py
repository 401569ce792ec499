"""A policy in one file."""

from etils import epath

from hackmatrix_rl.agent import check_is_policy
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training import write_tree

POLICY = "policy"
"""The kind of file that `save` writes."""


def save(policy: ActorCritic, path: epath.PathLike) -> None:
    """Writes the arrays of a policy into one file, to be read by `load(path, like=policy)`.

    The network itself is not in it: whoever loads it builds one of the same sizes. A run's own
    checkpoints hold the settings too, and need no network to be built.

    Args:
        policy: whose arrays to write.
        path: of the file; what is there is replaced, whole or not at all.

    Raises:
        TypeError: it is no policy.
        OSError: the file cannot be written.
    """
    check_is_policy(policy)
    write_tree(path, POLICY, policy)
