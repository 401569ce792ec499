"""The metrics of PPO's auxiliary loss."""

from hackmatrix_rl.agent import LossMetrics


def auxiliary_means(losses: LossMetrics) -> dict[str, float]:
    """The parts of the auxiliary loss, averaged over the minibatches that compute them.

    Args:
        losses: sums over minibatches, on the host.
    """
    auxiliary = losses.auxiliary
    if auxiliary is None or not float(auxiliary.due):
        return {}
    parts = {
        "aux_terms_loss": auxiliary.terms,
        "aux_end_loss": auxiliary.terminated,
        **({} if auxiliary.won is None else {"aux_win_loss": auxiliary.won}),
    }
    return {name: float(total) / float(auxiliary.due) for name, total in parts.items()}
