import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.report.comparison import Comparison, OnnxFile, _difference, before_and_after, compare
from autosched.runtime.benchmark import Benchmark
from autosched.runtime.errors import InputError
from codegen.gpu.emulation.library import compiler


def test_the_table_relates_everything_to_the_first_row() -> None:
    rows = (Benchmark("untuned", (4e-3, 4e-3), 2), Benchmark("tuned", (1e-3,), 2))
    text = str(Comparison(rows, None))
    assert "4.00x" in text and "relative difference" not in text
    data = Comparison(rows, 2e-7).to_json()
    assert data["relative_error"] == 2e-7 and len(data["rows"]) == 2
    assert "2.0e-07" in str(Comparison(rows, 2e-7))


def test_short_times_have_three_digits() -> None:
    rows = (Benchmark("untuned", (1.73e-5,), 2), Benchmark("tuned", (3.97e-6,), 2))
    text = str(Comparison(rows, None))
    assert " 0.0173 " in text and " 0.00397 " in text
    assert str(rows[0]).startswith("untuned: median 0.0173 ms, mean 0.0173 ms")


@pytest.mark.parametrize(
    ("total_s", "said"),
    [(1.1e-3, False), (0.7e-3, True), (2e-3, True), (math.inf, False), (0.0, False)],
)
def test_a_total_that_is_not_the_networks_time_is_explained(total_s: float, said: bool) -> None:
    found = Comparison((Benchmark("untuned", (9e-3,), 1), Benchmark("tuned", (1e-3,), 1)), None)
    text = found.unlike_total(total_s)
    assert bool(text) == said and ("timed alone" in text) == said and "\n" not in text
    assert "host" not in text
    hosted = replace(found, on_host=("ScatterND", "TopK")).unlike_total(total_s)
    assert ("while tuning without ScatterND, TopK on the host" in hosted) == said


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0),
        ([1.0, np.nan, np.inf], [2.0, np.nan, np.inf], 0.5),
        ([np.nan, 1.0], [1.0, 1.0], np.inf),
        ([1.0, 1.0], [np.nan, 1.0], np.inf),
        ([-np.inf, 1.0], [np.inf, 1.0], np.inf),
    ],
)
def test_infinities_and_nan_are_equal_to_themselves(
    ours: list[float], theirs: list[float], expected: float
) -> None:
    found = _difference(np.array(ours, np.float32), np.array(theirs, np.float32))
    assert found == expected


def test_modules_are_timed_in_turns() -> None:
    module = asd.compile(asd.zoo.build("mlp", image=4), threads=1, effort="none")
    inputs = module.random_inputs()
    rows = before_and_after(module, module, inputs, repeats=7)
    assert [(row.name, len(row.seconds)) for row in rows] == [("untuned", 7), ("tuned", 7)]
    with pytest.raises(InputError, match="repeats"):
        before_and_after(module, module, inputs, repeats=0)


def test_what_cannot_be_a_number_is_said() -> None:
    found = Comparison((Benchmark("untuned", (1e-3,), 1),), math.inf, "on CPUs")
    assert "in other places than in onnxruntime's" in str(found)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["relative_error"] is None
    assert "other places" in data["note"] and "on CPUs" in data["note"]


def test_a_network_against_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    network = asd.zoo.build("mlp")
    module = asd.compile(network, threads=1)
    steps: list[str] = []
    result = compare(network, module, module, repeats=2, told=steps.append)
    assert [row.name for row in result.rows] == ["untuned", "tuned", "onnxruntime"]
    assert steps == ["timing what is untuned and what is tuned, in turns", "timing onnxruntime"]
    assert result.error is not None and result.error < 1e-5
    assert all(np.isfinite(row.seconds).all() for row in result.rows)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.slow
def test_on_an_emulated_device_only_the_results_are_compared_with_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    network = asd.zoo.build("mlp", image=4)
    module = asd.compile(network, asd.Target("cuda:h200", device="emulated"))
    result = compare(network, module, module, repeats=2)
    assert [row.name for row in result.rows] == ["untuned", "tuned"]
    assert result.error is not None and result.error < 1e-5
    assert "stable" not in str(result).replace("stability", "") and "emulated" in str(result)


def test_a_rival_that_cannot_run_the_network_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    network = asd.zoo.build("mlp", image=4)
    module = asd.compile(network, threads=1)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    result = compare(network, module, module, repeats=2, source=OnnxFile(broken))
    assert [row.name for row in result.rows] == ["untuned", "tuned"] and result.error is None
    assert result.note.startswith("not compared with onnxruntime: ")
    assert result.note in str(result) and result.to_json()["note"] == result.note


def test_the_rival_runs_the_model_that_was_given(tmp_path: Path) -> None:
    """An export of the network would not do: a convolution of int32 has no form."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    data = make("x", kinds.UINT8, (1, 2, 4, 4))
    result = make("y", kinds.INT32, (1, 1, 3, 3))
    constants = [
        onnx.numpy_helper.from_array(np.full((1, 2, 2, 2), 3, np.uint8), "w"),
        onnx.numpy_helper.from_array(np.array(7, np.uint8), "zero"),
    ]
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [data], [result], constants)
    opsets = [onnx.helper.make_opsetid("", 18)]
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    network = asd.from_onnx(path)
    module = asd.compile(network, threads=1)
    assert "no ONNX form" in compare(network, module, module, repeats=2).note
    found = compare(network, module, module, repeats=2, source=OnnxFile(path))
    assert found.error == 0.0 and found.rows[-1].name == "onnxruntime"


def test_the_rival_is_given_the_values_that_the_network_has(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    x, y = make("x", kinds.FLOAT, (4,)), make("y", kinds.FLOAT, (4,))
    extra = [make("rate", kinds.INT64, ()), make("flags", kinds.BOOL, (2,))]
    nodes = [
        onnx.helper.make_node("Cast", ["rate"], ["number"], to=kinds.FLOAT),
        onnx.helper.make_node("Mul", ["x", "number"], ["scaled"]),
        onnx.helper.make_node("ReduceMax", ["flag_numbers"], ["flag"], keepdims=0),
        onnx.helper.make_node("Add", ["scaled", "flag"], ["y"]),
    ]
    nodes.insert(2, onnx.helper.make_node("Cast", ["flags"], ["flag_numbers"], to=kinds.FLOAT))
    graph = onnx.helper.make_graph(nodes, "g", [x, *extra], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    values = {"rate": 3, "flags": True}
    network = asd.from_onnx(path, values=values)
    module = asd.compile(network, threads=1)
    result = compare(network, module, module, repeats=2, source=OnnxFile(path, values))
    assert result.error == 0.0 and not result.note


def test_one_number_fills_an_input_whose_extent_another_one_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    x, rate, y = (make(name, kinds.FLOAT, ("n", 2)) for name in ("x", "rate", "y"))
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "rate"], ["y"])], "g", [x, rate], [y]
    )
    path = tmp_path / "model.onnx"
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    network = asd.from_onnx(path, shapes={"x": (3, 2)}, values={"rate": 3})
    module = asd.compile(network, threads=1)
    source = OnnxFile(path, {"rate": 3})
    result = compare(network, module, module, repeats=2, source=source)
    assert result.error == 0.0 and not result.note


@pytest.mark.parametrize("unnamed", [True, False])
def test_one_number_fills_an_input_whose_extents_only_the_user_says(
    tmp_path: Path, unnamed: bool
) -> None:
    """By a shape, or by another value."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    make, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    extent = None if unnamed else "n"
    x = make("x", kinds.FLOAT, (3, 2))
    rate, added, y = (make(name, kinds.FLOAT, (extent, 2)) for name in ("rate", "added", "y"))
    nodes = [
        onnx.helper.make_node("Mul", ["x", "rate"], ["scaled"]),
        onnx.helper.make_node("Add", ["scaled", "added"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x, rate, added], [y])
    path = tmp_path / "model.onnx"
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    values = {"rate": 3, "added": np.arange(6.0).reshape(3, 2)}
    shapes = {"rate": (3, 2)} if unnamed else {}
    network = asd.from_onnx(path, shapes=shapes, values=values)
    module = asd.compile(network, threads=1)
    source = OnnxFile(path, values, shapes)
    result = compare(network, module, module, repeats=2, source=source)
    assert result.error is not None and result.error < 1e-6 and not result.note
