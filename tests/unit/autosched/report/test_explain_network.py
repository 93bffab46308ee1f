"""Where a network loses time, against limits that are given; and the measured limits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.runtime.explanation import (
    CacheRates,
    Explanation,
    Machine,
    explain_program,
    measured_machine,
)
from autosched.runtime.peaks import Peaks
from autosched.runtime.probes.bandwidth import (
    copy_stream,
    measured_bandwidth,
    measured_write_bandwidth,
    read_stream,
    rounded_size,
)
from autosched.runtime.probes.operations import measured_calls
from autosched.runtime.probes.pinned_threads import best_seconds
from autosched.runtime.profiler import make_profile
from autosched.runtime.program import ExecutionPlan, HostStep, RepeatedSteps, Step, StepInfo
from autosched.tasks.compulsory_traffic import compulsory_bytes
from codegen.llvm.machine import emit_assembly
from sketch.errors import TargetError
from sketch.target.target import Target

TARGET = Target("cpu", "generic", threads=2)
F4 = "winograd-4x4, error 1.7e-06"
MACHINE = Machine(flops=1e9, bandwidth=1e8, working_bytes=1 << 20, threads=2)


def explanation() -> Explanation:
    infos = (
        StepInfo("conv", ("c1", "r1"), "conv", "s", 4000.0, "t1" * 8, "record", 100.0),  # 4 us
        StepInfo("add", ("add",), "add", "s", 10.0, "t2" * 8, "model", 600.0),  # 6 us
        StepInfo("winograd", ("w",), "conv", "s", 9000.0, "t3" * 8, "record", 1.0, F4),  # 9 us
    )
    sort = HostStep("p", (), (), StepInfo("sort", op="TopK", schedule="host"))
    steps = (*(Step("k", (), info) for info in infos), sort)
    program = ExecutionPlan("net", TARGET, (), (), steps, 0, 0)
    times = np.array([[5e-6, 16e-6, 8e-6, 4e-6]])
    return explain_program(
        program, make_profile(program, np.array([35e-6]), times, Peaks(1e9)), MACHINE
    )


def test_most_lost_comes_first() -> None:
    rows = explanation().rows
    assert [row.layers for row in rows] == ["add", "sort", "(rest)", "c1, r1", "w"]
    assert [row.lost_us for row in rows] == pytest.approx([10, 4, 2, 1, 0])
    assert [row.limit_us for row in rows] == pytest.approx([6, 0, 0, 4, 9])
    assert [row.bound for row in rows] == ["memory", "", "", "compute", "compute"]
    assert sum(row.lost_percent for row in rows) == pytest.approx(100)
    assert rows[0].limit_percent == pytest.approx(37.5)
    assert rows[0].gigabytes_per_s == pytest.approx(0.0375)
    assert rows[-1].limit_percent > 100  # faster than its limit: nothing lost


def test_text_json_and_table() -> None:
    found = explanation()
    lines = str(found).splitlines()
    assert lines[0] == "net: 0.035 ms, at best 0.018 ms, lost 0.017 ms; most lost first"
    assert found.best_us == pytest.approx(18)  # not 19: w is faster than its limit
    assert lines[3].endswith("model only: as written") and lines[4].endswith("on the host")
    assert lines[7].endswith("tuned: winograd-4x4, error 1.7e-06")
    assert lines[6].endswith("tuned: as written")
    assert "at 1 GFLOPS" in lines[-2] and "0.1 GB/s" in lines[-2]
    assert lines[-1].startswith("faster than their limits, and nothing lost: conv 112 %; either a")
    data = json.loads(json.dumps(found.to_json()))
    assert data["machine"] == {"flops": 1e9, "bandwidth": 1e8, "working_bytes": 1 << 20,
                               "threads": 2, "on_gpu": False, "note": "", "units": {},
                               "writing": 0.0, "functions": {}, "caches": []}  # fmt: skip
    assert data["rows"][0]["schedule"] == "model" and data["lost_us"] == pytest.approx(17)
    assert data["best_us"] == pytest.approx(18) and "limit_us" not in data
    frame = found.to_pandas()
    assert list(frame["lost_us"]) == sorted(frame["lost_us"], reverse=True)


def test_least_bytes_counts_every_tensor_once() -> None:
    a = asd.placeholder((4, 8), name="A")
    b = asd.placeholder((8,), name="B", constant=True)
    c = asd.compute((4, 8), lambda i, j: a[i, j] * b[j] + a[i, j], name="C")
    assert compulsory_bytes(asd.ComputeDAG([c])) == 4 * (32 + 8 + 32)


def test_the_working_set_is_rounded() -> None:
    assert rounded_size(0) == rounded_size(1) == 1 << 16
    assert rounded_size((1 << 20) + 1) == 5 << 18
    assert rounded_size(3 << 20) == 3 << 20  # what just fits a cache stays so
    assert rounded_size(10**12) == 1 << 28


def test_the_stream_loads_and_does_little_else() -> None:
    target = asd.Target("cpu-avx2", threads=1)
    text = emit_assembly(read_stream(target.vector_bytes), target)
    assert text.count("vxorps") + text.count("vpxor") >= 8


def test_copies_load_and_store_vectors() -> None:
    target = asd.Target("cpu-avx2", threads=1)
    lines = emit_assembly(copy_stream(target.vector_bytes), target).splitlines()
    moved = [line.split("\t")[2] for line in lines if "vmov" in line and "%ymm" in line]
    assert sum(text.startswith("%ymm") for text in moved) == 8
    assert sum(text.endswith("%ymm7") or "), %ymm" in text for text in moved) == 8


def test_bandwidth_is_measured_on_this_machine_only() -> None:
    target = asd.Target("cpu", threads=2)
    reading = measured_bandwidth(target, 1 << 18)
    assert 0 < measured_write_bandwidth(target, 1 << 18) <= 4 * reading * (1 + 1e-9)
    with pytest.raises(TargetError, match="the bandwidth for the cuda target"):
        measured_bandwidth(Target("cuda", "sm_90"), 1)


def test_every_thread_has_its_own_share() -> None:
    seen: list[int] = []
    assert best_seconds(seen.append, 3, repeats=2) > 0
    assert sorted(seen) == [0, 0, 1, 1, 2, 2]


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["explain", "mlp", "--threads", "1", "--repeats", "2"]
    assert main([*line, "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["rows"]) == 4  # three operators and the rest
    assert {row["bound"] for row in data["rows"] if row["layers"] != "(rest)"} == {"memory"}
    assert main(line) == 0
    text = capsys.readouterr().out
    assert "model only" in text and "most lost first" in text


def test_the_limit_on_a_tensor_unit_is_that_of_the_unit() -> None:
    info = StepInfo("conv", ("c1",), "conv", "s", 4000.0, "t" * 16, "record", 1.0, unit="fast")
    program = ExecutionPlan("net", TARGET, (), (), (Step("k", (), info),), 0, 0)
    profile = make_profile(program, np.array([5e-6]), np.array([[4e-6]]), Peaks(1e9))
    found = explain_program(program, profile, replace(MACHINE, units={"fast": 4e9}))
    assert {row.layers: row.limit_us for row in found.rows}["c1"] == pytest.approx(1)
    assert ", or 4 on fast," in str(found).splitlines()[-1]


def limits(info: StepInfo, machine: Machine) -> tuple[float, str]:
    """Microseconds, and what binds."""
    program = ExecutionPlan("net", TARGET, (), (), (Step("k", (), info),), 0, 0)
    profile = make_profile(program, np.array([5e-6]), np.array([[4e-6]]), Peaks(1e9))
    row = next(r for r in explain_program(program, profile, machine).rows if r.layers == info.name)
    return row.limit_us, row.bound


def test_functions_count_as_long_as_they_take() -> None:
    info = StepInfo("a", flops=4000.0, bytes=1.0, functions=(("exp", 1000.0), ("sin", 500.0)))
    assert limits(info, MACHINE) == (pytest.approx(4), "compute")
    machine = replace(MACHINE, functions={"exp": 2e8, "log": 1.0})
    assert limits(info, machine) == (pytest.approx(3 + 5), "compute")


def test_what_is_written_counts_as_long_as_that_takes() -> None:
    info = StepInfo("a", flops=1.0, bytes=600.0, written=200.0)
    assert limits(info, MACHINE) == (pytest.approx(6), "memory")
    machine = replace(MACHINE, writing=2e7)
    assert limits(info, machine) == (pytest.approx(4 + 10), "memory")
    text = str(replace(explanation(), machine=replace(machine, functions={"exp": 2e9})))
    assert "what is written 0.02 GB/s\n" in text
    assert "and functions at so many billions a second: exp 2, and inputs" in text


def test_a_module_says_what_its_operators_compute_and_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory that limits are measured on has its inputs and outputs, too."""
    x = asd.placeholder((16, 32), name="x")
    powers = asd.compute((16, 32), lambda i, j: asd.exp(x[i, j]), name="y")
    target = asd.Target("cpu", threads=1)
    module = asd.Task(asd.ComputeDAG([powers]), target=target).module()
    (step,) = module.program.steps
    assert step.info.functions == (("exp", 512.0),)
    assert (step.info.bytes, step.info.written) == (4096.0, 2048.0)
    asked: list[object] = []
    monkeypatch.setattr(
        "autosched.runtime.explanation.measured_machine", lambda *a: (asked.extend(a), MACHINE)[1]
    )
    module._loaded.machine()
    assert asked == [target, 4096, (), {"exp": None}]


def test_a_variant_counts_by_its_own_operations() -> None:
    info = StepInfo("a", flops=4000.0, bytes=1.0, algorithm=F4, computed=1500.0)
    assert limits(info, MACHINE) == (pytest.approx(1.5), "compute")


def test_traffic_counts_at_the_rates_of_the_caches_that_hold_it() -> None:
    near, middle = CacheRates(200.0, 4e8, 2e8), CacheRates(1000.0, 2e8, 2e8)
    machine = replace(MACHINE, caches=(near, middle))
    assert limits(StepInfo("a", bytes=100.0), machine) == (pytest.approx(0.25), "memory")
    assert limits(StepInfo("a", bytes=100.0, written=100.0), machine)[0] == pytest.approx(0.5)
    assert limits(StepInfo("a", bytes=1200.0), machine)[0] == pytest.approx(0.5 + 4 + 2)
    assert limits(StepInfo("a"), machine) == (0, "")
    text = str(replace(explanation(), machine=machine))
    assert "; up to 0.0002 MB of them at 0.4 GB/s, written 0.2; up to 0.001 MB" in text


def test_each_iteration_of_a_loop_finds_its_data_in_caches() -> None:
    machine = replace(MACHINE, caches=(CacheRates(200.0, 4e8, 4e8),))
    assert machine.memory_s(StepInfo("a", bytes=400.0), times=2) == pytest.approx(1e-6)
    infos = (StepInfo("a", bytes=400.0), StepInfo("b", bytes=400.0))
    steps = tuple(Step("k", (), info) for info in infos)
    program = ExecutionPlan("net", TARGET, (), (), steps, 0, 0, (RepeatedSteps(1, 1, 2),))
    profile = make_profile(program, np.array([9e-6]), np.array([[4e-6, 4e-6]]), Peaks(1e9))
    rows = {row.layers: row.limit_us for row in explain_program(program, profile, machine).rows}
    assert rows["a"] == pytest.approx(0.5 + 2) and rows["b"] == pytest.approx(1)


def test_caches_are_measured_where_the_network_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """On half of what they hold; noise makes none slower than what is farther."""
    probes = "autosched.runtime.probes"
    reading = {1 << 24: 5e9, 1 << 20: 4e9, 1 << 22: 8e9, 1 << 19: 9e9}
    monkeypatch.setattr(f"{probes}.bandwidth.measured_bandwidth", lambda _, size: reading[size])
    monkeypatch.setattr(f"{probes}.bandwidth.measured_write_bandwidth", lambda *_: 3e9)
    monkeypatch.setattr(f"{probes}.peak.measured_peak", lambda _: 1e9)
    target = replace(TARGET, l2_bytes=1 << 20, l3_bytes=1 << 23)
    large = measured_machine(target, 1 << 24)
    assert large.caches == (CacheRates(1 << 21, 5e9, 3e9), CacheRates(1 << 23, 8e9, 3e9))
    assert measured_machine(target, 1 << 20).caches == ()


def test_functions_are_measured() -> None:
    target = asd.Target("cpu", threads=2)
    for name in ("exp", "div", "pow"):
        assert measured_calls(target, name) > 0
