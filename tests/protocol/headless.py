"""`hackmatrix-headless` as a real process."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

TIMEOUT = 240


def headless_command():
    """What the script runs that an installer makes of the entry in pyproject.toml."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    module, name = project["project"]["scripts"]["hackmatrix-headless"].split(":")
    return [sys.executable, "-c", f"from {module} import {name}; {name}()"]


class Process:
    """A process that answers lines."""

    def __init__(self, command, cache):
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": cache},
        )

    def ask(self, action, **more):
        return self.send(json.dumps({"action": action, **more}).encode())

    def send(self, line):
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self):
        """Ends its input; the exit status, and what else it said on both streams."""
        said, errors = self.child.communicate(timeout=TIMEOUT)
        return self.child.returncode, said.decode(), errors.decode()
