"""A task whose candidates say which fault they have (tests/support/faulty_builds.py)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from autosched.measure.function_reference import resolve
from autosched.tasks.candidate import Candidate
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target

TARGET = host_target(threads=1)
# Loaded as child processes load it, by its path.
_PATH = Path(__file__).parent / "faulty_builds.py"
faults = sys.modules[resolve(f"{_PATH}:build").__module__]


@dataclass(frozen=True)
class SmallTask:
    dag: ComputeDAG
    target: Target = TARGET
    key: str = "product"


def product() -> ComputeDAG:
    a, w = placeholder((64,), name="A"), placeholder((64,), name="W", constant=True)
    return ComputeDAG([compute((64,), lambda i: a[i] * w[i], name="C")])


TASK = SmallTask(product())
SKETCH = Sketch(TASK.dag, (), TARGET)


def candidate(fault: int, sketch: Sketch = SKETCH) -> Candidate:
    return Candidate(sketch, {"fault": fault})
