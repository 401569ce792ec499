"""What a training on HackMatrix may learn by, and which settings belong to what."""

FROM_REWARDS, FROM_TEACHER, FROM_SEQUENCES = "ppo", "imitation", "r2d2"
ALGORITHMS = (FROM_REWARDS, FROM_TEACHER, FROM_SEQUENCES)

ONLY_PPO = frozenset(
    {
        "aux_coefficient",
        "aux_every",
        "aux_victory",
        "clip_coef",
        "critic_warmup_timesteps",
        "debug",
        "ent_coef",
        "entropy_floor",
        "frontier_share",
        "init",
        "kl_alarm",
        "normalize_advantage",
        "remat",
        "reward",
        "stop_after_kl",
        "target_kl",
        "teacher_kl",
        "value_clip",
    }
)
"""Settings that only PPO has, or has for a reason of its own."""

OUTPUT_SETTINGS = ("dueling", "rescale_values")
"""Settings of Q-learning that decide what the network's outputs mean, whatever their shapes."""

NOT_REPLAYED = (
    *("aux_coefficient", "aux_every", "aux_victory", "clip_coef", "critic_warmup_timesteps"),
    *("debug", "ent_coef", "frontier_share", "gae_lambda", "minibatch_size"),
    *("normalize_advantage", "num_minibatches", "num_steps", "offload_optimizer"),
    *("program_weight", "random_actions", "remat", "soft_labels", "stop_after_kl", "symmetries"),
    *("target_kl", "teacher", "teacher_games", "teacher_kl", "teacher_search", "update_epochs"),
    *("value_clip", "value_head", "vf_coef"),
)
"""Settings that have no effect on Q-learning."""
