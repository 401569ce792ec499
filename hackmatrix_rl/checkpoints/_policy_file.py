"""A policy in one file."""

from etils import epath

from hackmatrix_rl.agent import check_is_policy
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.training import write_tree

POLICY = "policy"
"""The kind of file that `save` writes."""


def save(policy: ActorCritic, path: epath.PathLike) -> None:
    """Writes the arrays of a policy into one file, for `load(path, like=policy)`.

    The file does not hold the network: build a network of the same sizes before you load it. The
    checkpoints of a run also hold the settings, so `load` builds their network itself.

    Args:
        policy: the policy.
        path: path of the file. An existing file is replaced only after all is written.

    Raises:
        TypeError: `policy` is not an `ActorCritic`.
        OSError: the file cannot be written.
    """
    check_is_policy(policy)
    write_tree(path, POLICY, policy)
