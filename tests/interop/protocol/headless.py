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
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    module, name = project["project"]["scripts"]["hackmatrix-headless"].split(":")
    return [sys.executable, "-c", f"from {module} import {name}; {name}()"]


class Process:
    """A process that answers lines. Its ends of the pipes do not block, which some clients set."""

    def __init__(self, command, cache):
        (given, requests), (answers, taken) = os.pipe(), os.pipe()
        for end in (given, taken):
            os.set_blocking(end, False)
        self.child = subprocess.Popen(
            command,
            stdin=given,
            stdout=taken,
            stderr=subprocess.PIPE,
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": cache},
        )
        for end in (given, taken):
            os.close(end)
        self.child.stdin, self.child.stdout = os.fdopen(requests, "wb"), os.fdopen(answers, "rb")

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
