"""Arrays that are too large: one clear error, before the system ends the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.runtime.memory import allocate
from autosched.runtime.program import TensorSpec
from autosched.runtime.random_arrays import random_arrays
from autosched.system import memory_limit
from autosched.system.memory_limit import OutOfMemoryError, available_bytes, enough_memory, room_for

GIGABYTE = 1 << 30


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.system.memory_limit.available_bytes", lambda: GIGABYTE)


def test_what_is_available_is_read_from_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "meminfo"
    table.write_text("MemTotal: 9 kB\nMemAvailable:   2048 kB\nSwapFree: 1024 kB\n")
    monkeypatch.setattr(memory_limit, "_MEMINFO", table)
    assert available_bytes() == 3 << 20
    table.write_text("MemTotal: 9 kB\n")
    assert available_bytes() is None
    monkeypatch.setattr(memory_limit, "_MEMINFO", tmp_path / "none")
    assert available_bytes() is None
    with room_for("anything", 1 << 60):
        pass  # it is not known that it does not fit


@pytest.mark.parametrize(
    "call",
    [
        lambda: random_arrays([TensorSpec("x", (1 << 28,), "float32")]),
        lambda: allocate(GIGABYTE + 1),
        lambda: asd.workloads.get("SFM").task(1, 1 << 14, 17000, threads=1).module(),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], small_machine: None) -> None:
    pattern = r"[\d,]{13} bytes are needed, 1,073,741,824 are available \| .+ \| .+"
    with pytest.raises(OutOfMemoryError, match=pattern):
        call()


def test_the_command_line_says_so_in_one_line(
    small_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "bench --workload SFM --threads 1 --args n=16384,m=16384"
    assert main(line.split()) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "bytes are needed, 1,073,741,824 are available" in error


def test_a_failed_allocation_becomes_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("refused")

    failed = r"cannot allocate 80 bytes \| a thing \| choose"
    with pytest.raises(OutOfMemoryError, match=failed), room_for("a thing", 80):
        raise MemoryError
    failed = r"memory ran out: Unable .* \| a thing"
    with pytest.raises(OutOfMemoryError, match=failed), enough_memory("a thing"):
        np.empty(1 << 62, dtype=np.uint8)
    monkeypatch.setattr("mmap.mmap", refuse)
    with pytest.raises(OutOfMemoryError, match="cannot allocate 4 bytes"):
        allocate(4)


def test_extents_may_be_larger_than_any_integer() -> None:
    shape = (1 << 20,) * 4
    data = asd.placeholder(shape, name="data")
    dag = asd.ComputeDAG([asd.compute(shape, lambda *i: asd.exp(data[i]), name="out")])
    task = asd.Task(dag, asd.Target("cpu", threads=1))
    with pytest.raises(OutOfMemoryError, match="bytes are needed"):
        task.module()


def _expanded(extent: int) -> Any:
    """x + a constant vector of ``extent`` elements that is computed at import."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Add", ["x", "zeros"], ["y"]),
    ]
    shape = onnx.numpy_helper.from_array(np.array([extent], np.int64), "shape")
    x, y = (helper.make_tensor_value_info(name, kind, [n]) for name, n in (("x", 1), ("y", extent)))
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [shape]))


@pytest.mark.parametrize("extent", [1 << 31, 1 << 40, (1 << 63) - 1])
def test_a_huge_constant_is_refused_at_import(extent: int) -> None:
    message = rf"ConstantOfShape .* has {extent * 4:,} bytes, more than 2,147,483,648"
    with pytest.raises(asd.AutoschedError, match=message):
        asd.from_onnx(_expanded(extent))


def test_onnx_keeps_no_data_of_long_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    from autosched.onnx.importer import inference

    infer, used = onnx.shape_inference.infer_shapes, []

    def seen(model: Any, **options: Any) -> Any:
        used.append(options.get("data_prop", False))
        return infer(model, **options)

    monkeypatch.setattr(inference.shape_inference, "infer_shapes", seen)
    assert asd.from_onnx(_expanded(1 << 21)).outputs[0].shape == (1 << 21,)
    assert used and not any(used)
    used.clear()
    assert asd.from_onnx(_expanded(1 << 4)).outputs[0].shape == (1 << 4,)
    assert any(used)


def test_a_task_that_does_not_fit_is_not_tuned(small_machine: None, tmp_path: Path) -> None:
    task = asd.workloads.get("SFM").task(1, 1 << 14, 1 << 14, threads=1)
    message = r"2,147,483,648 bytes are needed, .* \| the arrays of task SFM\(1, 16384, 16384\)"
    with pytest.raises(OutOfMemoryError, match=message):
        task.tune(trials=2, log=tmp_path / "log.jsonl")
