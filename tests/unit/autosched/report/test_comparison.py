import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.report.comparison import Comparison, _difference, compare
from autosched.runtime.benchmark import Benchmark
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
    assert steps == ["timing what is untuned", "timing what is tuned", "timing onnxruntime"]
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
    result = compare(network, module, module, repeats=2, source=broken)
    assert [row.name for row in result.rows] == ["untuned", "tuned"] and result.error is None
    assert result.note.startswith("not compared with onnxruntime: ")
    assert result.note in str(result) and result.to_json()["note"] == result.note


def test_the_rival_runs_the_model_that_was_given(tmp_path: Path) -> None:
    """An export of the network would not do: its opset has no bitwise operators."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT32, (4,)) for n in "xy"]
    node = onnx.helper.make_node("BitwiseNot", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", info[:1], info[1:])
    opsets = [onnx.helper.make_opsetid("", 18)]
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    network = asd.from_onnx(path)
    module = asd.compile(network, threads=1)
    assert "BitwiseNot" in compare(network, module, module, repeats=2).note
    result = compare(network, module, module, repeats=2, source=path)
    assert result.error == 0.0 and result.rows[-1].name == "onnxruntime"


def test_a_network_that_lacks_inputs_of_its_file(tmp_path: Path) -> None:
    """They were given values."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    kinds = {"x": onnx.TensorProto.FLOAT, "factor": onnx.TensorProto.INT64}
    nodes = [make("Cast", ["factor"], ["f"], to=kinds["x"]), make("Mul", ["x", "f"], ["y"])]
    given = [info("x", kinds["x"], (2, 3)), info("factor", kinds["factor"], ())]
    graph = onnx.helper.make_graph(nodes, "scaled", given, [info("y", kinds["x"], (2, 3))])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "scaled.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    network = asd.from_onnx(path, values={"factor": 3})
    module = asd.compile(network, threads=1, effort="none")
    result = compare(network, module, module, repeats=2, source=path)
    assert result.note == "" and result.error == 0
    assert [row.name for row in result.rows] == ["untuned", "tuned", "onnxruntime"]
