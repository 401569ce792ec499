"""A player that remembers gets the best return, and one that does not cannot."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env.memory_tasks import (
    ComparisonTrial,
    ContextConfig,
    ContextDecision,
    ContextTrial,
    DelayedComparison,
    DelayedComparisonConfig,
    DelayedMatch,
    DelayedMatchConfig,
    GoNoGo,
    GoNoGoConfig,
    GoNoGoTrial,
    IntervalDiscrimination,
    IntervalDiscriminationConfig,
    IntervalTiming,
    IntervalTimingConfig,
    IntervalTrial,
    MatchTrial,
    MultiSensoryConfig,
    MultiSensoryIntegration,
    NBack,
    NBackConfig,
    PerceptualConfig,
    PerceptualDecision,
    ProbabilisticReasoning,
    ProbabilisticReasoningConfig,
    ReadySetGo,
    ReadySetGoConfig,
    ReasoningTrial,
    TMaze,
    TMazeConfig,
    TMazeState,
    TrialState,
)

pytestmark = pytest.mark.search

TASKS = [
    DelayedMatch(),
    DelayedMatch(DelayedMatchConfig(noise=0.8)),
    PerceptualDecision(),
    PerceptualDecision(PerceptualConfig(noise=0.3, delay=2)),
    ContextDecision(),
    ContextDecision(ContextConfig(noise=0.3)),
    MultiSensoryIntegration(),
    MultiSensoryIntegration(MultiSensoryConfig(noise=0.3)),
    GoNoGo(),
    GoNoGo(GoNoGoConfig(fixation=2, delay=0)),
    DelayedComparison(),
    DelayedComparison(DelayedComparisonConfig(second=2, noise=0.4)),
    ProbabilisticReasoning(),
    ProbabilisticReasoning(ProbabilisticReasoningConfig(shapes=3, weights=(-0.2, 0.1, 0.9))),
    IntervalDiscrimination(),
    IntervalDiscrimination(IntervalDiscriminationConfig(shortest_delay=0, longest_delay=2)),
    IntervalTiming(),
    IntervalTiming(IntervalTimingConfig(set=0, short=3, long=5, margin=0)),
    ReadySetGo(),
    ReadySetGo(ReadySetGoConfig(ready=2, shortest=2, longest=5, set=3, gain=2)),
    NBack(),
    NBack(NBackConfig(back=1, symbols=2, scored=5)),
    TMaze(),
    TMaze(TMazeConfig(corridor=1)),
]


def test_a_sequence_that_holds_what_an_action_depends_on_is_no_longer_than_a_trial():
    for task in TASKS:
        assert 1 < task.longest_dependence <= most_steps(task)
    assert hm.Batched(TMaze(TMazeConfig(corridor=10))).longest_dependence == 11


def named(task):
    return f"{type(task).__name__}-{getattr(task.config, 'noise', '')}"


def most_steps(task):
    config = task.config
    if isinstance(task, NBack):
        return config.back + config.scored
    return config.corridor + 1 if isinstance(task, TMaze) else task.length


@eqx.filter_jit
def returns(task, states, player, memory, key):
    """The return of each game, played by `player(seen, memory) -> (action, memory)`."""

    def one(state, key):
        def step(board, key):
            state, memory, total, ended = board
            action, memory = player(task.observe(state), memory)
            played = task.play(state, jnp.int32(action), key=key)
            total = total + jnp.where(ended, 0.0, played.reward)
            return (played.state, memory, total, ended | played.terminated), None

        begun = (state, memory, jnp.float32(0), jnp.bool_(False))
        keys = jax.random.split(key, most_steps(task))
        (_, _, total, ended), _ = jax.lax.scan(step, begun, keys)
        return total, ended

    return jax.vmap(one)(states, jax.random.split(key, jax.tree.leaves(states)[0].shape[0]))


def drawn(task, count, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: task.start(key=key))(keys)


def clock(config, task):
    """Step by step, in which period the game is: known to whoever counts."""
    ends = np.cumsum(task.periods)
    return lambda step: jnp.sum(step >= jnp.asarray(ends))


def waits(task):
    """Goes after the sign to go, once the decision has come."""

    def player(seen, go):
        go = go | (seen[2] > 0)
        return (go & (seen[0] == 0)).astype(jnp.int32), go

    return player, jnp.bool_(False)


def compares_strengths(task):
    """Weighs both orders of each pair by the means of what it saw."""
    config, period_of = task.config, clock(task.config, task)
    spread = jnp.asarray([config.first, config.second], jnp.float32) ** -0.5
    spread = spread * max(config.noise, 1e-3)
    larger, smaller = jnp.asarray(config.shown, jnp.float32).T

    def player(seen, memory):
        step, first, second = memory
        first += jnp.where(period_of(step) == 1, seen[1] / config.first, 0.0)
        second += jnp.where(period_of(step) == 3, seen[1] / config.second, 0.0)

        def evidence(a, b):
            errors = ((first - a) / spread[0]) ** 2 + ((second - b) / spread[1]) ** 2
            return jax.nn.logsumexp(-errors / 2)

        ordered = evidence(larger, smaller) > evidence(smaller, larger)
        choice = jnp.where(ordered, 1, 2)
        return jnp.where(seen[0] == 0, choice, 0), (step + 1, first, second)

    return player, (jnp.int32(0), jnp.float32(0), jnp.float32(0))


def adds_weights(task):
    """Keeps the evidence of the last look at any shapes."""
    weights = jnp.tile(jnp.asarray(task.config.weights, jnp.float32), task.config.shapes)

    def player(seen, evidence):
        evidence = jnp.where(jnp.any(seen[1:] > 0), jnp.dot(seen[1:], weights), evidence)
        return jnp.where(seen[0] == 0, jnp.where(evidence > 0, 2, 1), 0), evidence

    return player, jnp.float32(0)


def counts(task):
    """Counts the steps of the first stimulus up and those of the second down."""

    def player(seen, difference):
        difference += seen[1] - seen[2]
        return jnp.where(seen[0] == 0, jnp.where(difference > 0, 1, 2), 0), difference

    return player, jnp.float32(0)


def waits_for_the_cued_interval(task):
    def player(seen, memory):
        interval, waited = memory
        interval = jnp.where(jnp.any(seen[1:3] > 0), jnp.argmax(seen[1:3]), interval)
        go = (seen[0] == 0) & (waited == jnp.asarray(task.intervals)[interval])
        waited = jnp.where(seen[0] == 0, waited + 1, waited)
        return go.astype(jnp.int32), (interval.astype(jnp.int32), waited)

    return player, (jnp.int32(0), jnp.int32(0))


def repeats_the_measured_interval(task):
    def player(seen, memory):
        measure, waited = memory
        ready, produces = (seen[1] > 0) | (measure > 0), (seen[2] > 0) | (seen[0] == 0)
        measure = jnp.where(ready & ~produces, measure + 1, measure)
        # With a short interval, the second signal ends too late: the next best is to go at once.
        due = jnp.maximum(measure * task.config.gain, task.config.set)
        go = (seen[0] == 0) & (waited == due)
        return go.astype(jnp.int32), (measure, jnp.where(produces, waited + 1, waited))

    return player, (jnp.int32(0), jnp.int32(0))


PLAYERS = {
    GoNoGo: waits,
    DelayedComparison: compares_strengths,
    ProbabilisticReasoning: adds_weights,
    IntervalDiscrimination: counts,
    IntervalTiming: waits_for_the_cued_interval,
    ReadySetGo: repeats_the_measured_interval,
}


def remembers(task):
    """The best player, and its memory before the first step."""
    if isinstance(task, TMaze):

        def walks(seen, right):
            right = jnp.where(seen[0] + seen[1] > 0, seen[1] > 0, right)
            return jnp.where(seen[3] > 0, jnp.where(right, 2, 1), 0), right

        return walks, jnp.bool_(False)
    if isinstance(task, NBack):

        def compares(seen, past):
            now = jnp.concatenate([past[1:], jnp.argmax(seen)[None].astype(jnp.int32)])
            return (past[0] == now[-1]).astype(jnp.int32), now

        return compares, jnp.full(task.config.back, -1, jnp.int32)
    if type(task) in PLAYERS:
        return PLAYERS[type(task)](task)
    period_of, last = clock(task.config, task), len(task.periods) - 1
    if isinstance(task, DelayedMatch):

        def sums(seen, memory):
            step, sample, test = memory
            period, difference = period_of(step), seen[1] - seen[2]
            sample = sample + jnp.where(period == 1, difference, 0.0)
            test = test + jnp.where(period == 3, difference, 0.0)
            choice = jnp.where((sample > 0) == (test > 0), 1, 2)
            return jnp.where(period == last, choice, 0), (step + 1, sample, test)

        return sums, (jnp.int32(0), jnp.float32(0), jnp.float32(0))

    def integrates(seen, memory):
        step, total = memory
        period = period_of(step)
        pair = seen[1:3]
        if isinstance(task, ContextDecision):
            pair = jnp.where(seen[5] > 0, pair, seen[3:5])
        if isinstance(task, MultiSensoryIntegration):
            pair = pair + seen[3:5]
        total = total + jnp.where(period == 1, pair[0] - pair[1], 0.0)
        return jnp.where(period == last, jnp.where(total > 0, 1, 2), 0), (step + 1, total)

    return integrates, (jnp.int32(0), jnp.float32(0))


@pytest.mark.parametrize("task", TASKS, ids=named)
def test_a_player_that_remembers_gets_the_best_return(task):
    player, memory = remembers(task)
    found, ended = returns(task, drawn(task, 4000), player, memory, jax.random.key(1))
    assert ended.all()
    error = 4 * float(jnp.std(found)) / np.sqrt(4000)
    assert float(jnp.mean(found)) == pytest.approx(task.best_return, abs=max(error, 1e-6))
    assert task.best_return > task.memoryless_return


TWO_STIMULI = jnp.asarray([[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]], jnp.float32)
"""Nothing, either of two stimuli, and the last period."""


def begun(task, trials):
    """The first position of each trial, without noise."""
    return [TrialState(each, jnp.int32(0), jnp.zeros(task.seen, jnp.float32)) for each in trials]


def every_delayed_match(task):
    trials = [MatchTrial(jnp.int32(s), jnp.bool_(m)) for s in (0, 1) for m in (0, 1)]
    return begun(task, trials), TWO_STIMULI


def every_go(task):
    return begun(task, [GoNoGoTrial(jnp.bool_(go)) for go in (0, 1)]), TWO_STIMULI


def every_comparison(task):
    trials = [ComparisonTrial(jnp.int32(0), jnp.bool_(first)) for first in (0, 1)]
    return begun(task, trials), jnp.asarray([[1, 0], [1, 0.5], [1, 1], [0, 0]], jnp.float32)


def every_interval(task):
    pairs = itertools.product((1, 2, 3), repeat=2)
    trials = [IntervalTrial(jnp.int32(a), jnp.int32(1), jnp.int32(b)) for a, b in pairs]
    return begun(task, trials), TWO_STIMULI


def every_shape(task):
    """Each of the two shapes four times: the answer is 2 three times, or twice."""
    place, delay = jnp.zeros(1, jnp.int32), jnp.int32(1)
    trials = [
        ReasoningTrial(jnp.full(1, kind, jnp.int32), place, jnp.bool_(case < often), delay)
        for kind, often in ((0, 3), (1, 2))
        for case in range(4)
    ]
    return begun(task, trials), TWO_STIMULI


def every_context(task):
    states = []
    for context, first, second in itertools.product((0, 1), repeat=3):
        strengths = jnp.full(2, 50.0, jnp.float32)
        stronger = jnp.asarray([first, second], jnp.int32)
        trial = ContextTrial(jnp.int32(context), stronger, strengths)
        states += begun(task, [trial])
    return states, jnp.asarray([[0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1]], jnp.float32)


def every_t_maze(task):
    return [TMazeState(jnp.int32(0), jnp.bool_(right)) for right in (0, 1)], jnp.eye(4)


@pytest.mark.parametrize(
    ("task", "every"),
    [
        (DelayedMatch(DelayedMatchConfig(1, 1, 1, 1, 2)), every_delayed_match),
        (ContextDecision(ContextConfig(1, 1, 1, 2, (50.0,))), every_context),
        (TMaze(TMazeConfig(3)), every_t_maze),
        (GoNoGo(GoNoGoConfig(1, 1, 1, 2)), every_go),
        (DelayedComparison(DelayedComparisonConfig(1, 1, 1, 1, 2, ((2, 1),))), every_comparison),
        (IntervalDiscrimination(IntervalDiscriminationConfig(1, 1, 3, 1, 1, 1)), every_interval),
        (
            ProbabilisticReasoning(
                ProbabilisticReasoningConfig(1, 1, 1, 1, 2, 1, weights=(math.log10(3), 0.0))
            ),
            every_shape,
        ),
    ],
    ids=["match", "context", "maze", "go", "comparison", "interval", "shape"],
)
def test_no_player_without_memory_gets_more_than_the_known_number(task, every):
    """Every player that chooses by what it sees, in every trial: the best mean is exact."""
    states, shown = every(task)
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    @jax.jit
    def mean(actions):
        def player(seen, memory):
            where = jnp.all(seen[None] == shown, axis=1)
            return jnp.sum(jnp.where(where, actions, 0)), memory

        return jnp.mean(returns(task, states, player, (), jax.random.key(0))[0])

    players = itertools.product(range(task.num_actions), repeat=len(shown))
    found = [float(mean(jnp.asarray(each, jnp.int32))) for each in players]
    assert max(found) == pytest.approx(task.memoryless_return, abs=1e-6)


@pytest.mark.parametrize("config", [NBackConfig(), NBackConfig(1, 3, 7), NBackConfig(3, 2, 5)])
def test_the_symbol_that_is_seen_does_not_tell_whether_it_matches(config):
    task = NBack(config)
    symbols = config.symbols

    @jax.jit
    def looks(key):
        def step(state, key):
            known = state.step >= config.back
            pair = (state.shown[-1], state.shown[0] == state.shown[-1], known)
            return task.play(state, jnp.int32(0), key=key).state, pair

        keys = jax.random.split(key, most_steps(task))
        return jax.lax.scan(step, task.start(key=keys[0]), keys)[1]

    seen, matches, known = jax.vmap(looks)(jax.random.split(jax.random.key(3), 3000))
    seen, matches = np.asarray(seen)[known], np.asarray(matches)[known]
    for symbol in range(symbols):
        assert np.mean(seen == symbol) == pytest.approx(1 / symbols, abs=0.02)
        assert np.mean(matches[seen == symbol]) == pytest.approx(0.5, abs=0.03)


def test_choices_during_fixation_and_walls_of_the_maze_cost_and_hold():
    task = DelayedMatch(DelayedMatchConfig(2, 1, 1, 1, 3))
    state = task.start(key=jax.random.key(0))
    rewards, ends = [], []
    for action in (1, 0, 1, 2, 1, 0, 0, 0):
        played = task.play(state, jnp.int32(action), key=jax.random.key(0))
        rewards.append(round(float(played.reward), 3))
        ends.append(bool(played.terminated))
        state = played.state
    assert rewards == [-0.1, 0, 0, 0, 0, 0, 0, 0]
    assert ends == [False] * 7 + [True]
    wrong = task.play(
        eqx.tree_at(lambda s: (s.step, s.trial.matches), state, (jnp.int32(5), jnp.bool_(True))),
        jnp.int32(2),
        key=jax.random.key(0),
    )
    assert (float(wrong.reward), bool(wrong.terminated)) == (0.0, True)
    task = TMaze(TMazeConfig(1))
    state = TMazeState(jnp.int32(0), jnp.bool_(True))
    rewards = []
    for action in (1, 2, 0, 0, 1):
        played = task.play(state, jnp.int32(action), key=jax.random.key(0))
        rewards.append(round(float(played.reward), 3))
        state = played.state
    assert rewards == [-0.1, -0.1, 0, -0.1, 0]
    assert bool(played.terminated)


SELDOM = (
    *(MultiSensoryIntegration, GoNoGo, DelayedComparison),
    *(ProbabilisticReasoning, IntervalDiscrimination, ReadySetGo),
)
"""To an environment, these are like `IntervalTiming`, and the check takes seconds."""


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, marks=[pytest.mark.nightly] if isinstance(task, SELDOM) else ())
        for task in TASKS[1::2]
    ],
    ids=named,
)
def test_each_is_an_environment(task):
    hm.check_environment(hm.Batched(task, max_steps=25), steps=30)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DelayedMatchConfig(delay=-1), "delay must be at least 0, not -1"),
        (lambda: DelayedMatchConfig(sample=0), "sample must be at least 1"),
        (lambda: DelayedMatchConfig(noise=-0.5), "noise is -0.5; expected 0 or more"),
        (lambda: DelayedMatchConfig(noise=float("nan")), "noise is nan"),
        (lambda: PerceptualConfig(coherences=()), "coherences is empty"),
        (lambda: PerceptualConfig(coherences=(120,)), "coherences is 120; expected a"),
        (lambda: ContextConfig(decision=0), "decision must be at least 1"),
        (lambda: MultiSensoryConfig(coherences=(-1,)), "coherences is -1; expected a number from"),
        (lambda: GoNoGoConfig(decision=0), "decision must be at least 1"),
        (lambda: DelayedComparisonConfig(pairs=()), "pairs is empty"),
        (lambda: DelayedComparisonConfig(pairs=((1, 2),)), "expected the larger number first"),
        (lambda: ProbabilisticReasoningConfig(weights=()), "weights is empty"),
        (lambda: ProbabilisticReasoningConfig(longest_delay=3), "longest_delay is 3; expected sho"),
        (lambda: IntervalDiscriminationConfig(longest=2), "longest is 2; expected shortest, which"),
        (lambda: IntervalTimingConfig(long=9), "long is 9; expected short, which is 10, or more"),
        (lambda: IntervalTimingConfig(margin=-1), "margin is -1; expected 0 or more"),
        (lambda: ReadySetGoConfig(ready=11), "shortest is 10; expected ready, which is 11, or"),
        (lambda: NBackConfig(back=0), "back must be at least 1"),
        (lambda: NBackConfig(symbols=1), "symbols must be at least 2"),
        (lambda: TMazeConfig(corridor=0), "corridor must be at least 1"),
    ],
)
def test_a_bad_config_is_refused_by_the_name_of_its_field(make, says):
    with pytest.raises(ValueError, match=says):
        make()
