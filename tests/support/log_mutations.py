"""Logs with altered values; ``log_judge`` says what becomes of them.

Every alteration leaves valid JSON or nearly so, and most have a checksum that fits: what is tried
is not whether damage is noticed, but whether a value is believed.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.records.checksum import with_checksum
from autosched.records.log import RecordLog
from autosched.records.record import TRIAL_READERS, to_json
from autosched.records.shared import headers_of, trial_of
from autosched.search.options import SearchOptions
from autosched.tuning.options import TuneOptions

Data = dict[str, Any]
_FASTER_THAN_ALL_S = 1e-9
_FIELDS = {
    "v", "task", "target", "variant", "steps", "decisions", "phase", "result", "seed", "versions",
    "time", "crc32",
}  # fmt: skip
_NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 16, 64, 255, 1 << 20, 1 << 31, 1 << 63, 10**30, -(10**30), 0.5, 1e308,
    1e-320, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (None, True, False, "", "x", "C", "\ud800", [], {}, [[1]], {"v": 2})


def sample_task() -> asd.Task:
    """A product with a packed operand and an odd size in every direction, and what follows it."""
    a, b = asd.placeholder((13, 29), name="A"), asd.placeholder((29, 37), name="B", constant=True)
    k = asd.reduce_axis(29, "k")
    c = asd.compute((13, 37), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = asd.compute((13, 37), lambda i, j: asd.maximum(c[i, j], 0.0), name="D")
    return asd.Task(asd.ComputeDAG([d]), asd.Target("cpu-avx2", threads=1))


def reduction_task() -> asd.Task:
    """Few long sums, which are split in parts, and their share: a stage that is read in rows."""
    a, k = asd.placeholder((3, 1500), name="A"), asd.reduce_axis(1500, "k")
    s = asd.compute((3,), lambda i: asd.sum(a[i, k] * a[i, k], axis=k), name="S")
    share = asd.compute((3, 1500), lambda i, j: a[i, j] / s[i], name="R")
    return asd.Task(asd.ComputeDAG([share]), asd.Target("cpu-avx2", threads=2))


Arrays = Mapping[str, NDArray[np.float32]]


def _product(arrays: Arrays) -> NDArray[np.float64]:
    product = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    return np.maximum(product, 0.0)


def _shares(arrays: Arrays) -> NDArray[np.float64]:
    a = arrays["A"].astype(np.float64)
    return np.asarray(a / (a * a).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Sample:
    """A program, the names of its constants, and what it computes."""

    task: Callable[[], asd.Task]
    constants: tuple[str, ...]
    expected: Callable[[Arrays], NDArray[np.float64]]


PRODUCT = Sample(sample_task, ("B",), _product)
REDUCTION = Sample(reduction_task, (), _shares)


@dataclass(frozen=True)
class SampleLog:
    """A log of a program that tuning wrote.

    Attributes:
        folder: where altered logs are written.
        lines: its records as JSON objects that stand alone.
        sample: the program.
    """

    folder: Path
    lines: tuple[Data, ...]
    sample: Sample = PRODUCT

    @staticmethod
    def make(folder: Path, trials: int = 12, sample: Sample = PRODUCT) -> SampleLog:
        """Tune the program by simulated times."""
        path = folder / "sample.jsonl"
        options = TuneOptions(trials=trials, search=SearchOptions(population=64, batch_trials=8))
        sample.task().tune(options=options, runner=SimulatedRunner(), log=path)
        return SampleLog(folder, tuple(map(to_json, RecordLog(path).read().records)), sample)

    def with_line(self, number: int, altered: Sequence[str]) -> tuple[str, int]:
        """The log with the lines ``altered`` for its record ``number``, and where they end."""
        lines: list[str] = []
        end = 0
        for position, data in enumerate(self.lines):
            own = altered if position == number else shared_lines(data)
            lines += [line for line in own if line not in lines or own is altered]
            end = len(lines) if position == number else end
        return "\n".join(lines) + "\n", end


@dataclass(frozen=True)
class Mutation:
    """An altered log.

    Attributes:
        what: was done, for messages.
        number: of the altered line, from 1.
        text: the whole log.
    """

    what: str
    number: int
    text: str


def mutate(log: SampleLog, rng: random.Random) -> Mutation:
    """One record altered in one to three places, and the fastest of all if it is believed."""
    number = rng.randrange(len(log.lines))
    data = copy.deepcopy(log.lines[number])
    if "seconds" in data["result"]:
        data["result"]["seconds"] = [_FASTER_THAN_ALL_S]
    done = [rng.choice(_MUTATIONS)(data, log, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if rng.random() < 0.2:
        return _altered_in_place(log, number, rng)
    text, line = log.with_line(number, _encoded(data, rng))
    return Mutation("; ".join(done), line, text)


def shared_lines(data: Data) -> list[str]:
    """The lines of a record: headers and trial, or one line if it cannot be split."""
    try:
        headers = headers_of(data)
        measured = {name: data[name] for name in TRIAL_READERS if name in data}
        trial = trial_of(headers, data["decisions"].values(), measured)
        if set(data) <= _FIELDS:
            return [json.dumps(line, separators=(",", ":")) for line in (*headers, trial)]
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    return [json.dumps(with_checksum(data))]


def _encoded(data: Data, rng: random.Random) -> list[str]:
    """As lines of a schema that is read, with checksums that fit or with the one that it had."""
    kind = rng.random()
    if kind < 0.2:
        data = {key: value for key, value in data.items() if key != "crc32"}
        data["v"] = 1 if data.get("v") == 4 else data.get("v")
        lines = [json.dumps(data)]
    elif kind < 0.6:
        lines = shared_lines(data)
    else:
        lines = [json.dumps(with_checksum(data) if kind < 0.95 else data)]
    if rng.random() < 0.03:
        lines[-1] = lines[-1].replace("1", "1e400", 1)
    return lines


def _altered_in_place(log: SampleLog, number: int, rng: random.Random) -> Mutation:
    """A header or a trial altered as it stands in the log, signed again more often than not."""
    text, end = log.with_line(number, shared_lines(log.lines[number]))
    lines = text.splitlines()
    at = rng.choice([end - 1, *(n for n, line in enumerate(lines) if '"header"' in line)])
    before, data = lines[at], json.loads(lines[at])
    done = rng.choice(_MUTATIONS)(data, log, rng)
    signed = with_checksum(data) if rng.random() < 0.8 else data
    if json.loads(before) == signed:
        done, signed = "v: 0", {**signed, "v": 0}
    lines[at] = json.dumps(signed)
    return Mutation(done, at + 1, "\n".join(lines) + "\n")


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    pairs = list(data.items() if isinstance(data, dict) else enumerate(data))
    found: list[tuple[Any, Any]] = []
    for key, value in pairs:
        found.append((data, key))
        if isinstance(value, dict | list):
            found += _places(value)
    return found


def _place(data: Data, rng: random.Random) -> tuple[Any, Any]:
    """A random place; steps and decisions are as likely as all the rest."""
    parts = [data[part] for part in ("steps", "decisions") if data.get(part)]
    parts = [part for part in parts if isinstance(part, dict | list)]
    return rng.choice(_places(rng.choice([data, *parts])))


def _set(container: Any, key: Any, value: Any) -> str:
    before, container[key] = container[key], value
    return f"{key!r}: {before!r:.60} -> {value!r:.60}"


def _other_value(data: Data, log: SampleLog, rng: random.Random) -> str:
    container, key = _place(data, rng)
    pool = _OTHERS if rng.random() < 0.4 else _NUMBERS
    return _set(container, key, copy.deepcopy(rng.choice(pool)))


def _digit(data: Data, log: SampleLog, rng: random.Random) -> str:
    places = [
        (c, k) for c, k in _places(data) if type(c[k]) in (int, float) and math.isfinite(c[k])
    ]
    if not places:
        return "nothing"
    container, key = rng.choice(places)
    text = list(repr(container[key]))
    at = rng.choice([n for n, letter in enumerate(text) if letter.isdigit()])
    text[at] = rng.choice("0123456789")
    try:
        return _set(container, key, json.loads("".join(text)))
    except ValueError:  # a leading zero
        return _set(container, key, 0)


def _another_name(data: Data, log: SampleLog, rng: random.Random) -> str:
    texts = [(c, k) for c, k in _places(data) if isinstance(c[k], str)]
    if not texts:
        return "nothing"
    container, key = rng.choice(texts)
    return _set(container, key, _value(rng.choice(texts)))


def _value(place: tuple[Any, Any]) -> Any:
    return place[0][place[1]]


def _swap(data: Data, log: SampleLog, rng: random.Random) -> str:
    """Two values of one object or list change places."""
    holders = [v for v in (_value(p) for p in _places(data)) if isinstance(v, dict | list)]
    holder = rng.choice([h for h in holders if len(h) > 1] or [data])
    one, two = rng.sample(list(holder) if isinstance(holder, dict) else range(len(holder)), 2)
    holder[one], holder[two] = holder[two], holder[one]
    return f"swapped {one!r:.40} and {two!r:.40}"


def _move(data: Data, log: SampleLog, rng: random.Random) -> str:
    """A value goes to another place, and may leave its own."""
    value = copy.deepcopy(_value(_place(data, rng)))
    container, key = _place(data, rng)
    return _set(container, key, value)


def _delete(data: Data, log: SampleLog, rng: random.Random) -> str:
    container, key = _place(data, rng)
    del container[key]
    return f"deleted {key!r}"


def _repeat(data: Data, log: SampleLog, rng: random.Random) -> str:
    """An entry of a list once more, somewhere else."""
    lists = [v for v in (_value(p) for p in _places(data)) if isinstance(v, list) and v]
    if not lists:
        return "nothing"
    entries = rng.choice(lists)
    entry = copy.deepcopy(rng.choice(entries))
    entries.insert(rng.randrange(len(entries) + 1), entry)
    return f"repeated {entry!r:.60}"


def _foreign_part(data: Data, log: SampleLog, rng: random.Random) -> str:
    """A step, or a whole field, of another record."""
    other = copy.deepcopy(rng.choice(log.lines))
    if rng.random() < 0.5 and isinstance(data.get("steps"), list) and data["steps"]:
        at = rng.randrange(len(data["steps"]))
        return _set(data["steps"], at, rng.choice(other["steps"]))
    key = rng.choice(list(other))
    data.setdefault(key, None)
    return _set(data, key, other[key])


def _step_number(data: Data, log: SampleLog, rng: random.Random) -> str:
    """A factor, a dimension, a position or a number of parts that a step might have."""
    steps = [s for s in data.get("steps") or () if isinstance(s, dict)]
    places = [p for p in _places(steps) if isinstance(_value(p), int | str) and p[1] != "version"]
    if not places:
        return "nothing"
    container, key = rng.choice(places)
    number = rng.choice((0, 1, 2, 3, 5, 8, 13, 16, 64, 1000, 10**6, 10**9))
    is_position = isinstance(container[key], str) and rng.random() < 0.7
    return _set(container, key, str(number) if is_position else number)


def _bomb(data: Data, log: SampleLog, rng: random.Random) -> str:
    """All loops of a stage unrolled, or in vectors, or in parallel."""
    kind = rng.choice(("unrolled", "vectorized", "parallel", "block", "thread", "serial"))
    for step in data.get("steps") or ():
        if isinstance(step, dict) and step.get("kind") == "annotate" and rng.random() < 0.7:
            step["execution"] = kind
    return f"annotated as {kind}"


_MUTATIONS: tuple[Callable[[Data, SampleLog, random.Random], str], ...] = (
    _other_value, _other_value, _digit, _digit, _another_name, _swap, _move, _delete, _repeat,
    _foreign_part, _step_number, _step_number, _bomb,
)  # fmt: skip
