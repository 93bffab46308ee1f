"""Variants leave a network's outputs accurate: how errors grow on their way, and what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import autosched as asd
from autosched.compilation import kernels, unmeasured
from autosched.compilation.network import network_contents
from autosched.compilation.scheduled import Scheduled
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.records.accuracy import Accuracy
from autosched.runtime.amplification import amplifications, moved_together
from autosched.runtime.backend import runtime_of
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.random_arrays import random_arrays
from autosched.tasks.candidate import Candidate
from autosched.tasks.kernel import kernel_of
from codegen.host import host_target
from codegen.kernel import CompiledKernel

TARGET = host_target(1)
CHANNELS = 16


def network(*weights: Array) -> Network:
    """Convolutions of 3x3."""
    builder = GraphBuilder("convolutions")
    value = builder.input(Value("image", (1, CHANNELS, 12, 12)))
    for n, weight in enumerate(weights):
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant(f"w{n}", weight)])
    return Network("convolutions", builder.finish({"result": value}))


def weights() -> Array:
    rng = np.random.default_rng(0)
    return rng.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) / 12


def test_differences_of_like_values_amplify_errors() -> None:
    """The first gives pairs that differ by a hundredth, the second takes their differences."""
    first, second = weights(), np.zeros((CHANNELS, CHANNELS, 3, 3), np.float32)
    first[1::2] = first[::2] + first[1::2] / 100
    for pair in range(0, CHANNELS, 2):
        second[pair : pair + 2, pair, 1, 1] = 1
        second[pair : pair + 2, pair + 1, 1, 1] = -1
    program, *rest = network_contents(network(first, second), TARGET, quick=True)
    loaded = runtime_of(TARGET).load(program, *rest)
    assert isinstance(loaded, CpuProgram)
    steps = [n for n, step in enumerate(program.steps) if step.info.flops > 0]
    inputs = random_arrays(program.inputs)
    tasks = {step: f"{place}" for place, step in enumerate(steps)}
    found = amplifications(
        program, loaded.take(), inputs, tasks, dict.fromkeys(tasks.values(), "float32")
    )
    ((first,), (second,)) = found.values()
    assert 70 < first < 300 and 0.5 < second < 2


@pytest.mark.parametrize("after", ["nothing", "relu"])
def test_errors_of_the_last_step_are_those_of_the_outputs(after: str) -> None:
    """The largest of many errors relative to the largest result, both of which are normal."""
    builder = GraphBuilder("last")
    value = builder.input(Value("image", (1, CHANNELS, 12, 12)))
    value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant("w", weights())])
    value = builder.add(UnaryOp("relu"), [value]) if after == "relu" else value
    program, *rest = network_contents(
        Network("last", builder.finish({"result": value})), TARGET, quick=True
    )
    loaded = runtime_of(TARGET).load(program, *rest)
    assert isinstance(loaded, CpuProgram)
    (step,) = [n for n, step in enumerate(program.steps) if step.info.flops > 0]
    inputs = random_arrays(program.inputs)
    found = amplifications(program, loaded.take(), inputs, {step: "last"}, {"last": "float32"})
    assert 0.65 < found["last"][0] < 1.3


@pytest.mark.parametrize(
    ("error", "accuracy", "stays"),
    [(2e-6, "close", True), (7e-6, "close", False), (7e-6, "default", True)],
)
def test_errors_that_are_small_in_a_task_may_be_too_large_in_a_network(
    monkeypatch: pytest.MonkeyPatch, error: float, accuracy: Accuracy, stays: bool
) -> None:
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (error, error))
    same = weights()
    module = asd.compile(network(same, same, same), target=TARGET, accuracy=accuracy)
    found = [step.info.algorithm for step in module.program.kernel_steps if step.info.flops > 0]
    assert all(name.startswith("winograd") == stays for name in found)
    assert all(("network" in name) != stays for name in found)


def test_networks_that_make_errors_large_have_short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (7e-6, 7e-6))
    asked: list[bool] = []

    def spy(candidate: Candidate, *rest: Any) -> CompiledKernel:
        asked.append(rest[-1])
        return kernel_of(candidate, *rest)

    monkeypatch.setattr(kernels, "kernel_of", spy)
    same = weights()
    inputs = {"image": np.random.default_rng(1).standard_normal((1, CHANNELS, 12, 12), np.float32)}
    found: dict[Accuracy, Array] = {}
    expected: dict[Accuracy, bool] = {"as written": False, "default": False, "close": True}
    for accuracy, short in expected.items():
        asked.clear()
        module = asd.compile(network(same, same, same), target=TARGET, accuracy=accuracy)
        assert any(asked) == short
        found[accuracy] = module.run(inputs)["result"]
    for values in found.values():
        np.testing.assert_allclose(values, found["as written"], rtol=1e-4, atol=1e-5)


def amplified(*tail: onnx.NodeProto, outputs: Sequence[tuple[str, int]]) -> str:
    """How a convolution is computed whose errors grow a million times before the sine ``s``."""
    make = onnx.helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        make("Transpose", ["c"], ["mid"], perm=[0, 2, 3, 1]),
        make("Mul", ["mid", "large"], ["a"]),
        make("CumSum", ["a", "axis"], ["sums"]),
        make("Sin", ["sums"], ["s"]),
        *tail,
    ]
    shape = (1, 15, 15, 64)
    hidden = np.zeros(shape, bool)
    hidden[0, 0, 0, 0] = True
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((64, 64, 3, 3), np.float32) / 24,
        "large": np.float32(1e3),
        "axis": np.array(3),
        "hidden": hidden,
        "least": np.float32(-np.inf),
        "far": np.float32(95.0),
    }
    graph = onnx.helper.make_graph(
        nodes,
        "amplified",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 64, 15, 15))],
        [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    module = asd.compile(
        asd.from_onnx(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)),
        target=TARGET,
    )
    return next(s.info.algorithm for s in module.program.kernel_steps if "conv" in s.info.name)


MAKE = onnx.helper.make_node
FLOAT, BRAIN = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
INT32, INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64
GROWING: dict[str, tuple[list[onnx.NodeProto], list[tuple[str, int]]]] = {
    "plain": ([], [("s", FLOAT)]),
    "an output that is read on": ([], [("s", FLOAT), ("mid", FLOAT)]),
    "a part of an output": (
        [MAKE("Concat", ["mid", "s"], ["y"], axis=0)],
        [("y", FLOAT)],
    ),
    "one element is infinite": (
        [MAKE("Where", ["hidden", "least", "s"], ["y"])],
        [("y", FLOAT)],
    ),
    "some overflow": (
        [MAKE("Mul", ["s", "far"], ["t"]), MAKE("Exp", ["t"], ["y"])],
        [("y", FLOAT)],
    ),
    "bfloat16": ([MAKE("Cast", ["s"], ["y"], to=BRAIN)], [("y", BRAIN)]),
    "integers": (
        [MAKE("Mul", ["s", "large"], ["t"]), MAKE("Cast", ["t"], ["y"], to=INT32)],
        [("y", INT32)],
    ),
    "the place of the largest": ([MAKE("ArgMax", ["s"], ["y"], axis=3)], [("y", INT64)]),
}


@pytest.mark.parametrize("case", GROWING)
def test_errors_that_grow_are_seen_in_every_output(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (7e-7, 7e-7))
    nodes, outputs = GROWING[case]
    found = amplified(*nodes, outputs=outputs)
    assert found.startswith("as written; winograd"), found


@pytest.mark.parametrize("others", [False, True])
def test_where_no_value_says_anything_errors_stay_what_they_are(others: bool) -> None:
    """Random inputs are far below what the ReLU lets through; another output does not change it."""
    builder = GraphBuilder("zero")
    image = value = builder.input(Value("image", (1, CHANNELS, 12, 12)))
    value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant("w", weights())])
    far = builder.constant("far", np.full((1, 1, 1, 1), -1e3, np.float32))
    value = builder.add(UnaryOp("relu"), [builder.add(BinaryOp("add"), [value, far])])
    alive = {"alive": builder.add(UnaryOp("sin"), [image])} if others else {}
    net = Network("zero", builder.finish({"result": value} | alive))
    program, *rest = network_contents(net, TARGET, quick=True)
    loaded = runtime_of(TARGET).load(program, *rest)
    assert isinstance(loaded, CpuProgram)
    steps = [n for n, step in enumerate(program.steps) if "conv" in step.info.name]
    inputs = random_arrays(program.inputs)
    dtypes, errors = {steps[0]: "float32"}, {steps[0]: 3e-6}
    tasks, kinds = {steps[0]: "convolution"}, {"convolution": "float32"}
    assert amplifications(program, loaded.take(), inputs, tasks, kinds) == {
        "convolution": (1.0, *[0.0] * others)
    }
    assert moved_together(program, loaded.take(), inputs, errors, dtypes) == pytest.approx(3e-6)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "UINT8"])
def test_results_of_any_type(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """An odd number of elements; as nothing follows, errors of a variant stay what they are."""
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (9e-6, 9e-6))
    to = getattr(onnx.TensorProto, kind)
    nodes = [
        MAKE("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        MAKE("Abs", ["c"], ["a"]),
        MAKE("Cast", ["a"], ["y"], to=to),
    ]
    many = np.concatenate([weights(), weights()[:1]])
    weight = onnx.numpy_helper.from_array(many, "w")
    graph = onnx.helper.make_graph(
        nodes,
        "typed",
        [onnx.helper.make_tensor_value_info("x", FLOAT, (1, CHANNELS, 13, 13))],
        [onnx.helper.make_tensor_value_info("y", to, None)],
        [weight],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    module = asd.compile(asd.from_onnx(model), target=TARGET)
    (found,) = [s.info.algorithm for s in module.program.kernel_steps if "conv" in s.info.name]
    assert found.startswith("winograd"), found


@pytest.mark.parametrize("short", [False, True])
def test_a_kernel_with_short_sums_is_not_the_one_that_was_checked(short: bool) -> None:
    recalled: Any = SimpleNamespace(checked=True)
    unused: Any = None
    scheduled = Scheduled(unused, unused, "record", recalled, short_sums=short)
    assert scheduled.checked == (not short)


def test_errors_of_variants_do_not_show_where_all_is_rounded_to_16_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second convolution reads float32 numbers that the first one's kernel has rounded."""
    monkeypatch.setattr("autosched.search.unmeasured.SURE_BELOW", 1e9)
    monkeypatch.setattr(unmeasured, "kernel_errors", lambda *_: (7e-6, 7e-6))
    same = weights().astype(np.float16)
    builder = GraphBuilder("half")
    value = builder.input(Value("image", (1, CHANNELS, 12, 12), "float16"))
    for n in range(3):
        weight = builder.constant(f"w{n}", same)
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, weight])
    net = Network("half", builder.finish({"result": value}))
    module = asd.compile(net, target=TARGET, accuracy="close")
    found = [step.info.algorithm for step in module.program.kernel_steps if step.info.flops > 0]
    assert len(found) == 3 and all(name.startswith("winograd") for name in found)
