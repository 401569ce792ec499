"""Training runs: from settings to a folder with everything in it, watched, saved, resumed."""

from hackmatrix_rl.runs._compare import Comparison, compare, contender
from hackmatrix_rl.runs._compose import compose, make_mesh, run_keys
from hackmatrix_rl.runs._curve import draw_curve
from hackmatrix_rl.runs._doctor import Finding, examine
from hackmatrix_rl.runs._folder import (
    RunFolder,
    check_run_folder,
    make_run_folder,
    reopen_run_folder,
)
from hackmatrix_rl.runs._health import Health
from hackmatrix_rl.runs._launch import Launch, launch
from hackmatrix_rl.runs._lock import RunLock
from hackmatrix_rl.runs._open_sinks import send_summary
from hackmatrix_rl.runs._plan import make_plan
from hackmatrix_rl.runs._players import find_hackmatrix_player, find_player
from hackmatrix_rl.runs._preflight import check_played, estimate_memory, preflight
from hackmatrix_rl.runs._replaying import ReplayWriter
from hackmatrix_rl.runs._report import report_of
from hackmatrix_rl.runs._resume import ResumableRun, find_resumable_run
from hackmatrix_rl.runs._run import RunResult, run
from hackmatrix_rl.runs._save_run import SaveRun
from hackmatrix_rl.runs._settings import check_unchanged, config_here, use_devices
from hackmatrix_rl.runs._verify_resume import ProofError, ResumeProof, verify_resume
from hackmatrix_rl.runs._versions import versions

__all__ = [
    "Comparison",
    "Finding",
    "Health",
    "Launch",
    "ProofError",
    "ReplayWriter",
    "ResumableRun",
    "ResumeProof",
    "RunFolder",
    "RunLock",
    "RunResult",
    "SaveRun",
    "check_played",
    "check_run_folder",
    "check_unchanged",
    "compare",
    "compose",
    "config_here",
    "contender",
    "draw_curve",
    "estimate_memory",
    "examine",
    "find_hackmatrix_player",
    "find_player",
    "find_resumable_run",
    "launch",
    "make_mesh",
    "make_plan",
    "make_run_folder",
    "preflight",
    "reopen_run_folder",
    "report_of",
    "run",
    "run_keys",
    "send_summary",
    "use_devices",
    "verify_resume",
    "versions",
]
