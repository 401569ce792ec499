"""Checks the contract of a network: its shapes, and its outputs on made-up observations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.agent.networks import (
    ActorCritic,
    compute_dtype,
    evaluator_of,
    plain_evaluator,
    reset_carry,
)
from hackmatrix_rl.agent.precision import (
    FLOAT32,
    NonTrainable,
    PrecisionPolicy,
    parameters_of,
    path_name,
    products,
    weights_in_products,
)
from hackmatrix_rl.agent.precision import precision as named_precision
from hackmatrix_rl.env import Discrete, EnvSpec, MultiDiscrete, check_spec
from hackmatrix_rl.system.errors import (
    check_array,
    check_jax,
    described,
    difference,
    first_line,
    instance,
    is_ours,
    path_in_words,
    place,
    summary,
)

# Shape of the sequences on which the evaluator is checked.
STEPS, BATCH = 3, 2


def check_is_policy(policy: Any) -> None:
    """Raises a TypeError unless the argument is an instance of `ActorCritic`."""
    if isinstance(policy, ActorCritic):
        return
    if isinstance(policy, type):
        raise TypeError(
            f"policy is the class {policy.__name__}; expected an instance: "
            f"{policy.__name__}(env.spec, key=jax.random.key(0))"
        )
    raise TypeError(
        f"policy is {described(policy)}; expected an instance of hm.ActorCritic: write a subclass "
        "with initial_carry() and __call__(observation, carry), or use hm.MLPActorCritic(env.spec, "
        "key=jax.random.key(0))"
    )


def check_policy_shapes(
    policy: Any, spec: EnvSpec, *, precision: PrecisionPolicy = FLOAT32
) -> None:
    """Raises unless a network maps one observation to outputs of the required shapes.

    It only traces the network. It also raises if no matrix product has the compute dtype of the
    precision, which would have no effect.
    """
    check_is_policy(policy)
    precision.check(policy)
    carry = _initial_carry(policy)

    def call(policy: Any, observation: Any, carry: Any) -> Any:
        cast = precision.cast_to_compute(policy)
        return cast(observation, carry), compute_dtype(cast)

    said = place(policy, "__call__")
    try:
        program, *made = eqx.filter_make_jaxpr(call)(policy, spec.observation, carry)
        found, dtype = eqx.combine(*made)
    except Exception as error:
        layers = jax.tree.leaves(policy, is_leaf=_drops_out)
        if isinstance(error, RuntimeError) and any(map(_drops_out, layers)):
            raise ValueError(
                f"{said} uses eqx.nn.Dropout, which needs a random key, and a network gets none: "
                "a loss compares the policy with the one that acted. Remove the dropout, or "
                "disable it: eqx.nn.inference_mode(policy)"
            ) from error
        raise ValueError(
            f"{said} fails on one observation of this environment ({summary(spec.observation)}, "
            f"without a batch axis): {first_line(error)}. Build it from this environment's spec, "
            "and for one observation; training calls it under jax.vmap"
        ) from error
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise TypeError(
            f"{said} returns {described(found)}; expected three things: return logits, value, "
            "carry (a network without memory returns its argument carry)"
        )
    logits, value, after = found
    check_array(
        f"{said} returns as logits",
        logits,
        "float32",
        (spec.actions.num_parameters,),
        hint=f"the parameters of {spec.actions}, spec.actions.num_parameters of them; build the "
        "network from this environment's spec",
    )
    _check_distribution(policy, spec)
    check_array(
        f"{said} returns as value",
        value,
        "float32",
        (),
        hint="return value[0] instead of shape (1,), or use "
        'eqx.nn.Linear(width, "scalar", key=key)',
    )
    changed = difference("carry", carry, after)
    if changed:
        raise ValueError(
            f"{said} returns another kind of carry than it received: {changed}; expected the "
            "structure, shapes and dtypes of initial_carry()"
        )
    operands = products(program)
    if operands and not any(set(each) == {dtype} for each in operands):
        raise ValueError(
            f"{said} computes none of its {len(operands)} matrix product(s) in {dtype}, the "
            "compute dtype of the precision, because the inputs of its layers have a wider dtype. "
            "Compute the features with self.encode(observation), where self.encode = spec.encode "
            "is set in __init__, or cast the input of each layer: "
            "self.layer(x.astype(self.layer.weight.dtype))"
        )


def _check_distribution(policy: ActorCritic, spec: EnvSpec) -> None:
    """Raises unless the network's distribution is one of the environment's actions."""
    actions, said = spec.actions, place(policy, "distribution")
    parameters = jax.ShapeDtypeStruct((actions.num_parameters,), jnp.float32)
    mask = jax.ShapeDtypeStruct((actions.mask_size,), bool)
    expected = f"expected one of {actions}: return hackmatrix_rl.agent."
    expected += {
        Discrete: "MaskedCategorical(parameters, mask)",
        MultiDiscrete: "ProductOfCategoricals(parameters, mask, spec.actions)",
    }.get(type(actions), "DiagonalGaussian(parameters, spec.actions)")

    def drawn(parameters: Any, mask: Any) -> Any:
        pi = policy.distribution(parameters, mask)
        return pi.to_environment(pi.sample(jax.random.key(0)))

    try:
        action = jax.eval_shape(drawn, parameters, mask)
    except Exception as error:
        raise ValueError(f"{said} fails: {first_line(error)}; {expected}") from error
    if (action.shape, action.dtype) != (actions.shape, actions.dtype):
        raise ValueError(f"{said} draws actions of {described(action)}; {expected}")


def wide_layers(policy: ActorCritic, spec: EnvSpec, *, precision: PrecisionPolicy) -> list[str]:
    """The paths of weights in float32 products, although the precision casts them to 16 bits.

    A float32 operand, such as a carry, promotes the product. The package's own networks have no
    such weights, and are not traced.
    """
    if is_ours(policy):
        return []

    def call(policy: Any, observation: Any, carry: Any) -> Any:
        return precision.cast_to_compute(policy)(observation, carry)

    program, *_ = eqx.filter_make_jaxpr(call)(policy, spec.observation, _initial_carry(policy))
    arrays = jax.tree.leaves_with_path(eqx.filter(policy, eqx.is_array))
    used = weights_in_products(program, [path_name(path) for path, _ in arrays])
    cast = eqx.filter_eval_shape(precision.cast_to_compute, parameters_of(policy))
    return [
        path_name(path)
        for path, leaf in jax.tree.leaves_with_path(cast)
        if leaf.dtype.itemsize == 2 and any(d.itemsize > 2 for d in used[path_name(path)])
    ]


def _drops_out(node: Any) -> bool:
    return isinstance(node, eqx.nn.Dropout) and not node.inference


def precision_of(given: Any) -> PrecisionPolicy:
    """A precision policy, given as such or by its name (`bf16`)."""
    if isinstance(given, str):
        try:
            return named_precision(given)
        except ValueError as error:
            raise ValueError(f"precision {given!r}: {error}") from error
    instance("precision", given, PrecisionPolicy, 'hm.precision("bf16")')
    return given


def _initial_carry(policy: ActorCritic) -> Any:
    """The shapes and dtypes of a network's initial carry."""
    said = place(policy, "initial_carry")
    carry = policy.initial_carry()
    for path, leaf in jax.tree.leaves_with_path(carry):
        name = path_in_words("carry", path)
        if not eqx.is_array(leaf) and not isinstance(leaf, np.ndarray):
            raise TypeError(
                f"{said} returns a carry in which {name} is {described(leaf)}; expected arrays: "
                "jnp.zeros(shape, jnp.float32), or () without memory"
            )
        if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != jnp.float32:
            raise ValueError(
                f"{said} returns a carry in which {name} is {described(leaf)}; expected float32, "
                "whatever the network computes in: jnp.zeros(shape, jnp.float32)"
            )
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), carry)


def check_policy(
    policy: Any, spec: Any, *, precision: PrecisionPolicy | str = FLOAT32, seed: int = 0
) -> None:
    """Checks the full contract of a network by calling it on made-up observations.

    It checks:

    - All inputs and outputs have the right shapes and dtypes.
    - All parameters are visible to the optimizer.
    - Outputs are finite and deterministic.
    - The network's evaluator gives the same outputs as the call, on full sequences and step by
      step.

    Args:
        policy: the network, an instance of `ActorCritic`.
        spec: the spec of the environment: `env.spec`.
        precision: the precision of the network: a policy, or its name (`bf16`).
        seed: seed of the made-up observations.

    Raises:
        TypeError: a value has the wrong type.
        ValueError: another check failed.
    """
    check_jax()
    check_is_policy(policy)
    check_spec(spec)
    precision = precision_of(precision)
    check_policy_shapes(policy, spec, precision=precision)
    _check_parameters(policy)
    observations = _made_up(spec, seed, (STEPS, BATCH))
    first = policy.initial_carry()
    carries = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (BATCH, *leaf.shape)), first)
    done = jnp.asarray(np.arange(STEPS * BATCH).reshape(STEPS, BATCH) % 4 == 1)
    # In float32, so the results differ only by rounding.
    called, again, unrolled, stepped = jax.device_get(
        _every_way(policy, observations, carries, done)
    )
    said = place(policy, "__call__")
    _check_finite(said, called)
    _compare(said, "called again on the same observation", called, again)
    _compare(said, "applied to a whole sequence by its evaluator", called, unrolled)
    _compare(said, "applied step by step by its evaluator", called, stepped)


def check_policy_numbers(policy: ActorCritic, spec: EnvSpec) -> None:
    """Checks the values of a network: the cheap part of `check_policy`.

    The network has parameters, and they are finite. A custom network also returns finite outputs
    for one made-up observation.
    """
    _check_parameters(policy)
    if not is_ours(policy):
        outputs = eqx.filter_jit(policy)(_made_up(spec, 0, ()), policy.initial_carry())
        _check_finite(place(policy, "__call__"), jax.device_get(outputs[:2]))
        action = policy.distribution(outputs[0], spec.actions.every()).mode()
        _check_finite(place(policy, "distribution"), (np.asarray(action),), ("an action",))


def _check_parameters(policy: ActorCritic) -> None:
    parameters = jax.tree.leaves_with_path(parameters_of(policy))
    if not parameters:
        raise ValueError(
            f"{type(policy).__name__} has no parameters, so nothing can be learned; expected "
            "floating-point arrays in its fields: do not mark them eqx.field(static=True)"
        )
    leaves = jax.tree.leaves_with_path(policy, is_leaf=lambda x: isinstance(x, NonTrainable))
    for path, leaf in leaves:
        if isinstance(leaf, np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise ValueError(
                f"{type(policy).__name__}: {jax.tree_util.keystr(path)} is a NumPy array, which "
                "is not trained; expected a parameter, jnp.asarray(...), or a constant, "
                "hackmatrix_rl.agent.precision.NonTrainable(...)"
            )
    for path, leaf in parameters:
        numbers = np.asarray(leaf)
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"{type(policy).__name__}: {jax.tree_util.keystr(path)} holds "
                f"{numbers[~np.isfinite(numbers)].flat[0]}; expected finite parameters"
            )


def _check_finite(
    said: str, outputs: tuple[np.ndarray, ...], names: tuple[str, ...] = ("logits", "a value")
) -> None:
    for name, values in zip(names, outputs, strict=True):
        if not np.isfinite(values).all():
            raise ValueError(
                f"{said} returns {name} that is not finite for made-up observations: "
                f"{values[~np.isfinite(values)].flat[0]}; expected numbers"
            )


def _made_up(spec: EnvSpec, seed: int, axes: tuple[int, ...]) -> Any:
    """Random observations with these leading axes; small numbers, which any encoder accepts."""
    draw = np.random.default_rng(seed)

    def numbers(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        shape = *axes, *leaf.shape
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            return jnp.asarray(draw.normal(size=shape), leaf.dtype)
        return jnp.asarray(draw.integers(0, 2, shape), leaf.dtype)

    return jax.tree.map(numbers, spec.observation)


@eqx.filter_jit
def _every_way(policy: ActorCritic, observations: Any, carries: Any, done: Any) -> Any:
    """Logits and values of two calls, of the evaluator's `unroll`, and of its `act_step`."""
    called = plain_evaluator(policy).unroll(observations, carries, done)
    again = plain_evaluator(policy).unroll(observations, carries, done)
    evaluator = evaluator_of(policy)
    unrolled = evaluator.unroll(observations, carries, done)
    stepped = []
    cache = evaluator.init_cache(jax.tree.map(lambda leaf: leaf[0], observations))
    carry = carries
    for step in range(STEPS):
        here = jax.tree.map(lambda leaf, step=step: leaf[step], observations)
        logits, value, carry, cache = evaluator.act_step(here, carry, cache)
        carry = reset_carry(carry, policy.initial_carry(), done[step])
        stepped.append((logits, value))
    return called, again, unrolled, jax.tree.map(lambda *leaves: jnp.stack(leaves), *stepped)


def _compare(said: str, way: str, plain: Any, other: Any) -> None:
    for name, expected, found in zip(("logits", "values"), plain, other, strict=True):
        if not np.allclose(found, expected, rtol=1e-3, atol=1e-4):
            worst = np.unravel_index(np.argmax(np.abs(found - expected)), found.shape)
            raise ValueError(
                f"{said}, {way}, gives other {name} than a call: {found[worst]:.6g} instead of "
                f"{expected[worst]:.6g}; expected equality up to rounding"
            )
