"""Bound modules read what is in their inputs now, and write their outputs in place."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.runtime.bound import BoundModule
from autosched.runtime.errors import InputError
from autosched.runtime.module import Module
from codegen.host import cpu_target
from sketch.errors import TargetError
from tests.support.lazily import lazily

torch = lazily("torch")
SHAPE = (4, 32)


@cache
def _module(threads: int = 2) -> Module:
    """``p = a * b`` and ``n = -a``."""
    builder = GraphBuilder("pair")
    a, b = builder.input(Value("a", SHAPE)), builder.input(Value("b", SHAPE))
    product = builder.add(BinaryOp("mul"), [a, b], name="product")
    graph = builder.finish({"p": product, "n": builder.add(UnaryOp("neg"), [a], name="negative")})
    return asd.compile(Network("pair", graph), asd.Target("cpu", threads=threads))


def _inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(SHAPE, dtype=np.float32) for name in "ab"}


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_read_what_is_there_and_write_in_place(threads: int) -> None:
    inputs = _inputs()
    bound = _module(threads).bind(inputs)
    kept = dict(bound.outputs)
    for scale in (1, -3, 0.5):
        inputs["a"] *= scale
        found = bound()
        assert found is bound.outputs
        assert all(found[name] is array for name, array in kept.items())
        np.testing.assert_array_equal(found["p"], inputs["a"] * inputs["b"])
        np.testing.assert_array_equal(found["n"], -inputs["a"])


def test_arrays_that_are_given() -> None:
    inputs = _inputs()
    wide = np.zeros((4, 64), np.float32)
    out = {"p": wide[:, ::2], "n": np.zeros(SHAPE, np.float32)}
    bound = _module().bind(inputs, out)
    bound()
    assert bound.outputs["n"] is out["n"]
    np.testing.assert_array_equal(wide[:, ::2], inputs["a"] * inputs["b"])
    assert not wide[:, 1::2].any()
    some = _module().bind(inputs, {"n": out["n"]})
    np.testing.assert_array_equal(some()["p"], inputs["a"] * inputs["b"])


def test_an_output_may_be_an_input_of_the_next_call() -> None:
    inputs = _inputs()
    expected = inputs["a"].copy()
    bound = _module().bind(inputs, {"p": inputs["a"]})
    for _ in range(3):
        bound()
        expected = expected * inputs["b"]
        np.testing.assert_array_equal(inputs["a"], expected)


def test_bound_modules_are_apart_from_each_other_and_from_runs() -> None:
    module, first, second = _module(), _inputs(), _inputs()
    second["a"] += 1
    one, other = module.bind(first), module.bind(second)
    one()
    other()
    run = module.run(second)
    np.testing.assert_array_equal(one.outputs["p"], first["a"] * first["b"])
    np.testing.assert_array_equal(other.outputs["p"], run["p"])
    assert run["p"] is not other.outputs["p"]


def test_what_cannot_be_bound() -> None:
    inputs = _inputs()
    strided = {**inputs, "a": np.zeros((4, 64), np.float32)[:, ::2]}
    with pytest.raises(InputError, match=r"not dense.*input 'a'"):
        _module().bind(strided)
    with pytest.raises(InputError, match="no array for input 'b'"):
        _module().bind({"a": inputs["a"]})
    with pytest.raises(InputError, match="no output has that name"):
        _module().bind(inputs, {"q": inputs["a"]})
    with pytest.raises(InputError, match=r"float64\[4, 32\]"):
        _module().bind(inputs, {"p": np.zeros(SHAPE)})


def test_read_only_arrays_and_tensors_are_bound() -> None:
    inputs = _inputs()
    fixed = inputs["b"].copy()
    fixed.flags.writeable = False
    tensor = torch.from_numpy(inputs["a"].copy())
    bound = _module().bind({"a": tensor, "b": fixed})
    tensor.mul_(2)
    np.testing.assert_array_equal(bound()["p"], 2 * inputs["a"] * fixed)


def test_what_would_be_copied_is_not_bound() -> None:
    inputs = _inputs()
    negated = torch._neg_view(torch.from_numpy(inputs["a"]))
    with pytest.raises(InputError, match=r"negated or conjugated view.*input 'a'.*resolve_neg"):
        _module().bind({**inputs, "a": negated})
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("StringConcat", ["s", "s"], ["t"])
    s, t = (onnx.helper.make_tensor_value_info(name, 8, (2,)) for name in "st")
    graph = onnx.helper.make_graph([node], "g", [s], [t])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )
    module = asd.compile(asd.from_onnx(model))
    with pytest.raises(InputError, match=r"dtype <U1.*input 's'.*bind an array of dtype object"):
        module.bind({"s": np.array(["a", "b"])})
    texts = np.array(["a", "b"], object)
    bound = module.bind({"s": texts})
    texts[0] = "c"
    assert bound()["t"].tolist() == ["cc", "bb"]


def test_one_thread_at_a_time() -> None:
    inside, done = threading.Event(), threading.Event()

    def compute() -> None:
        inside.set()
        done.wait(10)

    bound = BoundModule("net", compute, {}, {})
    thread = threading.Thread(target=bound)
    thread.start()
    inside.wait(10)
    with pytest.raises(InputError, match=r"another thread.*bind it once for each thread"):
        bound()
    done.set()
    thread.join()
    bound()


def test_a_call_within_a_call_does_not_let_other_threads_in() -> None:
    calls, inside, done = [0], threading.Event(), threading.Event()

    def compute() -> None:
        calls[0] += 1
        if calls[0] == 1:
            bound()
            inside.set()
            done.wait(10)

    bound = BoundModule("net", compute, {}, {})
    thread = threading.Thread(target=bound)
    thread.start()
    inside.wait(10)
    with pytest.raises(InputError, match="another thread"):
        bound()
    done.set()
    thread.join()
    bound()


def test_a_call_that_fails_is_over() -> None:
    def compute() -> None:
        raise KeyboardInterrupt

    bound = BoundModule("net", compute, {}, {})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            bound()


def test_results_of_the_host_are_copied() -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Det", ["x"], ["d"])
    kinds = [onnx.helper.make_tensor_value_info("x", 1, (2, 3, 3))]
    ends = [onnx.helper.make_tensor_value_info("d", 1, (2,))]
    graph = onnx.helper.make_graph([node], "g", kinds, ends)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    x = np.stack([np.eye(3), 2 * np.eye(3)]).astype(np.float32)
    bound = asd.compile(asd.from_onnx(model)).bind({"x": x})
    np.testing.assert_allclose(bound()["d"], [1, 8])
    x *= 2
    np.testing.assert_allclose(bound()["d"], [8, 64])


def test_modules_of_several_shapes_bind_the_one_for_the_inputs() -> None:
    nets = [asd.zoo.build("mlp", image=4, batch=batch) for batch in (1, 2)]
    module = asd.compile(nets)
    for each in nets:
        inputs = {v.name: np.ones(v.shape, np.float32) for v in each.inputs}
        bound = module.bind(inputs)
        for name, array in module.run(inputs).items():
            np.testing.assert_array_equal(bound()[name], array)
        assert "mlp" in repr(bound)


def test_a_module_for_another_machine_cannot_be_bound() -> None:
    builder = GraphBuilder("other")
    a = builder.input(Value("a", SHAPE))
    net = Network("other", builder.finish({"n": builder.add(UnaryOp("neg"), [a], name="n")}))
    module = asd.compile(net, cpu_target("cpu-neoverse-v1", 1))
    with pytest.raises(TargetError, match="cannot run here"):
        module.bind({"a": np.zeros(SHAPE, np.float32)})
