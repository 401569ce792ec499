"""An app in whose window a person plays: `hackmatrix-headless` behind it, and moves at random.

python person.py LOG COMMAND...: each move is answered unasked, and its number goes into the log.
"""

import json
import random
import subprocess
import sys


def main(log, *command):
    game = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(line):
        game.stdin.write(line)
        game.stdin.flush()
        return game.stdout.readline()

    def show(line):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    hand = random.Random(0)
    for line in sys.stdin.buffer:
        answer = ask(line)
        show(answer)
        legal = json.loads(answer).get("validActions")
        if legal:
            action = hand.choice(legal)
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"{action}\n")
            show(ask(json.dumps({"action": "step", "actionIndex": action}).encode() + b"\n"))
    game.stdin.close()
    game.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
