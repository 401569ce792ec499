import pytest

from hackmatrix_rl.algorithms.imitation import ImitationConfig
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.algorithms.supervised import SupervisedConfig
from hackmatrix_rl.runs import details, rate_in_words, update_in_words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "0.001 falling to 0 over 8 updates"),
        ({"learning_rate": "constant:0.001"}, "0.001 throughout"),
        (
            {"vary": "learning_rate=1e-4,constant:3e-4"},
            "linear:0.0001:0.0, constant:0.0003 over 8 updates",
        ),
        ({"vary": "learning_rate=1e-4,3e-4"}, "0.0001, 0.0003 falling to 0 over 8 updates"),
        ({"vary": "gamma=0.99,0.997"}, "0.001 falling to 0 over 8 updates"),
        ({"learning_rate": "cosine:0.001:0"}, "cosine:0.001:0.0 over 8 updates"),
    ],
)
def test_the_learning_rates_of_all_trainings_are_told(settings, words):
    assert rate_in_words(PPOConfig(**settings), "8 updates") == words


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (PPOConfig(), "f32, learning rate 0.001 falling"),
        (PPOConfig(optimizer="muon"), "f32, muon, learning rate 0.001 falling"),
        (SupervisedConfig(task="sudoku", optimizer="adam"), "f32, adam, learning rate "),
    ],
)
def test_another_optimizer_than_the_default_is_named(config, words):
    assert words in update_in_words(config)


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        (PPOConfig(), []),
        (
            PPOConfig(env="cartpole", init="runs/a"),
            ["Environment: cartpole", "Weights at the start: of runs/a"],
        ),
        (
            ImitationConfig(teacher="runner", seeds=2, seed=3, vary="learning_rate=1e-3,1e-4"),
            [
                "Teacher: runner",
                "Trainings: 4 in one program: seeds 3 to 4, learning_rate=1e-3,1e-4; the first "
                "healthy one plays in evaluations during the training, the one of the highest "
                "return at its end",
            ],
        ),
        (
            SupervisedConfig(eval_puzzles=10),
            ["Puzzles: 1,000, sudoku of 4 x 4, easy; 10 fresh ones for evaluation"],
        ),
    ],
)
def test_a_run_says_what_it_learns_from(config, lines):
    assert details(config) == lines
