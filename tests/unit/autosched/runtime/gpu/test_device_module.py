"""Networks on the emulated device: results, files, profiles, callers at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.runtime.errors import AssemblyError, ExportError, InputError, ModuleFileError
from autosched.runtime.gpu.device_array import DeviceArray
from autosched.runtime.module import Module
from tests.support.archives import change_plan
from tests.support.device_networks import mixed_network
from tests.support.small_graphs import assert_close

NETWORK = mixed_network()


@pytest.fixture(scope="module")
def module() -> Iterator[Module]:
    yield asd.compile(NETWORK, "cuda:h200", device="emulated")


def inputs(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((1, 3, 4, 4)).astype(np.float32)}


def check(found: dict[str, np.ndarray], seed: int) -> None:
    expected = evaluate(NETWORK.graph, inputs(seed))
    assert_close({"likely": found["likely"]}, {"likely": expected["likely"]}, "on the device")
    np.testing.assert_array_equal(found["which"], expected["which"])


def test_results_are_those_of_the_graph(module: Module) -> None:
    assert [step.info.schedule for step in module.program.steps].count("host") == 1
    for seed in (1, 2, 1):
        check(module.run(inputs(seed)), seed)


def test_a_saved_module_runs_as_it_did(module: Module, tmp_path: Path) -> None:
    module.save(tmp_path / "net.asd")
    loaded = asd.load(tmp_path / "net.asd")
    assert loaded.program == module.program and loaded.objects == module.objects
    check(loaded.run(inputs(3)), 3)


def test_a_module_of_a_card_is_loaded_on_the_emulated_device(
    module: Module, tmp_path: Path
) -> None:
    module.save(tmp_path / "net.asd")
    assert asd.load(tmp_path / "net.asd", device="emulated").target.card.emulated


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda step: step["sizes"].insert(0, step["sizes"].pop(0) + 4), "takes other arguments"),
        (lambda step: step["arguments"].pop(), "arguments with"),
        (lambda step: step["arguments"][0].__setitem__(1, 1 << 30), "bytes|input"),
        (lambda step: step.update(symbol="k99"), "no code 'k99'"),
    ],
)
def test_a_plan_that_does_not_fit_its_kernels(
    module: Module, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    path = tmp_path / "net.asd"
    module.save(path)
    change_plan(path, lambda plan: change(plan["steps"][1]))
    with pytest.raises(ModuleFileError, match=message):
        asd.load(path)


def test_host_steps_have_times_and_counters_none(module: Module) -> None:
    profile = module.profile(inputs(1), repeats=4, counters=True)
    assert all(row.microseconds > 0 for row in profile.rows)
    assert "counters are those of the CPU" in profile.note and profile.events == ()
    assert profile.threads == module.target.threads
    assert "processors 132" in str(module.benchmark(inputs(1), repeats=1))
    assert "processors 132" in module.summary()


def test_what_runs_on_the_host_is_not_exported(module: Module, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="TopK"):
        module.export_library(tmp_path / "net")


def test_the_limits_of_an_emulated_device_are_nominal(module: Module) -> None:
    explanation = module.explain(inputs(1), repeats=2)
    card = module.target.card
    assert explanation.machine.flops == 2 * 132 * card.fma_lanes * card.hertz
    assert explanation.machine.bandwidth == card.memory_bytes_per_s
    assert "nominal numbers of the card, not measured" in str(explanation)
    assert "processors 132" in str(explanation)


def test_callers_at_the_same_time_do_not_meet(module: Module) -> None:
    def work(seed: int) -> None:
        for _ in range(3):
            check(module.run(inputs(seed)), seed)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))


def test_arrays_stay_on_the_device(module: Module) -> None:
    first = module.run_on_device(inputs(1))
    second = module.run_on_device(inputs(2))  # while the first one's outputs are in use
    check({name: np.asarray(value.numpy()) for name, value in first.items()}, 1)
    check({"likely": np.from_dlpack(second["likely"]), "which": second["which"].numpy()}, 2)


def test_arrays_of_the_device_go_in_and_streams_of_the_caller_are_used(module: Module) -> None:
    with module._loaded.call():  # another executor's memory, which nobody writes meanwhile
        other = module.run_on_device(inputs(4), stream=0)
    given = {"x": DeviceArray(0, (1, 3, 4, 4), "float32", module._loaded._resident.device, None)}
    executor = module._loaded._new_executor()
    executor.bind(inputs(5))
    given["x"].address = executor._bases.inputs[0]
    executor.run()  # copies the input to the device
    for _ in range(2):
        check(module.run(given), 5)
        again = module.run_on_device(given, stream=0)
        check({name: value.numpy() for name, value in again.items()}, 5)
    check({name: value.numpy() for name, value in other.items()}, 4)


def test_what_a_gpu_has_not(module: Module) -> None:
    with pytest.raises(AssemblyError, match="on a GPU"):
        module.pin_threads()
    with pytest.raises(InputError, match="cannot read object through DLPack"):
        module.run({"x": type("object", (), {"__dlpack__": None})()})
