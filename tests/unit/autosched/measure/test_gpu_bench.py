"""How kernels are timed on a GPU: clocks first, caches as asked for; the device is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autosched.measure import gpu_worker
from autosched.measure.gpu_worker import GpuBench
from codegen.gpu.protocol import DeviceMemory
from sketch.target.gpu_targets import cuda_target, emulated

H200 = cuda_target("h200")
EACH_S = 1e-3
FLUSHED = 4096


class Loaded:
    """A kernel, of a millisecond or another time, that notes what is run."""

    def __init__(self, each_s: float = EACH_S) -> None:
        self.each_s = each_s
        self.runs: list[int] = []
        self.filled: list[tuple[int, int]] = []

    def seconds(self, runs: int = 1) -> float:
        self.runs.append(runs)
        return self.each_s * runs

    def seconds_after_filling(self, address: int, size: int) -> float:
        self.filled.append((address, size))
        return 2 * EACH_S


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is locked; the clock of this machine stands still."""
    found: list[str] = []
    device = SimpleNamespace(
        kind="gpu",
        allocate=lambda size: FLUSHED + size,
        memory=lambda: DeviceMemory(1 << 30, 1 << 30),
    )
    monkeypatch.setattr(gpu_worker, "open_device", lambda _: device)
    monkeypatch.setattr(gpu_worker, "device_identity", lambda _: "a1")
    monkeypatch.setattr(gpu_worker, "lock_device", lambda path: found.append(path.name))
    monkeypatch.setattr(gpu_worker, "time", SimpleNamespace(monotonic=lambda: 0.0))
    return found


def test_clocks_are_up_before_anything_is_timed(
    locked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, loaded = GpuBench(H200), Loaded()
    assert bench.run(loaded, 3, "warm") == pytest.approx(EACH_S)  # type: ignore[arg-type]
    assert loaded.runs[-1] == 3 and sum(loaded.runs[:-1]) * EACH_S >= 0.05
    loaded.runs.clear()
    bench.run(loaded, 3, "warm")  # type: ignore[arg-type]
    assert loaded.runs == [3]
    monkeypatch.setattr(gpu_worker, "time", SimpleNamespace(monotonic=lambda: 1.0))
    bench.run(loaded, 3, "warm")  # type: ignore[arg-type]
    assert len(loaded.runs) > 2  # after a pause


@pytest.mark.parametrize(
    "each_s, runs", [(0.6, [1, 1]), (0.02, [1, 1, 1, 1]), (2.9e-3, [1, 16, 1, 1])]
)
def test_a_slow_kernel_is_not_run_more_than_it_takes(
    locked: list[str], each_s: float, runs: list[int]
) -> None:
    bench, loaded = GpuBench(H200), Loaded(each_s)
    bench.run(loaded, 1, "warm")  # type: ignore[arg-type]
    assert loaded.runs == runs


def test_one_run_of_a_short_kernel_is_the_mean_of_several(locked: list[str]) -> None:
    bench, loaded = GpuBench(H200), Loaded(20e-6)
    bench.run(loaded, 1, "warm")  # type: ignore[arg-type]
    assert loaded.runs[-2:] == [1, 16]
    bench.run(loaded, 4, "warm")  # type: ignore[arg-type]
    assert loaded.runs[-1] == 4


def test_caches_are_flushed_before_each_run(locked: list[str]) -> None:
    bench, loaded = GpuBench(H200), Loaded()
    assert bench.run(loaded, 4, "l2_cold") == pytest.approx(2 * EACH_S)  # type: ignore[arg-type]
    size = 2 * H200.l2_bytes
    assert loaded.filled == [(FLUSHED + size, size)] * 4


def test_a_gpu_is_one_process_and_an_emulated_one_of_many(locked: list[str]) -> None:
    GpuBench(H200)
    assert locked == ["gpu-a1"]
    GpuBench(emulated(H200))
    assert locked == ["gpu-a1"]
