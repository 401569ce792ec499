"""The optimizer that is used unless another one is handed in."""

import optax


def adam(max_grad_norm: float = 0.5) -> optax.GradientTransformation:
    """Adam with learning rate 1, on gradients shortened to a norm.

    The learning rate is a `Schedule` of the trainer's, which multiplies the changes.

    Source: Kingma and Ba 2015; the epsilon is that of OpenAI's PPO.

    Args:
        max_grad_norm: gradients longer than that, over all parameters, are shortened.

    Raises:
        ValueError: the norm is not positive.
    """
    if not max_grad_norm > 0:  # nor is NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.scale_by_adam(eps=1e-5),
        optax.scale(-1.0),
    )
