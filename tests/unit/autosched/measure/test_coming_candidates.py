"""Constants of candidates that are still being built are made meanwhile, and only then."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.measure import task_memory
from autosched.measure.inputs import random_inputs
from autosched.measure.messages import ComingCandidate
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure
from autosched.measure.task_memory import TaskMemory
from autosched.measure.timing_worker import TimingWorker
from codegen.host import host_target
from codegen.kernel import Argument
from sketch.dag.dag import ComputeDAG
from sketch.lang.prepared import LinearMap
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import packing as packing_module
from sketch.lower.packing import Packing, Preparation, preparations
from sketch.population.population import sample
from sketch.rules.generate import generate

NOTHING = Failure("verify", "NoReference", "none")


def product() -> ComputeDAG:
    a = placeholder((24, 40), name="A")
    b = placeholder((40, 56), name="B", constant=True)
    k = reduce_axis(40)
    return ComputeDAG([compute((24, 56), lambda i, j: sum_(a[i, k] * b[k, j], axis=k), name="C")])


DAG = product()
SKETCH = next(s for s in generate(DAG, host_target(1)) if s.program.packs)
VALUES = sample(SKETCH, 1, np.random.default_rng(0)).row(0)
WANTED = preparations(SKETCH, VALUES)
COMING = ComingCandidate(SKETCH.key, VALUES)


def worker() -> TimingWorker:
    bench = SimpleNamespace(copies=lambda dag: 2)
    made = TimingWorker(MeasureOptions(), lambda: bench)
    made.task("t", pickle.dumps(DAG), NOTHING)
    made.sketch(SKETCH.key, pickle.dumps(SKETCH))
    return made


def test_what_was_made_is_what_a_kernel_gets() -> None:
    preparing = worker()
    preparing.prepare("t", [COMING])
    memory = preparing._tasks["t"]
    ((before, made),) = memory.packed.items()
    packing = WANTED["B"].packing
    assert packing is not None and len(made) == 2
    got = memory.input(Argument("B", "float32", packing.shape, "constant"), WANTED["B"])
    assert got is made and list(memory.packed) == [before]


def test_how_constants_are_packed_is_found_once_for_all_candidates_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sketch = pickle.loads(pickle.dumps(SKETCH))  # of which nothing is known
    rows = sample(sketch, 20, np.random.default_rng(1))
    batch = [rows.row(n) for n in range(20)]
    found = [preparations(sketch, values) for values in batch]
    monkeypatch.setattr(packing_module, "place", None)
    assert [preparations(sketch, values) for values in batch] == found
    assert len({str(preparation) for preparation in found}) > 1


def test_what_is_computed_of_a_constant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).integers(-2, 3, (3, 40)).tolist()
    filters = LinearMap((40, 56), tuple(map(tuple, rows)))
    memory = TaskMemory(DAG, random_inputs(DAG, 0), NOTHING)
    computed: list[int] = []
    apply = LinearMap.apply

    def noted(self: LinearMap, *arguments: Any) -> NDArray[Any]:
        computed.append(1)
        return apply(self, *arguments)

    monkeypatch.setattr(LinearMap, "apply", noted)
    ways = [Preparation(filters, Packing(filters.result_shape, 1, width)) for width in (16, 24)]
    for way in ways:
        assert way.packing is not None
        argument = Argument("B", "float32", way.packing.shape, "constant")
        (made,) = memory.input(argument, way)
        np.testing.assert_array_equal(made.reshape(-1), way.apply(memory.inputs["B"]).reshape(-1))
    assert len(computed) == 1 + len(ways), "once for the memory, once for each comparison"
    assert memory.nbytes > sum(array.nbytes for (array,) in memory.packed.values())


def test_what_cannot_be_made_is_left_to_whoever_loads_it() -> None:
    preparing = worker()
    preparing.prepare("t", [ComingCandidate("no sketch", VALUES), COMING])
    assert not preparing._tasks["t"].packed


def test_no_more_is_made_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = TaskMemory(DAG, random_inputs(DAG, 0), NOTHING)
    assert memory.make_constants(WANTED)
    (size,) = (array.nbytes for (array,) in memory.packed.values())
    monkeypatch.setattr(task_memory, "_PACKED_BYTES", 2 * size)
    assert not memory.make_constants(WANTED)
    assert memory.make_constants({"no constant": WANTED["B"]}) is False
