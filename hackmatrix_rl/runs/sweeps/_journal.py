"""The journal of a sweep, which is untrusted, and the checks of what Optuna reads from it."""

import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hackmatrix_rl.system import open_in_place, open_regular
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, first_line

IDENTITY = "hackmatrix_rl"
"""The attribute of a study with the settings that all of its trials share."""
_LONGEST_LINE = 2**20  # bytes; Optuna writes some hundred
_OPERATIONS = range(11)  # Optuna's operation codes
_BLOCK = 2**16
_LARGEST = 2**63
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_RUNG = "completed_rung_"
_PLAIN = (bool, int, float, str, type(None))


class Journal:
    """The backend of Optuna's `JournalStorage`: a file with one JSON object in each line.

    Optuna's own backend leaves an unusable file if a full disk truncates a line. Here an append
    adds all of its lines or none. A truncated line at the end, from a process that was killed while
    writing, is not read, and the next append removes it.

    Args:
        file: the path of the file; an append creates it if it is missing.
        lock: one of Optuna's locks, held by one process at a time.
        report: takes a message about a truncated line.
    """

    def __init__(self, file: Path, lock: Any, report: Callable[[str], object]) -> None:
        self._file, self._lock, self._report = file, lock, report
        self._begins = [0]  # byte offsets of each line that was read, and of the next one
        self._noticed = False

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """The records from a line number on."""
        number = min(log_number_from, len(self._begins) - 1)
        try:
            file = open_regular(self._file)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._begins[number])
            while line := file.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise DamagedFileError(f"line {number + 1} has more than {_LONGEST_LINE} bytes")
                if not line.endswith(b"\n"):
                    self._notice()
                    return
                if number == len(self._begins) - 1:
                    self._begins.append(self._begins[-1] + len(line))
                if number >= log_number_from:
                    yield _record(line, number + 1)
                number += 1

    def append_logs(self, logs: Sequence[Mapping[str, Any]]) -> None:
        """Appends a line for each record."""
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        self._lock.acquire()
        try:
            self._append(lines)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._file)) from error
        finally:
            self._lock.release()

    def _append(self, lines: bytes) -> None:
        file = open_in_place(self._file, os.O_RDWR | os.O_APPEND)
        try:
            end = _end_of_lines(file)
            if end < os.fstat(file).st_size:
                self._notice()
                os.ftruncate(file, end)
            try:
                while lines:
                    lines = lines[os.write(file, lines) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, end)
                raise
        finally:
            os.close(file)

    def _notice(self) -> None:
        if not self._noticed:
            self._noticed = True
            self._report(
                f"{self._file}: ends in half a line, because a write was cut short; it is left out"
            )


def _end_of_lines(file: int) -> int:
    """The offset after the last complete line of a file."""
    end = os.fstat(file).st_size
    while end:
        begin = max(0, end - _BLOCK)
        if (last := os.pread(file, end - begin, begin).rfind(b"\n")) >= 0:
            return begin + last + 1
        end = begin
    return 0


def _record(line: bytes, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"line {number} is not JSON") from error
    known = isinstance(record, dict) and isinstance(record.get("worker_id"), str)
    if not known or type(code := record.get("op_code")) is not int or code not in _OPERATIONS:
        raise DamagedFileError(f"line {number} is not a record of Optuna")
    return dict(record)


@contextmanager
def usable(place: str) -> Iterator[None]:
    """Makes any error of Optuna about stored content a ConfigError.

    Optuna checks little of what it reads, so it may raise anything: KeyError, TypeError, overflow.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they quote untrusted content
            yield
    except ConfigError:
        raise
    except Exception as error:  # of Optuna, SQLAlchemy or a database's driver
        damaged = isinstance(error, DamagedFileError)
        said = str(error) if damaged else first_line(error)
        raise ConfigError(f"{place} cannot be used: {said.rstrip('.')}.") from error


def check_study(study: Any) -> None:
    """Checks what Optuna has read: the types and ranges of everything that this package uses."""
    if len(study.directions) != 1 or study.direction.name not in ("MINIMIZE", "MAXIMIZE"):
        raise DamagedFileError("it has not one metric to minimize or to maximize")
    identity = study.user_attrs.get(IDENTITY, {})
    if not isinstance(identity, dict) or not all(map(_is_text, [*identity, *identity.values()])):
        raise DamagedFileError("its identity is not texts by name")
    spaces: dict[str, Any] = {}
    for each in study.get_trials(deepcopy=False):
        wrong = _wrong_with(each, spaces)
        if wrong:
            raise DamagedFileError(f"trial {each.number} has {wrong}")


def _wrong_with(trial: Any, spaces: dict[str, Any]) -> str:
    """The first fault of a trial; empty without one. `spaces` collects those of parameters."""
    values = trial.values
    done = trial.state.name == "COMPLETE"
    if values is None:
        if done:
            return "no value"
    elif len(values) != 1 or not _is_number(values[0]):
        return "a value that is not a number"
    if trial.params.keys() != trial.distributions.keys():
        return "parameters without a space"
    for name, value in trial.params.items():
        space = trial.distributions[name]
        if not _NAME.fullmatch(name):
            return "a parameter that cannot be a setting"
        if not _is_space(space) or spaces.setdefault(name, space) != space:
            return f"another space of {name}"
        inside = value in space.choices if hasattr(space, "choices") else _is_number(value)
        if not inside or (hasattr(space, "low") and not space.low <= value <= space.high):
            return f"a value of {name} outside of its space"
    reports = trial.intermediate_values
    if not all(type(at) is int and 0 <= at <= 100 and _is_number(x) for at, x in reports.items()):
        return "reports that are not numbers"
    rungs = [value for name, value in trial.system_attrs.items() if name.startswith(_RUNG)]
    if not all(map(_is_number, rungs)):
        return "rungs that are not numbers"
    return "" if _is_text(trial.user_attrs.get("why", "")) else "a reason that is not text"


def _is_space(space: Any) -> bool:
    if hasattr(space, "choices"):
        texts = [each for each in space.choices if isinstance(each, str)]
        numbers = [each for each in space.choices if isinstance(each, int | float)]
        plain = all(isinstance(each, _PLAIN) for each in space.choices)
        return plain and all(map(_is_text, texts)) and all(map(_is_finite, numbers))
    step = getattr(space, "step", None)
    ends = (space.low, space.high, *(() if step is None else (step,)))
    return all(map(_is_number, ends)) and (not space.log or space.low > 0)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and _is_finite(value)


def _is_finite(value: float) -> bool:
    return abs(value) < _LARGEST if isinstance(value, int) else math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()
