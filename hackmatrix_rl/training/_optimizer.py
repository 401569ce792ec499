"""The default optimizer."""

import optax


def adam(max_grad_norm: float = 0.5) -> optax.GradientTransformation:
    """Adam with learning rate 1 on clipped gradients.

    The trainer multiplies the step by its learning rate, a `Schedule`.

    Source: Kingma and Ba 2015; the epsilon is that of OpenAI's PPO.

    Args:
        max_grad_norm: largest Euclidean norm of the gradient over all parameters.

    Raises:
        ValueError: `max_grad_norm` is not positive.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.scale_by_adam(eps=1e-5),
        optax.scale(-1.0),
    )
