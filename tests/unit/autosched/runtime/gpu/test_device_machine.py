"""What is measured of a device: an emulated one has what its data sheet says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import autosched as asd
from autosched.runtime.gpu import machine, program
from autosched.runtime.gpu.machine import (
    device_machine,
    measured_bandwidth,
    measured_flops,
    nominal_machine,
)
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.errors import DeviceMemoryError
from codegen.gpu.open import open_device
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.units import HALVES, int_arrays, int_product


def test_what_is_measured_is_what_the_clock_says() -> None:
    h200 = emulated(cuda_target("h200"))
    assert nominal_machine(h200, 0).flops == pytest.approx(67e12, rel=0.01)
    units = nominal_machine(h200, 0).units
    assert units["mma.m16n8k16.bf16"] == pytest.approx(1070e12, rel=0.01)
    assert units["mma.m16n8k32.u8.s8"] == pytest.approx(2 * units["mma.m16n8k16.bf16"])
    target = replace(h200, threads=2)
    nominal = nominal_machine(target, 1 << 20)
    with open_device(target) as device:
        assert device_machine(device, 1 << 20) == nominal
        assert measured_bandwidth(device, 1 << 20) == pytest.approx(nominal.bandwidth)
        assert measured_flops(device, trips=1) == pytest.approx(nominal.flops)
        assert device.memory().free == device.memory().total


def test_a_program_is_explained_with_the_units_that_it_uses() -> None:
    """A card has dozens of others."""
    for types, used in ((HALVES, 1), (("float32", "float32"), 0)):
        dag = int_product(256, 256, 256, types)
        constants = {"B": int_arrays(dag, np.random.default_rng(0))["B"]}
        module = asd.Task(dag, emulated(cuda_target("h200"))).module(constants)
        explained = module.explain(repeats=1)
        units = {step.info.unit for step in module.program.kernel_steps} - {""}
        assert set(explained.machine.units) == units and len(units) == used
        assert str(explained).count(", or ") == used
        assert module.profile(repeats=1).peak_gflops == pytest.approx(67e3, rel=0.01)


class Clock:
    """A stream on which a kernel takes 10 us and an event 1 us."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def launch(self, *_: object) -> None:
        self.seconds += 10e-6

    def record(self) -> None:
        self.seconds += 1e-6


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_what_events_between_kernels_take_is_no_kernels_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def timed(_: object, work: Callable[[Clock], None]) -> float:
        clock = Clock()
        work(clock)
        return clock.seconds

    driver_bindings = pytest.importorskip("tests.support.driver_bindings")
    monkeypatch.setattr(machine, "_best_seconds", timed)
    with driver_bindings.opened(driver_bindings.Bindings()) as device:
        assert machine.event_seconds(device) == pytest.approx(1e-6)
    with open_device(emulated(cuda_target("h200"))) as device:
        assert machine.event_seconds(device) == 0.0
    executor = SimpleNamespace(
        bind=lambda _: None, run=lambda: None, run_clocked=lambda: 20e-6,
        run_timed=lambda: np.array([12e-6, 11e-6, 0.5e-6]), events_of_steps=np.array([2, 1, 1]),
    )  # fmt: skip
    monkeypatch.setattr(program, "WAKE_S", 0.0)
    calls = program.DeviceCalls(executor, False, lambda: 1e-6)  # type: ignore[arg-type]
    total, steps = calls.time_steps({}, 2)
    assert total == pytest.approx([20e-6] * 2)
    assert steps == pytest.approx(np.tile([10e-6, 10e-6, 0.05e-6], (2, 1)))


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
@pytest.mark.parametrize("function", ["cuMemAlloc", "cuGraphLaunch", "cuGraphInstantiate"])
def test_a_measurement_that_fails_leaves_nothing_on_the_device(function: str) -> None:
    driver_bindings = pytest.importorskip("tests.support.driver_bindings")
    bindings = driver_bindings.Bindings()
    with driver_bindings.opened(bindings) as device:
        bindings.fail[function] = "CUDA_ERROR_OUT_OF_MEMORY"
        with pytest.raises(DeviceMemoryError) as caught:
            measured_flops(device, trips=1)
        ends = {end for end, _ in bindings.alive} - {"cuEventDestroy"}
        assert ends == {"cuDevicePrimaryCtxRelease"} and caught.value
