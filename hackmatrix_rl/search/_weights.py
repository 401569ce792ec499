"""Named weights and their meaning; the numbers are in a JSON file for each league."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from hackmatrix_rl.games.hackmatrix import LAST_STAGE, League, Program
from hackmatrix_rl.system import read_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing

Table = TypeVar("Table", bound="Weights")


class Weights(eqx.Module):
    """Named weights."""

    MEANING: ClassVar[Mapping[str, str]]  #: What each weight multiplies, by name.
    SECTION: ClassVar[str]  #: The key of this table in a file of weights.

    numbers: Float32[Array, " rows"]  #: The weights, in the order of `MEANING`.

    @classmethod
    def from_numbers(cls: type[Table], numbers: Mapping[str, Any]) -> Table:
        """A table with these numbers; a ConfigError if one is missing, unknown or not finite."""
        missing, unknown = cls.MEANING.keys() - numbers.keys(), numbers.keys() - cls.MEANING.keys()
        if missing or unknown:
            what = f"no row {min(missing)!r}" if missing else f"an unknown row {min(unknown)!r}"
            raise ConfigError(f"the weights of {cls.SECTION} have {what}")
        for name, number in numbers.items():
            if not isinstance(number, int | float) or not math.isfinite(number):
                raise ConfigError(f"the weight {name!r} of {cls.SECTION} is {number!r}: no number")
        ordered = [numbers[name] for name in cls.MEANING]
        return cls(jnp.asarray(ordered, jnp.float32))

    @classmethod
    def shipped(cls: type[Table], league: League) -> Table:
        """The package's table for a league."""
        return cls.read(Path(__file__).parent / f"weights_{league}.json")

    @classmethod
    def read(cls: type[Table], file: Path) -> Table:
        """Reads a file of weights, such as the tuner writes; a ConfigError if it has no table."""
        with refusing(f"{file} is no file of weights: it ", "", of=DamagedFileError):
            found = read_json(file)
        if found is None:
            raise ConfigError(f"{file} is no file of weights: it does not exist")
        table = found.get(cls.SECTION)
        if not isinstance(table, dict):
            raise ConfigError(f"{file} is no file of weights: it has no table {cls.SECTION!r}")
        return cls.from_numbers(table)

    def as_dict(self) -> dict[str, float]:
        """The numbers by name."""
        numbers = np.asarray(self.numbers).tolist()
        return dict(zip(self.MEANING, numbers, strict=True))

    def __getitem__(self, name: str) -> Float32[Array, ""]:
        return jnp.asarray(self.numbers)[list(self.MEANING).index(name)]


_PROGRAMS = {program.name: f"the program {program.name} is owned" for program in Program}


class EvaluationWeights(Weights):
    """The weights of `heuristic`."""

    SECTION = "evaluation"
    MEANING: ClassVar[Mapping[str, str]] = {
        "hp_1": "one hp is left",
        "hp_2": "two hp are left",
        "hp_3": "all three hp are left",
        "stage": "each stage reached",
        "exit_distance": "each step to the exit; times 0.15 while there is something to take",
        "siphon": "each data siphon in hand",
        "pickup": "each pickup on the board",
        "pickup_distance": "each step to the nearest pickup",
        "credit": "each credit, up to 20",
        "energy": "each energy, up to 20",
        "credits_root": "the square root of the credits",
        "energy_root": "the square root of the energy",
        "score": "each point of the score",
        "attack": "each point of attack damage above 1, up to 3",
        "threat": "each enemy that can attack in the next turn",
        "more_threats": "each such enemy but one",
        "threat_out_of_line": "each such enemy that is not in the line of fire",
        "two_turns_away": "each enemy that can attack in two turns",
        "two_turns_in_line": "each such enemy in the line of fire",
        "three_turns_away": "each enemy that can attack in three turns",
        "far": "each enemy that needs more turns",
        "hits": "each hit needed to kill the enemies within three turns",
        "transmission": "each transmission",
        "transmission_in_line": "each transmission in the line of fire",
        "virus": "each virus",
        "daemon": "each daemon",
        "glitch": "each glitch",
        "cryptog": "each cryptog",
        "plan": "each point of the best siphon, with a data siphon in hand",
        "plan_distance": "minus this for each step to the cell of a siphon",
        "spawn": "minus this for each transmission that a siphon calls",
        "plan_resource": "in the value of a siphon: each credit or energy",
        "plan_point": "in the value of a siphon: each point of a data block",
        "plan_question": "in the value of a siphon: each question block",
        "undo_ready": "UNDO is owned, with a credit for it",
        "calm": "CALM is active",
        "step": "STEP is active: each enemy that can attack in the next turn",
        "late": "each turn of a stage after 20",
        "threat_at_hp_1": "at one hp: each enemy that can attack within two turns",
        "line_of_fire": "each cell in the line of fire",
        "crowd": "each enemy or transmission that follows to the next stage",
        "plan_without_siphon": "each point of the best siphon, with a pickup but no data siphon",
        "walk": "each step to the exit while UNDO walks to victory",
        "plan_first_credit": "in the value of a siphon: the credit that UNDO lacks",
        **_PROGRAMS,
    }

    @property
    def programs(self) -> Float32[Array, " num_programs"]:
        """The value of each owned program."""
        return jnp.asarray(self.numbers)[-len(Program) :]


class ReturnWeights(EvaluationWeights):
    """The weights of `heuristic` for a player that collects points, and its rules for UNDO.

    A point has a value where it will be paid: while UNDO walks to victory (`walks_by_undo`), and in
    the last stage. There the player *harvests*: it aims at the siphon with the most points.
    """

    SECTION = "return"
    MEANING: ClassVar[Mapping[str, str]] = {
        "score_ready": "each point, taken or in a siphon, while UNDO walks to victory",
        "score_last": "each point, taken or in a siphon, in the last stage",
        "victory": "the game is won",
        "ready_hp": "each hp while UNDO walks to victory",
        "harvest_hp": "the least hp to harvest with while UNDO walks to victory",
        "harvest_base": "in the plan of a harvest: the value of the siphon by the weights below",
        "harvest_crowd": "minus this for each enemy or transmission",
        "harvest_flight": "minus this for each enemy or transmission and each step to the exit",
        "harvest_step": "minus this for each step to the cell of a siphon",
        "harvest_exit_step": "minus this for each of 10 steps from there to the exit",
        "harvest_plan": "each point of the best plan, with a data siphon in hand",
        "harvest_plan_without": "each point of the best plan, with a pickup but no data siphon",
        "harvest_siphon": "each of three data siphons in hand while there is a plan",
        "harvest_pickup": "each pickup on the board while there is a plan",
        "harvest_pickup_distance": "each step to the nearest pickup while there is a plan",
        "harvest_walk": "each step to the exit; times 0.15 while there is something to harvest",
        "sortie_gain": "the least gain in value of a new board over the previous one, to stay",
        "sortie_commit": "the same, when the history is about to lose the previous board",
        "sortie_hp": "the least hp to stay with",
        "margin": "the least gain in value of a snapshot over the position, for UNDO",
        "margin_best": "the same over the best result of another action",
        **EvaluationWeights.MEANING,
    }


class WinWeights(Weights):
    """The weights of `win_probability`: log-odds of a victory at the start of a stage."""

    SECTION = "win_probability"
    MEANING: ClassVar[Mapping[str, str]] = {
        **{f"stage_{stage}": f"stage {stage}" for stage in range(1, LAST_STAGE + 1)},
        "hp": "each hp above 2.5",
        "credits": "each five credits, up to 15",
        "energy": "each five energy, up to 15",
        "siphons": "each data siphon, up to 3",
        "attack": "each point of attack damage above 1, up to 3",
        "crowd": "each enemy or transmission that follows from the stage before",
        "RESET": "RESET is owned",
        "CRASH": "CRASH is owned",
        "ROW_or_COL": "each of ROW and COL that is owned",
        "UNDO": "UNDO is owned",
    }
