"""What a task is called: written once per task into a log, for people.

No record is found by it, but its shapes say how near two tasks are.

    {"v": 5, "title": "conv2d.1 1x56x56x64, 3x3x64x64 -> 1x56x56x64", "task": "9f...",
     "flops": 2.3e8, "crc32": "0a1b2c3d"}

A log without such lines, or with damaged ones, has the same records: they lack their titles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from autosched.records import fields
from autosched.records.checksum import FIELD as CHECKSUM
from autosched.records.checksum import with_checksum
from autosched.records.errors import RecordError
from autosched.tasks.spec import TaskSpec
from sketch.errors import quoted

# How the lines begin; the key of the task follows the text.
_LINE: Final = re.compile(rb'\{"v":\d+,"title":"(?:[^"\\]|\\.)*","task":"([^"\\]*)",')
_FIELDS: Final = ("v", "title", "task", "flops", CHECKSUM)
# Enough for names of two operators; what is longer is cut.
_MOST_CHARACTERS: Final = 40
# More inputs than these are biases, scales and the like.
_MOST_ARRAYS: Final = 2


@dataclass(frozen=True, slots=True)
class Title:
    """A task for people.

    Attributes:
        text: its name, and the shapes of its largest inputs and of its outputs.
        flops: floating-point operations of one run.
    """

    text: str
    flops: float


def title_of(task: TaskSpec) -> Title:
    """The title of a task: ``conv2d.1 1x56x56x64, 3x3x64x64 -> 1x56x56x64``."""
    shapes = [tensor.given_shape for tensor in task.dag.inputs]
    largest = sorted(range(len(shapes)), key=lambda n: -prod(shapes[n]))[:_MOST_ARRAYS]
    inputs = [_extents(shapes[n]) for n in sorted(largest)]
    outputs = [_extents(array.shape) for array in task.dag.output_arrays]
    name = task.name if task.name.isprintable() else ascii(task.name)
    arrays = f"{', '.join(inputs)} -> {', '.join(outputs[:_MOST_ARRAYS])}"
    return Title(f"{name[:_MOST_CHARACTERS]} {arrays}", task.flops)


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def title_line(version: int, task: str, title: Title) -> dict[str, Any]:
    """The line that gives the task of key ``task`` its title."""
    data = {"v": version, "title": title.text, "task": task, "flops": title.flops}
    return with_checksum(data)


def is_title(value: Any) -> bool:
    """Whether the JSON value of a line is the title of a task."""
    return isinstance(value, dict) and "title" in value


def read_title(data: Mapping[str, Any], where: str) -> tuple[str, Title]:
    """Key and title of a task; the schema and the checksum have been looked at.

    Raises:
        RecordError: a field is missing, unknown, or has a wrong value.
    """
    if set(data) != set(_FIELDS):
        raise RecordError(f"fields {quoted(sorted(data))} are not those of a title", where)
    try:
        text, flops = fields.name(data["title"]), fields.number(data["flops"])
        if flops < 0 or not text.isprintable():
            raise ValueError(f"{quoted(text)} with {flops} FLOPs is no title")
        return fields.name(data["task"]), Title(text, flops)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"the title has a wrong value: {error}", where) from error


def titled_in(text: bytes) -> frozenset[str]:
    """The keys of the tasks that the bytes of a log have a title of."""
    found = (_LINE.match(line) for line in text.split(b"\n"))
    return frozenset(match[1].decode(errors="replace") for match in found if match is not None)
