"""Registers HackMatrix-v0 with gymnasium.

    import gymnasium
    import hackmatrix_rl

    gymnasium.make("HackMatrix-v0")

`import hackmatrix_rl` imports this module where gymnasium is imported already. Elsewhere, the name
`hackmatrix_rl.gymnasium:HackMatrix-v0` does. The environments are imported when they are made.
"""

import gymnasium

gymnasium.register(
    id="HackMatrix-v0",
    entry_point="hackmatrix_rl.interop.adapters._gymnasium_envs:HackMatrixEnv",
    vector_entry_point="hackmatrix_rl.interop.adapters._gymnasium_envs:HackMatrixVectorEnv",
)
