"""An exported agent plays HackMatrix from the screen, with ONNX Runtime and NumPy alone.

hackmatrix-rl export pretrained --format onnx --output agent.onnx
python play_exported.py agent.onnx hackmatrix-headless --seed 7

The second program is any that speaks the line protocol, such as the original game. It sends the
screen. This script tracks the other parts of the observation `tactical`.
"""

import json
import subprocess
import sys

import numpy as np
import onnxruntime

# The numbers of the player, in the order of the contract.
NUMBERS = (
    *("playerRow", "playerCol", "playerHP", "credits", "energy", "stage", "dataSiphons"),
    *("baseAttack", "showActivated", "scheduledTasksDisabled", "score", "turn"),
)
ENEMIES = ("virus", "daemon", "glitch", "cryptog")
BLOCKS = ("", "data", "program", "question", "pickup", "exit")
# Transmissions that a siphon calls for a block of each program.
SPAWNS = (4, 4, 6, 5, 3, 1, 4, 2, 2, 3, 4, 7, 3, 2, 2, 6, 4, 4, 4, 5, 3, 8, 4)
FIRST_PROGRAM = 5


def fields_of(cell):
    """The fields of a cell's packed word; those that are left out are 0."""
    block, enemy = cell.get("block") or {}, cell.get("enemy") or {}
    coming = cell.get("transmission") or {}
    kind = block.get("blockType") or ("pickup" if cell["isDataSiphon"] else "")
    fields = {
        "content": BLOCKS.index("exit" if cell["isExit"] else kind),
        "spawn_count": block.get("transmissionSpawnCount", 0),
        "credits": cell["credits"],
        "energy": cell["energy"],
        "siphoned": block.get("isSiphoned", False),
        "siphon_center": cell["siphonCenter"],
        "transmission": min(coming.get("turnsUntilSpawn", 0), 7),
    }
    if kind == "data":
        fields["value"] = block["points"]
    elif kind == "program":
        fields["value"] = block["programActionIndex"] - FIRST_PROGRAM
    if enemy:
        fields["enemy"] = 1 + ENEMIES.index(enemy["type"])
        fields["enemy_hp"] = enemy["hp"]
        fields["enemy_stunned"] = enemy["isStunned"]
        fields["enemy_from_siphon"] = enemy["spawnedFromSiphon"]
    if coming.get("enemyType"):
        fields["transmission_type"] = 1 + ENEMIES.index(coming["enemyType"])
    return fields


class Eyes:
    """Makes the agent's observations from the screens of a game.

    Args:
        contract: the contract of the exported agent.
    """

    def __init__(self, contract):
        self.bits = contract["observation"]["cell"]
        self.actions = contract["actions"]["names"]
        self.rewinds = contract["league"] == "original"
        self.past = []  # the snapshots of UNDO: screen, uses of ATK+, uses of REDUC

    def begin(self, screen):
        """Starts a game with this screen."""
        self.screen = screen
        self.past.clear()
        self.pending = 0
        self.begin_stage()
        if screen["turn"] >= self.interval:
            self.next_task = screen["turn"] + self.interval

    def begin_stage(self):
        self.interval = self.next_task = 13 - self.screen["stage"]
        self.step_active = False
        self.attacks = self.reductions = 0

    def follow(self, action, answer):
        """Updates the state after an action and its answer."""
        before, self.screen = self.screen, answer["observation"]
        info, name = answer["info"], self.actions[action]
        if info["invalid_action"]:
            return
        if name == "SIPHON":
            self.interval = max(4, self.interval - 1)
            self.next_task += 5
            self.pending += self.called(before["cells"])
        self.step_active |= name == "STEP"
        self.attacks += name == "ATK_PLUS"
        self.reductions += name == "REDUC"
        if name == "UNDO":
            _, self.attacks, self.reductions = self.past.pop()
        if info["stage_complete"]:
            if not answer["done"]:
                self.begin_stage()
            if not self.rewinds:
                self.past.clear()
        elif name in ("UP", "DOWN", "LEFT", "RIGHT", "SIPHON", "WAIT"):
            self.end_turn()

    def end_turn(self):
        if self.step_active:  # the enemies' turn was skipped
            self.step_active = False
            return
        if self.screen["turn"] >= self.next_task and not self.screen["scheduledTasksDisabled"]:
            self.next_task = self.screen["turn"] + self.interval
        self.pending = 0
        self.past.append((self.screen, self.attacks, self.reductions))

    def called(self, cells):
        """The number of transmissions that a siphon called from the cross of cells."""
        row, col = self.screen["playerRow"], self.screen["playerCol"]
        count = 0
        for r, c in ((row, col), (row + 1, col), (row - 1, col), (row, col - 1), (row, col + 1)):
            block = cells[r][c].get("block") if 0 <= r < 6 and 0 <= c < 6 else None
            if not block or block["isSiphoned"]:
                continue
            if block["blockType"] != "question":
                count += block["transmissionSpawnCount"]
                continue
            shown = self.screen["cells"][r][c]["block"]
            if shown["blockType"] == "data":
                first = shown["points"]
            else:
                first = SPAWNS[shown["programActionIndex"] - FIRST_PROGRAM]
            count += max(0, first - self.reductions)
        return count

    def observation(self):
        """The arrays of the agent's observation, as a batch of one."""
        screen, grid = self.screen, np.zeros(36, np.uint32)
        for place, cell in enumerate(cell for row in screen["cells"] for cell in row):
            for name, value in fields_of(cell).items():
                grid[place] |= np.uint32(int(value) << self.bits[name])
        for hint in screen["cryptogHints"]:
            grid[hint["row"] * 6 + hint["col"]] |= np.uint32(1 << self.bits["last_known"])
        owned = sum(1 << (action - FIRST_PROGRAM) for action in set(screen["ownedPrograms"]))
        recalled = []
        for back in (1, 2):
            past = self.past[-back][0] if len(self.past) >= back else None
            owns_undo = past and self.actions.index("UNDO") in past["ownedPrograms"]
            recalled += [past["playerHP"], past["credits"], owns_undo] if past else [0, 0, 0]
        memory = [
            *(*recalled, min(len(self.past), 15), self.next_task - screen["turn"], self.interval),
            *(self.pending, self.step_active, self.attacks),
        ]
        return {
            "numbers": np.array([[screen[name] for name in NUMBERS]], np.int32),
            "programs": np.array([owned], np.uint32),
            "grid": grid[None],
            "memory": np.array([memory], np.int32),
        }


def play(agent, ask, rng):
    """Plays a game to its end. Returns the last answer and the number of moves."""
    contract = json.loads(agent.get_modelmeta().custom_metadata_map["contract"])
    described = contract["network"]["carry"]
    carry = {each["name"]: np.zeros((1, *each["shape"]), each["dtype"]) for each in described}
    inputs = {each.name for each in agent.get_inputs()}
    eyes, moves, answer = Eyes(contract), 0, {"done": False}
    eyes.begin(ask({"action": "reset"})["observation"])
    while not answer["done"]:
        mask = np.zeros((1, len(eyes.actions)), bool)
        mask[0, ask({"action": "getValidActions"})["validActions"]] = True
        seen = {**eyes.observation(), "mask": mask, **carry}
        given = {name: array for name, array in seen.items() if name in inputs}
        logits, _, *memory = agent.run(None, given)
        carry = dict(zip(carry, memory, strict=True))
        action = int(np.argmax(logits[0]))
        if contract["actions"]["choice"] != "the likeliest":
            action = int(np.argmax(logits[0] + rng.gumbel(size=logits.shape[1])))
        answer = ask({"action": "step", "actionIndex": action})
        eyes.follow(action, answer)
        moves += 1
    return answer, moves


def main(model, command):
    agent = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as game:

        def ask(request):
            game.stdin.write(json.dumps(request) + "\n")
            game.stdin.flush()
            return json.loads(game.stdout.readline())

        answer, moves = play(agent, ask, np.random.default_rng())
        game.stdin.close()
    end = "died" if answer["info"]["death"] else "won"
    print(f"{moves} moves: {end} in stage {answer['observation']['stage']}")
    print(f"score {answer['observation']['score']}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["hackmatrix-headless"])
