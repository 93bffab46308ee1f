"""Compiling small networks, from the graph to running machine code."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.compilation.network import cache_state_of, network_tasks
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.pooling import GlobalPool
from autosched.graph.ops.shape import Reshape
from autosched.measure.result import Timing, constant_state, of_network
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.records.record import record_of
from autosched.runtime.archive import write_archive
from autosched.runtime.errors import AssemblyError
from autosched.system import optional_packages
from autosched.system.errors import MissingPackageError, OptionError
from autosched.system.user_warnings import AutoschedWarning
from autosched.tasks.candidate import Candidate
from autosched.tuning.run import SKIPPED
from codegen.backend import backend_of
from sketch.errors import TargetError
from sketch.oracle.expected import relative_error
from sketch.rules.generate import generate


def make_network(prefix: str = "") -> Network:
    """conv - relu - conv - relu - pool - flatten - dense; the same weight serves both convs.

    ``prefix``: of the names of layers.
    """
    rng = np.random.default_rng(7)
    builder = GraphBuilder("tiny")
    value = builder.input(Value("image", (1, 8, 10, 10)))
    weight = builder.constant("weight", (rng.standard_normal((8, 8, 3, 3)) / 8).astype("float32"))
    for name in ("first", "second"):
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, weight], name=prefix + name)
        value = builder.add(UnaryOp("relu"), [value], name=f"{prefix}{name}.relu")
    value = builder.add(GlobalPool("avg"), [value], name=f"{prefix}pool")
    value = builder.add(Reshape((1, 8)), [value], name=f"{prefix}flat")
    dense = builder.constant("dense", rng.standard_normal((8, 5)).astype("float32"))
    value = builder.add(Dense(), [value, dense], name=f"{prefix}fc")
    return Network("tiny", builder.finish({"scores": value}))


@pytest.fixture(scope="module")
def network() -> Network:
    return make_network()


@pytest.fixture(scope="module")
def module(network: Network) -> Any:
    return asd.compile(network, threads=1)


def test_names_of_layers_change_no_code(module: Any) -> None:
    other = asd.compile(make_network("é→日 k0.local"), threads=1)
    assert other.objects == module.objects


def worst(network: Network, outputs: dict[str, Any], inputs: dict[str, Any]) -> float:
    expected = evaluate(network.graph, inputs)
    return max(relative_error(outputs[name], value) for name, value in expected.items())


def test_a_quick_compilation_looks_at_fewer_schedules(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = asd.compile(network, threads=1, effort="none")
    inputs = module.random_inputs()
    assert worst(network, module.run(inputs), inputs) < 1e-5
    extraction = extract(network)
    task = asd.Task.of(network_tasks(extraction, module.target)[0])
    with monkeypatch.context() as patch:
        patch.setattr("autosched.search.space.space_of", None)  # which is not asked for
        quick = task.draft_candidate(quick=True)
    sketch = quick.sketch.key
    assert sketch in {s.key for s in generate(task.dag, task.target)}
    assert task.draft_candidate() == task.space.draft_candidate() == task.draft_candidate(True)


def test_outputs_equal_the_oracle(network: Network, module: Any) -> None:
    inputs = module.random_inputs()
    outputs = module.run(inputs)
    assert list(outputs) == ["scores"] and outputs["scores"].shape == (1, 5)
    assert worst(network, outputs, inputs) < 1e-5


def test_two_threads_give_the_same(network: Network, module: Any) -> None:
    inputs = module.random_inputs(3)
    parallel = asd.compile(network, asd.Target("cpu", threads=2))
    parallel.pin_threads()
    np.testing.assert_allclose(
        parallel.run(inputs)["scores"], module.run(inputs)["scores"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_with_threads_of_its_own(network: Network) -> None:
    module = asd.compile(network, threads=2)
    inputs = module.random_inputs()
    expected = module.run(inputs)["scores"]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends the child if it hangs
        same = np.array_equal(module.run(inputs)["scores"], expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_narrower_target_gives_the_same(network: Network, module: Any) -> None:
    inputs = module.random_inputs(4)
    narrow = asd.compile(network, "cpu-sse2", threads=1)
    np.testing.assert_allclose(
        narrow.run(inputs)["scores"], module.run(inputs)["scores"], rtol=1e-4, atol=1e-5
    )


def test_a_shared_weight_is_packed_once_for_each_packing(network: Network, module: Any) -> None:
    weight_bytes = network.graph.constants["weight"].nbytes
    assert module.program.constants_bytes < 2.5 * weight_bytes + 4096


def test_summary_says_that_nothing_is_tuned(module: Any) -> None:
    text = module.summary()
    assert "first, first.relu" in text and "model only" in text and "have no record" in text


def test_the_best_record_is_used(network: Network, module: Any, tmp_path: Path) -> None:
    target = asd.Target("cpu", threads=1)
    task = asd.Task.of(network_tasks(extract(network), target)[0])
    sketch, rows = task.space.sketches[-1], task.space.samples[-1]
    slow, fast = (Candidate(sketch, rows.row(n)) for n in (0, rows.count - 1))
    log = tmp_path / "log.jsonl"
    RecordLog(log).append(
        [record_of(task.key, slow, target, Timing((2e-3,))),
         record_of(task.key, fast, target, Timing((1e-3,)))]
    )  # fmt: skip
    tuned = asd.compile(network, target, log)
    assert [step.info.schedule for step in tuned.program.steps].count("record") >= 1
    inputs = tuned.random_inputs()
    assert worst(network, tuned.run(inputs), inputs) < 1e-5
    with pytest.warns(
        AutoschedWarning, match="for another number of threads, the nearest are used"
    ):
        other = asd.compile(network, target.with_threads(2), log)
    assert "record" in {step.info.schedule for step in other.program.steps}
    assert worst(network, other.run(inputs), inputs) < 1e-5
    missing = asd.compile(network, target, tmp_path / "none.jsonl")
    assert {step.info.schedule for step in missing.program.steps} == {"model"}


def test_tuned_tasks_can_be_skipped(network: Network, tmp_path: Path) -> None:
    target = asd.Target("cpu", threads=1)
    tasks = [asd.Task.of(spec) for spec in network_tasks(extract(network), target)]
    log = RecordLog(tmp_path / "log.jsonl")
    records = [
        record_of(task.key, task.space.draft_candidate(), target, Timing((1e-3,))) for task in tasks
    ]
    log.append(records)
    tuning = asd.tune(network, target, trials=9, log=log.path, quiet=True, skip_tuned=True)
    assert tuning.result.trials == 0 and tuning.result.stopped == SKIPPED
    assert {s.info.schedule for s in tuning.compile().program.steps} == {"record"}
    fewer = RecordLog(tmp_path / "fewer.jsonl")
    fewer.append(records[1:])
    with_one = asd.tune(network, target, trials=2, log=fewer.path, quiet=True, skip_tuned=True)
    assert {r.task for r in with_one.records[len(tasks) - 1 :]} == {tasks[0].key}


def test_the_cache_state_follows_from_the_constants(network: Network) -> None:
    extraction = extract(network)
    size = sum(array.nbytes for array in extraction.graph.constants.values())
    target = asd.Target("cpu", threads=2)
    roomy = replace(target, l2_bytes=size // 2, l3_bytes=size)
    sizes = {"warm": {}, "l2_cold": {"l2_bytes": size // 4}, "dram_cold": {"l3_bytes": size - 1}}
    for constants, smaller in sizes.items():
        machine = replace(roomy, **smaller)
        state = cache_state_of(extraction, machine)
        assert constant_state(state) == constants and of_network(state)
        # a single thread hands nothing over
        alone = replace(machine, threads=1, l2_bytes=2 * machine.l2_bytes)
        assert cache_state_of(extraction, alone) == constants
    gpu = asd.Target("cuda:h200")  # one L2 for all processors
    assert cache_state_of(extraction, gpu) == "warm"
    assert cache_state_of(extraction, replace(gpu, l2_bytes=size - 1)) == "l2_cold"


def test_save_and_load(module: Any, tmp_path: Path) -> None:
    module.save(tmp_path / "tiny.asd")
    loaded = asd.load(tmp_path / "tiny.asd")
    inputs = module.random_inputs(5)
    np.testing.assert_array_equal(loaded.run(inputs)["scores"], module.run(inputs)["scores"])
    assert loaded.program == module.program


def test_code_for_another_machine_is_refused(module: Any, tmp_path: Path) -> None:
    target = replace(module.target, features="+sse2,+warp-drive")
    path = tmp_path / "other.asd"
    program = replace(module.program, target=target)
    write_archive(path, [(program, module.constants, module.objects, {})])
    with pytest.raises(TargetError, match="warp-drive"):
        asd.load(path)


@pytest.mark.parametrize("name", ["cpu-neon", "cuda:sm_90"])
def test_a_module_for_another_machine_can_be_exported(name: str, tmp_path: Path) -> None:
    builder = GraphBuilder("elsewhere")
    builder.input(Value("x", (2, 8)))
    y = builder.add(UnaryOp("relu"), ["x"], name="relu")
    network = Network("elsewhere", builder.finish({"y": y}))
    module = asd.compile(network, name)
    if backend_of(module.target).missing(module.target) is None:
        pytest.skip(f"this machine runs code for {name}")
    x = {"x": np.zeros((2, 8), np.float32)}
    for use in (module.run, module.benchmark, module.run_on_device, module.profile):
        with pytest.raises(TargetError, match=r"cannot run here.*elsewhere.*export_library"):
            use(x)
    with pytest.raises(TargetError, match="cannot run here"):
        module.explain()
    assert "relu" in module.summary()
    module.export_library(tmp_path / "relu")
    assert (tmp_path / "relu.h").exists()
    module.save(tmp_path / "relu.asd")
    with pytest.raises(TargetError, match="cannot load a module for the"):
        asd.load(tmp_path / "relu.asd")


def test_nan_weights_are_refused() -> None:
    network = make_network()
    weights = dict(network.graph.constants)
    broken = np.array(weights["weight"])
    broken[0, 0, 0, 0] = np.nan
    graph = replace(network.graph, constants=weights | {"weight": broken})
    with pytest.raises(AssemblyError, match="constant 'weight'"):
        asd.compile(Network("broken", graph), threads=1)


def test_a_network_that_computes_nothing() -> None:
    builder = GraphBuilder("view")
    builder.input(Value("x", (2, 3)))
    view = builder.add(Reshape((3, 2)), ["x"])
    module = asd.compile(Network("view", builder.finish({"y": view, "z": "x"})), threads=1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = module.run({"x": x})
    np.testing.assert_array_equal(outputs["y"], x.reshape(3, 2))
    np.testing.assert_array_equal(outputs["z"], x)


def test_targets_by_name() -> None:
    assert asd.Target("cpu", threads=2).threads == 2
    assert asd.Target("cpu-avx2").vector_bytes == 32
    with pytest.raises(asd.AutoschedError, match="abacus"):
        asd.Target("abacus")


@pytest.mark.parametrize("target", [3, None, b"cpu", ["cpu"]])
def test_what_is_no_target_is_said(target: Any, network: Network) -> None:
    with pytest.raises(TargetError, match=r'is no target \| give a name, such as "cpu"'):
        asd.compile(network, target=target)


def test_target_is_a_class_of_all_targets() -> None:
    named = asd.Target("cpu-avx2", threads=2)
    assert isinstance(asd.Target, type) and isinstance(named, asd.Target)
    assert isinstance(replace(named, l2_bytes=1 << 20), asd.Target)
    assert not isinstance("cpu", asd.Target)
    assert named == asd.Target("cpu-avx2", 2) and hash(named) == hash(asd.Target("cpu-avx2", 2))


def test_the_tasks_of_networks(network: Network) -> None:
    tasks = asd.extract_tasks(network, "cpu-avx2", threads=2)
    assert all(isinstance(task, asd.Task) for task in tasks)
    assert {task.target for task in tasks} == {asd.Target("cpu-avx2", 2)}
    twice = asd.extract_tasks([network, network], "cpu-avx2", threads=2)
    assert [task.key for task in twice] == [task.key for task in tasks]
    assert [task.weight for task in twice] == [2 * task.weight for task in tasks]
    with pytest.raises(OptionError, match="no network"):
        asd.extract_tasks("mlp")  # type: ignore[arg-type]


def test_how_this_machine_measures_reaches_the_records(network: Network) -> None:
    task = min(asd.extract_tasks(network, threads=1), key=lambda task: task.flops)
    measure = asd.MeasureOptions(samples=3, bursts=1, cache_state="dram_cold")
    options = asd.TuneOptions(trials=2, leaders=0, search=asd.SearchOptions(policy="random"))
    for result in (
        task.tune(options=options, measure=measure),
        asd.tune(network, threads=1, options=options, measure=measure, quiet=True).result,
    ):
        timings = [r.result for r in result.records if isinstance(r.result, Timing)]
        assert timings and {timing.cache_state for timing in timings} == {"dram_cold"}
        assert all(len(timing.seconds) <= 3 for timing in timings)


def test_measuring_options_that_make_no_sense() -> None:
    with pytest.raises(OptionError, match="samples"):
        asd.MeasureOptions(samples=0)
    with pytest.raises(OptionError, match="cache state 'cool'"):
        asd.MeasureOptions(cache_state="cool")  # type: ignore[arg-type]


def test_gpus_by_name() -> None:
    hopper = asd.Target("cuda", arch="sm_90")
    assert (hopper.kind, hopper.arch, hopper.warp_size) == ("cuda", "sm_90", 32)
    assert asd.Target("cuda:sm_90") == hopper != asd.Target("cuda:h200") == asd.Target("cuda:H200")
    emulated = asd.Target("cuda:h200", device="emulated")
    assert emulated.card.emulated and emulated != asd.Target("cuda:h200")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "cuda:abacus"}, "unknown GPU architecture or card 'abacus' .*sm_90"),
        ({"name": "cuda:"}, "unknown GPU architecture or card ''"),
        ({"name": "cuda:h200", "arch": "sm_80"}, "give one of them"),
        ({"name": "cuda:h200", "threads": 4}, "takes no threads"),
        ({"name": "cpu", "arch": "sm_90"}, "no arch 'sm_90'"),
        ({"name": "cpu", "device": "emulated"}, "a cpu target is not emulated"),
        ({"name": "cuda:h200", "device": "vulkan"}, "unknown device 'vulkan'"),
        ({"name": "cuda:sm_70"}, "unknown GPU architecture or card 'sm_70'"),
    ],
)
def test_what_is_no_gpu_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        asd.Target(**arguments)


def test_a_network_is_tuned_on_the_emulated_device() -> None:
    tuning = asd.tune(
        asd.zoo.build("mlp"), "cuda:t4", trials=1, quiet=True, device="emulated",
        runner=SimulatedRunner(),
    )  # fmt: skip
    assert tuning.target == asd.Target("cuda:t4", device="emulated")


def test_the_gpu_of_this_machine_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.named_targets.missing_gpu", lambda: "no CUDA driver")
    with pytest.raises(TargetError, match=r"no GPU .*no CUDA driver .*cuda:sm_90"):
        asd.Target("cuda")
    monkeypatch.setattr("codegen.named_targets.missing_gpu", lambda: None)
    monkeypatch.setattr("codegen.named_targets.gpu_here", lambda: asd.Target("cuda:l4"))
    assert asd.Target("cuda") == asd.Target("cuda:l4")


@pytest.mark.parametrize("thing", ["resnet-18", 3, ["resnet-18"], "x" * 5000, "x\0y"])
def test_what_is_no_network_is_refused(thing: Any) -> None:
    with pytest.raises(OptionError, match=r"is no network \| .*zoo\.build"):
        asd.tune(thing, trials=1)
    with pytest.raises(OptionError, match="is no network"):
        asd.compile(thing)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: None)
    with pytest.raises(
        MissingPackageError, match=r"'onnx' .*from_onnx \| pip install .autosched\[onnx\]"
    ):
        asd.from_onnx("model.onnx")
    with pytest.raises(MissingPackageError, match="pandas"):
        asd.RecordLog("no.jsonl").read().to_pandas()


def test_a_network_of_constants_has_nothing_to_tune(tmp_path: Path) -> None:
    builder = GraphBuilder("constant")
    value = builder.constant("c", np.ones(3, np.float32))
    network = Network("constant", builder.finish({"y": value}))
    tuning = asd.tune(network, trials=4, log=tmp_path / "log.jsonl", quiet=True)
    assert tuning.result.trials == 0 and "no operator is tuned" in tuning.result.stopped
    np.testing.assert_array_equal(tuning.compile().run({})["y"], np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"trials": 4}}, "dict is no TuneOptions"),
        ({"options": 0}, "int is no TuneOptions"),
        ({"callbacks": (print,)}, "print.* is no callback"),
    ],
)
def test_what_is_no_option_and_no_callback_is_refused_before_anything_runs(
    arguments: dict, message: str
) -> None:
    net = asd.zoo.build("mlp", image=4)
    with pytest.raises(OptionError, match=message):
        asd.tune(net, trials=4, runner=SimulatedRunner(), quiet=True, **arguments)
