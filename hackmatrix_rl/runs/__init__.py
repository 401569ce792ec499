"""Training runs: from settings to a folder with everything in it, watched, saved, resumed."""

from hackmatrix_rl.config import (
    make_environment,
)
from hackmatrix_rl.runs._compare import (
    Comparison,
    compare,
    contender,
)
from hackmatrix_rl.runs._compose import (
    check_is_ppo,
    compose,
    make_mesh,
    run_keys,
)
from hackmatrix_rl.runs._compose_self_play import (
    compose_self_play,
)
from hackmatrix_rl.runs._curve import (
    draw_curve,
)
from hackmatrix_rl.runs._devices import (
    config_here,
    use_devices,
)
from hackmatrix_rl.runs._doctor import (
    Finding,
    examine,
)
from hackmatrix_rl.runs._folder import (
    RunFolder,
    check_run_folder,
    make_run_folder,
    reopen_run_folder,
)
from hackmatrix_rl.runs._imitating import (
    save_demonstrations,
)
from hackmatrix_rl.runs._launch import (
    Launch,
    launch,
)
from hackmatrix_rl.runs._league import (
    play_league,
    play_perfect,
    standings_as_dict,
)
from hackmatrix_rl.runs._lock import (
    RunLock,
)
from hackmatrix_rl.runs._memory_estimate import (
    estimate_memory,
)
from hackmatrix_rl.runs._plan import (
    make_plan,
)
from hackmatrix_rl.runs._players import (
    find_player,
)
from hackmatrix_rl.runs._preflight import (
    check_played,
    preflight,
)
from hackmatrix_rl.runs._replaying import (
    ReplayWriter,
)
from hackmatrix_rl.runs._report import (
    report_of,
)
from hackmatrix_rl.runs._resume import (
    ResumableRun,
    find_resumable_run,
)
from hackmatrix_rl.runs._run import (
    RunResult,
    run,
)
from hackmatrix_rl.runs._unchanged import (
    check_unchanged,
)
from hackmatrix_rl.runs._verify_resume import (
    ProofError,
    ResumeProof,
    check_provable,
    verify_resume,
)
from hackmatrix_rl.runs._versions import (
    versions,
)
from hackmatrix_rl.runs._wandb_summary import (
    send_summary,
)
from hackmatrix_rl.runs._work import (
    board_in_words,
    network_in_words,
    replay_in_words,
)

__all__ = [
    "Comparison",
    "Finding",
    "Launch",
    "ProofError",
    "ReplayWriter",
    "ResumableRun",
    "ResumeProof",
    "RunFolder",
    "RunLock",
    "RunResult",
    "board_in_words",
    "check_is_ppo",
    "check_played",
    "check_provable",
    "check_run_folder",
    "check_unchanged",
    "compare",
    "compose",
    "compose_self_play",
    "config_here",
    "contender",
    "draw_curve",
    "estimate_memory",
    "examine",
    "find_player",
    "find_resumable_run",
    "launch",
    "make_environment",
    "make_mesh",
    "make_plan",
    "make_run_folder",
    "network_in_words",
    "play_league",
    "play_perfect",
    "preflight",
    "reopen_run_folder",
    "replay_in_words",
    "report_of",
    "run",
    "run_keys",
    "save_demonstrations",
    "send_summary",
    "standings_as_dict",
    "use_devices",
    "verify_resume",
    "versions",
]
