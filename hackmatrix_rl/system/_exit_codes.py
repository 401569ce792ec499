"""Exit statuses."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `hackmatrix-rl train`, and what to do next."""

    DONE = 0
    """Trained to the end, and everything is saved."""
    CRASHED = 1
    """An error of the program; the traceback was printed. Understand it, then resume."""
    BAD_INPUT = 2
    """A setting that cannot work; nothing was started."""
    UNHEALTHY = 3
    """Stopped because training went wrong; the last good checkpoint is kept."""
    UNSAVED = 4
    """Trained, but could not write the last results to disk. Make room, then resume."""
    PEER_LOST = 5
    """Another process of the run was lost. Start all of them again with `--resume-run`."""
    INTERRUPTED = 130
    """SIGINT (Ctrl-C): saved and ended. Resume at any time."""
    TERMINATED = 143
    """SIGTERM: the same. Machines send it before they shut down."""
