"""Composes PPO from the modules that a `Trainer` is handed."""

from typing import Any

from hackmatrix_rl.agent import RolloutCollector, check_is_policy, precision_of
from hackmatrix_rl.agent.networks import ActorCritic, rematerialized
from hackmatrix_rl.env import Environment, check_is_environment
from hackmatrix_rl.training._arguments import (
    Sizes,
    check_modules,
    critic_warmup_of,
    losses_of,
    mesh_of,
    optimizer_of,
    target_kl_of,
)
from hackmatrix_rl.training._ppo import PPO
from hackmatrix_rl.training._teacher import check_teacher
from hackmatrix_rl.training.sharding import ShardedCollector, check_offload


def ppo_of(
    environment: Environment,
    policy: ActorCritic,
    *,
    loss: Any,
    gae: Any,
    optimizer: Any,
    learning_rate: Any,
    precision: Any,
    value_scale: Any,
    sizes: Sizes,
    target_kl: Any,
    critic_warmup: Any,
    remat: str,
    offload_optimizer: bool,
    mesh: Any,
    traced: bool,
) -> PPO:
    """The algorithm of a `Trainer`, whose arguments these are.

    Args:
        environment: as for `Trainer`, like all that is not listed here.
        policy: the policy to start from.
        loss: this package's default for `None`, like the other modules.
        gae: likewise.
        optimizer: likewise.
        learning_rate: likewise.
        precision: a policy or its name.
        value_scale: likewise.
        sizes: the sizes of an update.
        target_kl: the largest KL divergence from the policy that acted.
        critic_warmup: steps in which only the value head learns.
        remat: what the backward pass computes again.
        offload_optimizer: whether the optimizer's state stays on the host.
        mesh: a mesh, its text, or `None` for one device.
        traced: whether the loss may be traced to check what it returns.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range, or modules do not fit together.
    """
    check_is_environment(environment)
    check_is_policy(policy)
    loss, gae, value_scale = losses_of(loss, gae, value_scale)
    optimizer, learning_rate = optimizer_of(optimizer, learning_rate)
    precision = precision_of(precision)
    check_modules(environment, policy, loss if traced else None, precision, sizes)
    rematerialized(policy, remat)  # raises if the policy has no such remat
    mesh = mesh_of(mesh, sizes)
    if offload_optimizer:
        check_offload(mesh.local_devices[0])
    # Only an auxiliary loss needs the parts of the reward of each step.
    auxiliary = getattr(loss, "auxiliary", None) is not None
    teaches = bool(getattr(loss, "needs_teacher", False))
    if teaches:
        check_teacher(policy)
    return PPO(
        environment=environment,
        collect=ShardedCollector(
            RolloutCollector(
                sizes.num_steps,
                terms=environment.spec.terms if auxiliary else (),
                keep_log_probs=bool(getattr(loss, "needs_old_log_probs", False)),
            ),
            mesh,
        ),
        estimate=gae,
        loss=loss,
        precision=precision,
        optimizer=optimizer,
        learning_rate=learning_rate,
        batches=sizes.minibatches,
        mesh=mesh,
        num_envs=sizes.num_envs,
        value_scale=value_scale,
        target_kl=target_kl_of(target_kl),
        grad_accum=sizes.grad_accum,
        remat=remat,
        offload=offload_optimizer,
        teaches=teaches,
        critic_warmup=critic_warmup_of(critic_warmup, policy),
    )
