"""A program that speaks the protocol as a script says: each answer is a line, or what ends it."""

import subprocess
import sys
import time

SLEEPS = 600

if __name__ == "__main__":
    for answer in sys.argv[2:]:
        if answer == "deaf":
            time.sleep(SLEEPS)
        sys.stdin.readline()
        if answer == "die":
            sys.exit(3)
        if answer == "sleep":
            time.sleep(SLEEPS)
        if answer.startswith("child "):
            # It keeps the standard output open, and the file.
            child = (
                "import sys, time; file = open(sys.argv[1], 'w');"
                f"print('here', file=file, flush=True); time.sleep({SLEEPS})"
            )
            subprocess.Popen([sys.executable, "-c", child, answer.removeprefix("child ")])
            sys.exit(0)
        while answer == "endless":
            sys.stdout.write(1000 * "x")
        print(answer, flush=True)
