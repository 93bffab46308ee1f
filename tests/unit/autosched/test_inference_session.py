"""``InferenceSession`` answers as ONNX Runtime's does, for fixed and for open shapes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched import inference_session, session_models
from autosched.io_binding import OutputValue
from autosched.runtime.errors import InputError
from autosched.system.errors import OptionError
from autosched.system.user_warnings import AutoschedWarning
from sketch.errors import TargetError

onnx = pytest.importorskip("onnx", reason="sessions read ONNX models")

WEIGHTS = np.random.default_rng(0).standard_normal((6, 4), dtype=np.float32)


def model_bytes(batch: int | str) -> bytes:
    """``relu(x @ w)`` and ``sum(x)`` of each row."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"]),
             helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0)]  # fmt: skip
    infos = {"x": [batch, 6], "y": [batch, 4], "s": [batch]}
    values = {n: helper.make_tensor_value_info(n, kind, dims) for n, dims in infos.items()}
    constants = [onnx.numpy_helper.from_array(WEIGHTS, "w"),
                 onnx.numpy_helper.from_array(np.array([1], np.int64), "axes")]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [values["x"]], [values["y"], values["s"]], constants)
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def x_of(batch: int) -> Any:
    return np.random.default_rng(batch).standard_normal((batch, 6), dtype=np.float32)


def session_of(model: Any, **options: Any) -> asd.InferenceSession:
    return asd.InferenceSession(model, effort="none", threads=1, **options)


def same_as_numpy(session: asd.InferenceSession, batch: int) -> None:
    x = x_of(batch)
    y, total = session.run(None, {"x": x})
    np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, x.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_it_answers_as_onnxruntime_does() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="answers are compared with its own")
    for batch in (3, "n"):
        model = model_bytes(batch)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        arguments = (model, options, ["CPUExecutionProvider"])
        theirs = runtime.InferenceSession(*arguments)
        mine = asd.InferenceSession(*arguments, effort="none")
        for method in ("get_inputs", "get_outputs"):
            found, expected = (
                [(arg.name, arg.type, arg.shape) for arg in getattr(session, method)()]
                for session in (mine, theirs)
            )
            assert found == expected
        assert mine.get_providers() == theirs.get_providers()
        feed = {"x": x_of(3)}
        for names in (None, ["s"], ["s", "y"], ["y"], []):
            for a, b in zip(mine.run(names, feed), theirs.run(names, feed), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_call_written_for_onnxruntime_works_unchanged() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="answers are compared with its own")
    model = onnx.load_from_string(model_bytes(3))
    model.producer_name, model.doc_string, model.model_version = "by hand", "a test", 7
    onnx.helper.set_model_props(model, {"names": "cat, dog"})
    given: dict[str, Any] = {
        "path_or_bytes": model.SerializeToString(),
        "sess_options": None,
        "providers": ["CPUExecutionProvider"],
        "provider_options": [{"arena_extend_strategy": "kSameAsRequested"}],
        "disabled_optimizers": {"MatMulAddFusion"},
    }
    theirs, mine = runtime.InferenceSession(**given), asd.InferenceSession(**given, effort="none")
    found, expected = mine.get_modelmeta(), theirs.get_modelmeta()
    for name in ("producer_name", "graph_name", "domain", "description", "graph_description",
                 "version", "custom_metadata_map"):  # fmt: skip
        assert getattr(found, name) == getattr(expected, name)
    x, y, two = x_of(3), np.zeros((3, 4), np.float32), 2 * x_of(3)
    for session in (theirs, mine):
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("s")
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        total, result = binding.copy_outputs_to_cpu()
        np.testing.assert_allclose(total, x.sum(axis=1), rtol=1e-5, atol=1e-5)
        for array in (result, y):
            np.testing.assert_allclose(array, np.maximum(x @ WEIGHTS, 0), rtol=1e-5, atol=1e-5)
        assert [value.shape() for value in binding.get_outputs()] == [[3], [3, 4]]
        y[:] = 0
        binding.clear_binding_outputs()
        binding.clear_binding_inputs()
        binding.bind_output("s")
        binding.bind_input("x", "cpu", 0, np.float32, two.shape, two.ctypes.data)
        session.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
        np.testing.assert_allclose(value.numpy(), two.sum(axis=1), rtol=1e-5, atol=1e-5)
        binding.bind_ortvalue_input("x", runtime.OrtValue.ortvalue_from_numpy(x))
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], x.sum(axis=1), atol=1e-5)
        mine_or_theirs = runtime.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
        binding.clear_binding_outputs()
        binding.bind_ortvalue_output("s", mine_or_theirs)
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(mine_or_theirs.numpy(), x.sum(axis=1), atol=1e-5)
        (value,) = binding.get_outputs()
        binding.bind_ortvalue_output("s", value)
        binding.bind_cpu_input("x", two)
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(value.numpy(), two.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_bound_is_one_clear_error() -> None:
    session = session_of(model_bytes(2))
    binding = session.io_binding()
    with pytest.raises(InputError, match=r"memory of device 'cuda'.*input 'x'"):
        binding.bind_input("x", "cuda", 0, np.float32, (2, 6), 0)
    with pytest.raises(InputError, match=r"memory of device 'cuda'.*output 'y'"):
        binding.bind_output("y", "cuda")
    with pytest.raises(InputError, match=r"no output is named 'z' \| the model has y, s"):
        binding.bind_output("z")
    with pytest.raises(InputError, match="memory without a shape"):
        binding.bind_output("y", buffer_ptr=64)
    for kind, shape, address in (
        (np.float32, (2, 4), 0), (np.float32, (-2, 4), 64), (np.float32, (2, 4), -64),
        (object, (2, 4), 64), ("nonsense", (2, 4), 64), (np.float32, (2.5, 4), 64),
        (np.float32, 3, 64), (np.float32, (2, 4), "64"), (np.float32, None, 64),
    ):  # fmt: skip
        with pytest.raises(InputError, match="input 'x'"):
            binding.bind_input("x", "cpu", 0, kind, shape, address)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no output is bound.*bind_output .* of y, s"):
        session.run_with_iobinding(binding)
    with pytest.raises(InputError, match="no output is named 'z'"):
        binding.bind_ortvalue_output("z", OutputValue(np.zeros(2, np.float32)))
    binding.bind_output("y")
    with pytest.raises(InputError, match="no array for input 'x'"):
        session.run_with_iobinding(binding)


def test_a_file_of_either_kind_or_a_module(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model_bytes(2))
    module = asd.compile(path, threads=1, effort="none")
    module.save(tmp_path / "net.asd")
    for model in (path, str(path), str(tmp_path / "net.asd"), module):
        same_as_numpy(session_of(model), 2)
    same_as_numpy(session_of(tmp_path / "net.asd", shared=True), 2)
    assert session_of(module).get_inputs()[0].shape == [2, 6]


def test_a_module_for_several_batches() -> None:
    networks = [asd.from_onnx(model_bytes("n"), {"x": (n, 6)}) for n in (1, 4)]
    session = session_of(asd.compile(networks, threads=1, effort="none"))
    assert session.get_inputs()[0].shape == [None, 6]
    assert [arg.shape for arg in session.get_outputs()] == [[None, 4], [None]]
    for batch in (1, 4):
        same_as_numpy(session, batch)
    with pytest.raises(InputError, match="no code for"):
        session.run(None, {"x": x_of(2)})


def test_open_shapes_are_compiled_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_network = inference_session.compile_network

    def counted(network: Any, *arguments: Any, **options: Any) -> Any:
        compiled.append(network.inputs[0].shape)
        return compile_network(network, *arguments, **options)

    monkeypatch.setattr(inference_session, "compile_network", counted)
    session = session_of(model_bytes("n"))
    assert compiled == []
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: same_as_numpy(session, batch), (1, 2, 1, 2)))
    assert sorted(compiled) == [(1, 6), (2, 6)]
    monkeypatch.setattr(session_models, "_MOST_SHAPES", 2)
    same_as_numpy(session, 1)
    with pytest.warns(AutoschedWarning, match=r"more than 2 sets of .* \(\(2, 6\),\) is dropped"):
        same_as_numpy(session, 3)
    same_as_numpy(session, 1)  # used after the other: it stays
    assert len(compiled) == 3


def test_an_open_extent_may_be_0() -> None:
    session = session_of(model_bytes("n"))
    for batch in (0, 2):
        same_as_numpy(session, batch)


@pytest.mark.parametrize("batch", [2, "n"])
def test_what_does_not_fit_is_one_clear_error(batch: int | str) -> None:
    session = session_of(model_bytes(batch))
    with pytest.raises(InputError, match=r"no output is named 'z' \| the model has y, s"):
        session.run(["z"], {"x": x_of(2)})
    for names in ("y", 3):
        with pytest.raises(InputError, match="output_names is"):
            session.run(names, {"x": x_of(2)})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"no array for input 'x'; no input is named 'X'"):
        session.run(None, {"X": x_of(2)})
    for shape in ((2, 7), (0, 7), (6,), (1, 2, 6), ()):
        with pytest.raises(InputError, match=r"shape .* expected .* input 'x'"):
            session.run(None, {"x": np.zeros(shape, np.float32)})
    with pytest.raises(asd.AutoschedError, match="float64"):
        session.run(None, {"x": np.zeros((2, 6))})
    with pytest.raises(InputError, match=r"the list is no tensor\(float\).*input 'x'"):
        session.run(None, {"x": [[1.0], [1.0, 2.0]]})
    with pytest.raises(InputError, match="must be a dict"):
        session.run(None, [x_of(2)])  # type: ignore[arg-type]
    x = x_of(2)
    for a, b in zip(session.run(None, {"x": x.tolist()}), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(a, b)


def test_providers_and_options() -> None:
    model, both = model_bytes(1), ["CUDAExecutionProvider", ("CPUExecutionProvider", {})]
    assert session_of(model, providers=both).get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(OptionError, match=r'TensorrtExecutionProvider do not .*target="cuda"'):
        session_of(model, providers=["TensorrtExecutionProvider"])
    for wrong in ("CPUExecutionProvider", [()], [None], 3):
        with pytest.raises(OptionError, match="providers is"):
            session_of(model, providers=wrong)
    for options_given in ([{}, {}], {}, [1]):
        with pytest.raises(OptionError, match="provider_options is"):
            session_of(model, providers=both[1:], provider_options=options_given)
    with pytest.raises(TargetError, match="threads is '2'"):
        asd.InferenceSession(model, SimpleNamespace(intra_op_num_threads="2"))
    with pytest.raises(TargetError, match="threads is 0"):  # the session's own argument
        asd.InferenceSession(model, threads=0)
    options = SimpleNamespace(intra_op_num_threads=2)
    session = asd.InferenceSession(model, options, effort="none")
    assert session._model.module_for({}).target.threads == 2
    with pytest.raises(asd.AutoschedError, match="this is no ONNX model"):
        session_of(b"nonsense")
    with pytest.raises(asd.AutoschedError, match="no such file"):
        session_of("missing.onnx")


@pytest.mark.parametrize("batch", [3, "n"])
def test_inputs_with_values_are_no_inputs_of_the_session(batch: int | str) -> None:
    model = onnx.load_from_string(model_bytes(batch))
    helper = onnx.helper
    model.graph.input.append(helper.make_tensor_value_info("k", onnx.TensorProto.FLOAT, []))
    model.graph.node.append(helper.make_node("Mul", ["y", "k"], ["z"]))
    model.graph.output[0].name = "z"
    data = model.SerializeToString()
    session = session_of(data, values={"k": 2})
    assert [arg.name for arg in session.get_inputs()] == ["x"]
    (found,) = session.run(["z"], {"x": x_of(3)})
    np.testing.assert_allclose(found, 2 * np.maximum(x_of(3) @ WEIGHTS, 0), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="k"):
        session.run(None, {"x": x_of(3), "k": np.float32(2)})
    with pytest.raises(asd.AutoschedError, match=r"values names 'q'.*inputs: x, k"):
        session_of(data, values={"q": 2})


def test_a_compiled_model_takes_no_values() -> None:
    module = asd.compile(asd.zoo.build("mlp", image=4), threads=1, effort="none")
    with pytest.raises(OptionError, match="values are for ONNX models"):
        asd.InferenceSession(module, values={"k": 2})
