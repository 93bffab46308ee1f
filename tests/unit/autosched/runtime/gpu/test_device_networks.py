"""Loops, parts of values and programs without kernels on the emulated device."""

from __future__ import annotations

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.shape import Concat
from codegen.cuda.compile import SymbolResources
from codegen.cuda.kernel import CudaKernel, CudaSource
from codegen.gpu.emulated import EmulatedDevice
from codegen.gpu.errors import DeviceLostError, DeviceMemoryError
from codegen.gpu.protocol import LoadedCode
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.device_networks import loop_network

ROW = (2, 3)
LOAD = EmulatedDevice.load


def run_both(network: Network) -> None:
    module = asd.compile(network, "cuda:h200", device="emulated")
    inputs = module.random_inputs()
    expected = evaluate(network.graph, inputs)
    for _ in range(2):
        found = module.run(inputs)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("backwards", [False, True])
def test_loops(backwards: bool) -> None:
    run_both(loop_network(backwards))


def test_a_module_for_another_gpu_is_compiled_again_from_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = []

    def load(device: EmulatedDevice, kernel: CudaKernel, expected_s: float) -> LoadedCode:
        known.append((device.target.arch, kernel.target.arch, kernel.cubin))
        return LOAD(device, kernel, expected_s)

    def code(source: CudaSource, arch: str) -> tuple[bytes, SymbolResources]:
        return f"for {arch}".encode(), ()

    asd.compile(loop_network(), "cuda:h200", device="emulated").save(tmp_path / "own.asd")
    monkeypatch.setattr(EmulatedDevice, "load", load)
    monkeypatch.setattr("codegen.gpu.open.device_arch", lambda _: "sm_80")
    monkeypatch.setattr("codegen.cuda.compile.compiled", code)
    module = asd.load(tmp_path / "own.asd")
    assert set(known) == {("sm_80", "sm_80", b"for sm_80")} and module.target.arch == "sm_90"
    inputs = module.random_inputs()
    expected = evaluate(loop_network().graph, inputs)
    for name, array in module.run(inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_the_steps_of_a_profile_are_the_run() -> None:
    module = asd.compile(loop_network(), "cuda:h200", device="emulated")
    profile = module.profile(repeats=4)
    steps = sum(row.microseconds for row in profile.rows)
    assert steps == pytest.approx(profile.total.microseconds, rel=0.03)
    assert steps == pytest.approx(1e6 * module.benchmark(repeats=3).median, rel=0.03)


def test_a_kernel_that_runs_twice_between_the_same_places() -> None:
    net = GraphBuilder("again")
    value = net.input(Value("x", (8,)))
    for _ in range(3):
        value = net.add(UnaryOp("sin"), (net.add(BinaryOp("add"), (value, value)),))
        value = net.add(
            BinaryOp("mul"), (value, net.constant(net.unique("c"), np.full(8, 3, "f4")))
        )
    run_both(Network("again", net.finish({"y": value})))


@pytest.mark.parametrize(
    ("elements", "wide"), [(1 << 18, ["load store"] * 2), ((1 << 18) - 1, ["", "load", ""])]
)
def test_a_part_that_starts_anywhere_is_not_written_in_wide_pieces(
    elements: int, wide: list[str], tmp_path: Path
) -> None:
    net = GraphBuilder("parts")
    inputs = [net.input(Value(name, (size,))) for name, size in (("a", elements), ("b", 1 << 18))]
    whole = net.add(Concat(0), tuple(net.add(UnaryOp("sin"), (value,)) for value in inputs))
    result = net.add(UnaryOp("tanh"), (whole,))
    network = Network("parts", net.finish({"whole": whole, "y": result}))
    asd.compile(network, "cuda:h200", device="emulated").save(tmp_path / "parts.asd")
    with zipfile.ZipFile(tmp_path / "parts.asd") as archive:
        texts = [archive.read(f"objects/k{n}.cu").decode() for n in range(len(wide))]
    assert [" ".join(re.findall(r"(load|store)_piece<", text)) for text in texts] == wide


def test_outputs_that_no_kernel_computes() -> None:
    net = GraphBuilder("none")
    x = net.input(Value("x", ROW))
    constant = net.constant("c", np.ones(ROW, np.float32))
    run_both(Network("none", net.finish({"same": x, "constant": constant})))


def test_a_device_without_room() -> None:
    target = emulated(cuda_target("h200"))
    small = replace(target, card=replace(target.card, memory_bytes=100))
    with pytest.raises(DeviceMemoryError, match="bytes of device memory are wanted"):
        asd.compile(loop_network(), small)


def test_a_device_that_is_lost_says_so_in_every_call() -> None:
    module = asd.compile(loop_network(), "cuda:h200", device="emulated")
    inputs = module.random_inputs()
    module.run(inputs)
    module._loaded._resident.device._lost = "kernel k0_0 reads an illegal address"
    for _ in range(2):
        with pytest.raises(DeviceLostError, match="use the device in a new process"):
            module.run(inputs)
