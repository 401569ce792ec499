"""What makes the environment fast stays so: counts of the compiled program.

None of it depends on how fast the machine is. The limits are what was seen plus 15%; who makes a
step cheaper lowers them.
"""

import jax
import jax.numpy as jnp
import pytest
from program_counts import copies_of, program_counts, updated_in_place

import hackmatrix_rl as hm
from hackmatrix_rl.cli.bench._environment_speed import RandomPlay
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.games.hackmatrix import _play
from hackmatrix_rl.search import Expert, _imagined
from hackmatrix_rl.training import compiler_options

pytestmark = [pytest.mark.devices, pytest.mark.usefixtures("optimized")]

GAMES = 1024

# By `ProgramCounts`. The body of a loop counts once; flops and bytes are for one game.
LIMITS = {
    "flops": 26_700,
    "bytes_accessed": 41_500,
    "instructions": 22_500,
    "fusions": 660,
    "loops": 30,
    "copies": 198,
}


@pytest.fixture(scope="module")
def start():
    environment = hm.HackMatrix(max_steps=1000)
    keys = env_keys(jax.random.key(0), GAMES)
    return environment, *jax.jit(environment.reset)(keys)


@pytest.fixture(scope="module")
def play(start):
    """Steps of the environment with training's capacities, compiled as benchmarks do."""
    environment, state, timestep = start
    mesh = hm.mesh("data=1")
    # tests/conftest.py turns it off in this process.
    options = {**compiler_options(mesh), "xla_cpu_use_fusion_emitters": True}
    return RandomPlay(environment, state, timestep.mask, mesh=mesh, options=options)


@pytest.fixture(scope="module")
def ring(start):
    """The arrays of the history: by far the largest of the state."""
    leaves = jax.tree.leaves(start[1])
    largest = max(leaves, key=lambda leaf: leaf.nbytes)
    assert largest.nbytes > sum(leaf.nbytes for leaf in leaves) / 2
    return jax.ShapeDtypeStruct(largest.shape, largest.dtype)


@pytest.mark.parametrize("count", LIMITS)
def test_a_step_is_not_compiled_to_more(play, count):
    found = getattr(program_counts(play.program), count)
    per_game = GAMES if count in ("flops", "bytes_accessed") else 1
    assert 0 < found / per_game <= LIMITS[count]


def test_the_history_is_written_in_place_without_memory_for_another(play, ring):
    program = play.program.as_text()
    assert copies_of(program, ring) == 0
    assert updated_in_place(program, ring)
    temporary = play.program.memory_analysis().temp_size_in_bytes
    assert 0 < temporary < ring.size * ring.dtype.itemsize


@pytest.mark.parametrize("donated", [True, False])
def test_a_copy_is_seen_where_memory_is_not_given_away(donated):
    array = jax.ShapeDtypeStruct((64, 16), jnp.uint8)
    write = jax.jit(lambda x: x.at[3].set(7), donate_argnums=(0,) if donated else ())
    program = write.lower(array).compile().as_text()
    assert updated_in_place(program, array) == donated
    assert (copies_of(program, array) == 0) == donated
    with pytest.raises(ValueError, match="no argument s32"):
        updated_in_place(program, jax.ShapeDtypeStruct((64, 16), jnp.int32))


def test_programs_share_the_trace_of_a_step(monkeypatch):
    traced = []

    def carry_out(*arguments, **named):
        traced.append(arguments)
        return original(*arguments, **named)

    original = _play._carry_out
    monkeypatch.setattr(_play, "_carry_out", carry_out)
    # A size that no other test has: nothing is traced yet.
    environment = hm.HackMatrix(hm.GameConfig(max_enemies=7, max_transmissions=5, history=2))
    for games in (2, 3):
        keys = env_keys(jax.random.key(0), games)
        state, _ = jax.eval_shape(environment.reset, keys)
        jax.eval_shape(environment.step, state, jnp.zeros(games, jnp.int32), keys)
    assert len(traced) == 1


def test_a_decision_of_the_expert_stands_once_and_its_loop_only_reads_the_position(monkeypatch):
    evaluated = []

    def counted(*arguments):
        evaluated.append(arguments)
        return original(*arguments)

    original = _imagined.evaluate_result
    monkeypatch.setattr(_imagined, "evaluate_result", counted)
    config = hm.GameConfig(max_enemies=7, max_transmissions=5, history=2)
    expert, environment = Expert(config), hm.HackMatrix(config)
    keys = env_keys(jax.random.key(0), 2 * GAMES)
    state, timestep = jax.eval_shape(environment.reset, keys)
    act = jax.vmap(lambda game, mask, key: expert.act(game, mask, (), key=key)[0])
    program = jax.make_jaxpr(act)(state.games, timestep.mask, keys)
    assert len(evaluated) == 1
    loops = [each for each in program.eqns if each.primitive.name == "while"]
    # Which games are still deciding, and the fields of a `Decision`.
    assert max(len(each.outvars) for each in loops) == 1 + 5
