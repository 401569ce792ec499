"""How a run tells the shell what became of it."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `hackmatrix-rl train`. What each asks for stands beside it."""

    DONE = 0
    """Trained to the end, and everything is saved."""
    CRASHED = 1
    """An error of the program; the traceback was printed. Resume when it is understood."""
    BAD_INPUT = 2
    """A setting that cannot work; nothing was begun."""
    UNHEALTHY = 3
    """Stopped because training had gone wrong; the last good checkpoint is kept."""
    UNSAVED = 4
    """Trained on, but what came last could not be written to disk. Make room, then resume."""
    PEER_LOST = 5
    """Another process of the run was lost. Start all of them again with `--resume-run`."""
    INTERRUPTED = 130
    """SIGINT (Ctrl-C): saved and ended. Resume whenever you like."""
    TERMINATED = 143
    """SIGTERM: likewise. This is what a machine that is taken away sends."""
