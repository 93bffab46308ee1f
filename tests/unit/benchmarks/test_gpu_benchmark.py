"""The benchmark of GPUs: what is kept between runs, how time is shared, what its rows say."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.records.record import Record, record_of
from autosched.runtime.profiler import Profile, ProfileRow
from benchmarks.gpu_parts import bandwidth, networks, rivals, units
from benchmarks.gpu_parts.agreement import agreement, drafted, rank_correlation
from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.candidates import counted, tasks
from benchmarks.gpu_parts.child import run_part, target_of
from benchmarks.gpu_parts.limited import run_limited
from benchmarks.gpu_parts.operators import OperatorCase, _beside_rival, compared
from benchmarks.gpu_parts.row_log import NAME, RowLog
from benchmarks.gpu_parts.run import PARTS, finished
from benchmarks.gpu_parts.suite import counts
from benchmarks.gpu_parts.wheels import install, missing, wanted
from codegen.gpu.emulation.library import compiler
from codegen.gpu.open import open_device
from costmodel.extract import draft_seconds
from sketch.population.population import sample
from sketch.target.gpu_targets import cuda_target

ROOT = Path(__file__).parents[3]
EMULATED = target_of("emulated")


def bench(folder: Path, seconds: float = 10.0, **known: dict) -> Bench:
    return Bench("bandwidth", EMULATED, folder, time.monotonic() + seconds, known)


def test_the_newest_row_of_a_name_counts_and_torn_lines_do_not(tmp_path: Path) -> None:
    log, other = RowLog(tmp_path, "h200"), RowLog(tmp_path, "t4")
    for part, name, value in (("b", "x", 1), ("a", "x", 2), ("b", "x", 3)):
        log.append(part, {"name": name, "value": value})
    other.append("b", {"name": "x", "value": 4})
    with (tmp_path / NAME).open("a") as file:
        file.write('{"device": "h200", "part": "b"')
    assert [(row["part"], row["value"]) for row in log.rows()] == [("b", 3), ("a", 2)]
    assert log.of("b")["x"]["value"] == 3 and other.of("b")["x"]["value"] == 4
    assert RowLog(tmp_path / "none", "h200").rows() == []


def test_time_is_shared_by_what_is_not_done(tmp_path: Path) -> None:
    setting = bench(tmp_path, 12.0, a={"done": True}, b={"done": False, "tuned_s": 3.0})
    turns = list(setting.turns(["a", "b", "c", "d"]))
    assert [name for name, _ in turns] == ["b", "c", "d"]
    assert [seconds for _, seconds in turns] == pytest.approx([4.0, 6.0, 12.0], rel=0.01)
    assert setting.tuned_s("b") == 3.0 and setting.tuned_s("c") == 0.0
    assert list(bench(tmp_path, 0.0).turns(["a"])) == []


def test_a_part_is_finished_when_it_ended_and_all_its_rows_are_done() -> None:
    ended = {"name": "run", "exit": 0}
    assert finished({"run": ended, "a": {"done": True}})
    assert not finished({"run": ended, "a": {"done": False}})
    assert not finished({"run": {"exit": 1}, "a": {"done": True}})
    assert not finished({})


def test_ratios_are_of_medians_and_a_rival_that_is_missing_says_why() -> None:
    class Slower:
        name = "slower 1.0"

        def seconds(self) -> float:
            return 3e-3

        def close(self) -> None:
            raise AssertionError("whoever made it closes it")

    row = compared(lambda: 2e-3, Slower(), 1.0)
    assert row["ratio"] == pytest.approx(1.5) and row["rival"] == "slower 1.0"
    assert row["bar"] == {"at_least": 1.0, "holds": True}
    alone = compared(lambda: 2e-3, "no rival here: none", 1.0)
    assert alone == {"ours_ms": 2.0, "rival": "no rival here: none"}


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_a_copy_moves_as_many_bytes_and_gives_its_memory_back() -> None:
    with open_device(EMULATED) as device:
        copies = rivals.Copies(device, 1 << 20)
        assert (1 << 20) / copies.seconds() == pytest.approx(EMULATED.card.memory_bytes_per_s)
        copies.close()
        assert device.memory().free == device.memory().total


class FakeCublas:
    """Notes what is called; all of it succeeds."""

    def __init__(self) -> None:
        self.called: list[tuple] = []

    def __getattr__(self, name: str) -> object:
        return lambda *arguments: self.called.append((name, *arguments)) or 0


def test_a_product_of_cublas_has_its_matrices_in_the_other_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeCublas()
    monkeypatch.setattr(rivals, "_cublas", lambda: library)
    with open_device(EMULATED) as device:
        rival = rivals.Cublas(device, 64)
        assert rival.name == "cublas 0" and rival.seconds() == 0
        products = [arguments for name, *arguments in library.called if name == "cublasSgemm_v2"]
        assert len(products) == 1 + rivals.COPIES
        _, *flags, m, n, k, _, first, _, second, _, _, out, width = products[0]
        assert flags == [0, 0] and (m, n, k, width) == (64, 64, 64, 64)
        assert [second.value, first.value, out.value] == rival._matrices
        rival.close()
        assert device.memory().free == device.memory().total
    assert library.called[-1][0] == "cublasDestroy_v2"


def some_records() -> tuple[object, list[Record]]:
    (task, *_) = tasks(EMULATED, small=True)
    sketch = task.sketches[0]
    population = sample(sketch, 12, np.random.default_rng(0))
    from autosched.tasks.candidate import Candidate

    seconds = 3.0 * draft_seconds(population)
    made = [
        record_of(
            task.key,
            Candidate(sketch, population.row(n)),
            EMULATED,
            Timing((float(s),), "warm", 1e-7),
        )
        for n, s in enumerate(seconds)
    ]
    return task, made


def test_the_draft_model_is_compared_with_what_was_measured() -> None:
    task, records = some_records()
    (program,) = drafted([task.dag], records)["programs"]
    assert program["records"] == 12
    assert program["rank_correlation"] == pytest.approx(1.0)
    assert program["measured_over_draft"] == pytest.approx(3.0, rel=1e-3)
    assert min(program["terms"].values()) >= 0 and max(program["terms"].values()) > 1
    assert drafted([task.dag], records[:3]) == {"programs": []}
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([9.0, 5, 1])) == pytest.approx(-1)


@pytest.mark.parametrize(("steps_us", "holds"), [((50, 48), True), ((50, 40), False)])
def test_the_steps_of_a_profile_are_compared_with_the_graph(
    steps_us: tuple[float, ...], holds: bool
) -> None:
    """Whatever its total is: that is of runs in which no step is timed."""

    def row(us: float) -> ProfileRow:
        return ProfileRow("", "", "", us, 0.0, 0.0, 0.0, "", "")

    profile = Profile("net", tuple(map(row, steps_us)), row(0), row(100), 1, 132, 1.0)
    found = agreement(profile, 100.0)
    assert found["steps_us"] == sum(steps_us) and found["bar"]["holds"] is holds


def test_wrong_candidates_are_counted() -> None:
    _, (right, other, *_) = some_records()
    from dataclasses import replace

    wrong = replace(right, result=Failure("verify", WRONG_RESULT, "relative error 1"))
    lost = replace(other, result=Failure("run", "DeviceLostError", "lost"))
    found = counted([right, wrong, lost, replace(right, phase="final")])
    assert (found["checked"], found["wrong"]) == (2, 1)
    assert found["failed"] == {"run DeviceLostError": 1}
    assert found["bar"] == {"at_most": 0, "holds": False}
    assert "relative error 1" in found["messages"][0]


def test_all_random_candidates_are_of_programs_for_the_target() -> None:
    found = tasks(EMULATED, small=True)
    assert len({task.key for task in found}) == len(found) == 2
    assert all(task.target == EMULATED for task in found)


def test_a_rival_that_fails_leaves_our_time() -> None:
    def broken(_: object) -> rivals.Rival:
        raise RuntimeError("no algorithm")

    case = OperatorCase("x", bandwidth.programs(bench(Path()))["add"], broken, 1.0, 0.0)
    row = _beside_rival(case, None, lambda: 2e-3)  # type: ignore[arg-type]
    assert row == {"ours_ms": 2.0, "rival": "no rival here: no algorithm"}


def test_a_program_is_ended_with_all_that_it_started_and_what_it_said_is_kept(
    tmp_path: Path,
) -> None:
    script = (
        "import subprocess, sys, time\n"
        "print('begun', flush=True)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(float(sys.argv[1]))\n"
        "sys.exit(3)\n"
    )
    words = [sys.executable, "-c", script]
    slow, quick = (run_limited([*words, s], t, tmp_path) for s, t in (("600", 3.0), ("0", 60.0)))
    assert slow.status is None and quick.status == 3
    for ended in (slow, quick):
        begun, child = ended.lines
        assert begun == "begun" and not _runs(int(child))


def _runs(pid: int) -> bool:
    """Whether a process is there and is no zombie, a moment after its end."""
    stop = time.monotonic() + 10.0
    while time.monotonic() < stop:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_our_networks_come_before_their_rivals_and_ratios_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "_SMALL", {"mlp": None, "dcgan": None})
    monkeypatch.setattr(networks.zoo, "build", lambda name, image: name)
    monkeypatch.setattr(networks, "_ours", lambda *_: {"ours_ms": 2.0, "done": True})
    monkeypatch.setattr(
        networks, "_rival", lambda *_: {"rival": "torch", "rival_ms": 3.0, "done": True}
    )
    rows = list(networks.run(bench(tmp_path)))
    names = [row["name"] for row in rows]
    assert names == [
        "mlp ours", "dcgan ours", "mlp torch.compile", "mlp ours", "dcgan torch.compile",
        "dcgan ours",
    ]  # fmt: skip
    assert "ratio" not in rows[0] and rows[3]["ratio"] == rows[5]["ratio"] == 1.5


def test_counts_of_a_report(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuites><testsuite tests="3" failures="1" errors="0" skipped="1" time="2.5"/>'
        "</testsuites>"
    )
    assert counts(path) == {"tests": 3, "failures": 1, "errors": 0, "skipped": 1, "seconds": 2.5}


def test_nothing_is_installed_where_nothing_is_missing(tmp_path: Path) -> None:
    assert "numpy" in wanted() and missing(["numpy", "no-such-distribution"]) == (
        "no-such-distribution",
    )
    assert install(tmp_path, tmp_path / "site") == ()


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_parts_write_rows_that_a_later_run_goes_on_from(tmp_path: Path) -> None:
    run_part("facts", EMULATED, tmp_path, 1.0)
    rows = RowLog(tmp_path, "emulated h200").of("facts")
    assert rows["copy_bandwidth"]["ratio"] == pytest.approx(1.0)
    assert rows["fma_peak"]["ratio"] == pytest.approx(1.0)
    # No time for tuning: what the draft model likes best, to be tuned by the next run.
    (row, *_) = bandwidth.run(bench(tmp_path, 1.0))
    assert row["name"] == "softmax" and not row["done"] and row["tuned_s"] == 0
    assert row["ours_ms"] > 0 and row["gb_per_s"] > 0 and "no rival here" in row["rival"]


def parts_of(log: Path) -> list[int]:
    """Processes of parts that write to a log."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(log).encode() in words and b"benchmarks.gpu_parts.child" in words:
            found.append(int(path.parent.name))
    return found


def until(holds: Callable[[], object]) -> None:
    stop = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < stop
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_run_started_ends_with_it(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "benchmarks/gpu.py", "--device", "emulated", "--parts", "candidates"]
    places = ["--log", str(log := tmp_path / "log"), "--json", str(tmp_path / "gpu.json")]
    with subprocess.Popen(
        [*words, *places], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        until(lambda: parts_of(log))
        started.send_signal(number)
        _, said = started.communicate(timeout=120)
    until(lambda: not parts_of(log))
    killed = number is signal.SIGKILL
    assert started.returncode == (-number if killed else 1)
    assert killed or said.strip() == f"interrupted: the same command goes on from {log}"
    assert not RowLog(log, "emulated h200").rows()


@pytest.mark.slow
def test_the_command_on_the_emulated_device(tmp_path: Path) -> None:
    words = [sys.executable, "benchmarks/gpu.py", "--device", "emulated", "--minutes", "1"]
    places = ["--log", str(tmp_path / "log"), "--json", str(tmp_path / "gpu.json")]
    rows: list[dict] = []
    for _ in range(5):  # each run goes on from the last; how many it takes depends on the load
        subprocess.run([*words, *places], cwd=ROOT, check=True, timeout=200)
        rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
        cut = [row for row in rows if "error" in row or "end" in row]
        if {row["part"] for row in rows} == set(PARTS) and not cut:
            break
    assert {row["part"] for row in rows} == set(PARTS)
    assert [row for row in rows if "error" in row or "end" in row] == []
    found = {(row["part"], row["name"]): row for row in rows}
    assert found["candidates", "random"]["checked"] > 0
    assert all(row["bar"]["holds"] for row in rows if "bar" in row and row["part"] != "nvrtc")
    assert found["agreement", "recovery"]["found"] == ["lost", "right"]


def test_cards_whose_warps_multiply_together_have_a_higher_bar() -> None:
    bars = {name: units.CASES["bf16"].bar_on(cuda_target(name)) for name in ("a100", "h200")}
    assert bars == {"a100": 0.55, "h200": 0.8}
