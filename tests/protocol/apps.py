"""A program that speaks the protocol as a script says: each answer is a line, or what ends it."""

import sys
import time

if __name__ == "__main__":
    for answer in sys.argv[2:]:
        sys.stdin.readline()
        if answer == "die":
            sys.exit(3)
        if answer == "sleep":
            time.sleep(60)
        print(answer, flush=True)
