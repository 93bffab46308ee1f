"""Modules on a device: results, files, profiles, arrays and streams of other libraries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.runtime.module import Module
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.open import open_device
from sketch.operators.matmul import matmul
from sketch.target.target import Target
from tests.support.device_networks import mixed_network
from tests.support.small_graphs import assert_close

NETWORK = mixed_network()
SIZE = 32


@pytest.fixture(scope="module")
def module(target: Target) -> Module:
    return asd.compile(NETWORK, target, effort="none")


@pytest.fixture(scope="module")
def product(target: Target) -> Module:
    lhs, rhs = (asd.placeholder((SIZE, SIZE), name=name) for name in "AB")
    return asd.Task(asd.ComputeDAG([matmul(lhs, rhs, name="C")]), target).module()


def inputs(seed: int) -> dict[str, np.ndarray]:
    shape = (1, 3, 4, 4)
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def matrices(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((SIZE, SIZE)).astype(np.float32) for name in "AB"}


def check(found: dict[str, np.ndarray], seed: int) -> None:
    expected = evaluate(NETWORK.graph, inputs(seed))
    assert_close({"likely": found["likely"]}, {"likely": expected["likely"]}, "on the device")
    np.testing.assert_array_equal(found["which"], expected["which"])


def test_results_are_those_of_the_graph_also_of_callers_at_the_same_time(module: Module) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: check(module.run(inputs(seed)), seed), range(8)))


def test_a_saved_module_runs_as_it_did(module: Module, tmp_path: Path) -> None:
    module.save(tmp_path / "net.asd")
    check(asd.load(tmp_path / "net.asd").run(inputs(3)), 3)


def test_the_steps_of_a_profile_take_what_a_run_takes(product: Module) -> None:
    profile = product.profile(matrices(0), repeats=50)
    assert all(row.microseconds > 0 for row in profile.rows)
    total = sum(row.microseconds for row in (*profile.rows, profile.rest))
    assert total == pytest.approx(profile.total.microseconds)
    assert 0 < product.benchmark(matrices(0), repeats=20).median < 1


def test_arrays_of_the_device_go_in_and_out_in_a_stream_of_the_caller(
    product: Module, target: Target
) -> None:
    first, second = matrices(1), matrices(2)
    expected = (first["A"] @ first["B"]) @ second["B"]
    with open_device(target) as device:
        stream = device.stream()
        for handle in (None, stream.handle):
            once = product.run_on_device(first, stream=handle)
            twice = product.run_on_device({"A": once["C"], "B": second["B"]}, stream=handle)
            stream.synchronise()
            assert np.abs(twice["C"].numpy() - expected).max() < 1e-3
            del once, twice  # the stream must not end before what it computed
        stream.close()


def test_arrays_are_shared_with_other_libraries(product: Module, target: Target) -> None:
    given = matrices(3)
    out = product.run_on_device(given)["C"]
    if target.card.emulated:
        found = np.from_dlpack(out)
    else:
        torch = pytest.importorskip("torch")
        found = torch.from_dlpack(out).cpu().numpy()
        there = {name: torch.from_numpy(array).cuda() for name, array in given.items()}
        again = torch.from_dlpack(product.run_on_device(there)["C"])
        np.testing.assert_array_equal(again.cpu().numpy(), found)
    assert np.abs(found - given["A"] @ given["B"]).max() < 1e-3


@pytest.mark.skipif(missing_compiler() is not None, reason="NVRTC is not installed")
def test_a_library_is_written(product: Module, tmp_path: Path) -> None:
    product.export_library(tmp_path / "product")
    written = {path.suffix for path in tmp_path.iterdir()}
    assert {".c", ".h"} <= written
