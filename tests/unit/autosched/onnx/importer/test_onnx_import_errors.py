"""ONNX import: whatever is wrong with a model is one clear error of ours."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched
from autosched import zoo
from autosched.graph.errors import ModelImportError, UnsupportedModelError
from autosched.onnx.export import to_onnx
from autosched.onnx.importer import from_onnx
from autosched.onnx.importer.unsupported import Unsupported, kinds_of
from sketch.errors import AutoschedError


def _model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, np.ndarray] | None = None,
    shape: Sequence[int | str] = (2, 3, 8, 8),
    dtype: int = TensorProto.FLOAT,
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


RELU = helper.make_node("Relu", ["x"], ["y"])


def _saved(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.onnx"
    onnx.save(to_onnx(zoo.build("mlp", image=8).graph), path)
    return path


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=r"no such file .*missing\.onnx"):
        from_onnx(tmp_path / "missing.onnx")
    with pytest.raises(AutoschedError, match="no such file"):
        from_onnx(str(tmp_path))


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 64, b"hello, this is text\n" * 9, b"PK\x03\x04" + bytes(range(256))]
)
def test_files_that_are_no_models(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelImportError, match=r"broken\.onnx"):
        from_onnx(path)


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(fraction: float, tmp_path: Path) -> None:
    path = _saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * fraction)])
    with pytest.raises(ModelImportError, match=r"mlp\.onnx"):
        from_onnx(path)


def test_missing_external_data(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    model = to_onnx(zoo.build("mlp", image=8).graph)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    with pytest.raises(ModelImportError, match="is not in the model"):
        from_onnx(onnx.load(path, load_external_data=False))
    (tmp_path / "weights").unlink()
    with pytest.raises(ModelImportError, match="stored outside the model, cannot be read"):
        from_onnx(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = tmp_path / "mlp.onnx"
    model = to_onnx(zoo.build("mlp", image=8).graph)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    content = (tmp_path / "weights").read_bytes()
    (tmp_path / "weights").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelImportError):
        from_onnx(path)


def test_all_unsupported_nodes_are_listed() -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["a"], name="noise"),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Magic", ["b"], ["c"], name="spell", domain="com.example"),
        helper.make_node("NonZero", ["c"], ["d"], name="needs the one before"),
        helper.make_node("AveragePool", ["x"], ["f"], name="fine", kernel_shape=[2, 2]),
        helper.make_node("Magic", ["f"], ["g"], name="second spell", domain="com.example"),
        helper.make_node("NonZero", ["f"], ["h"], name="positions"),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    model = _model(nodes)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnsupportedModelError) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert "4 nodes are not supported" in text
    for part in (
        "RandomNormalLike 'noise' (RandomNormalLike draws",
        "com.example.Magic 'spell'",
        "com.example.Magic 'second spell'",
        "Cast 'y' (its shape depends on data",
    ):
        assert part in text
    assert "fine" not in text


def test_many_unsupported_nodes_make_a_short_message() -> None:
    nodes = [Unsupported("Magic", f"spell {n}") for n in range(200)]
    assert kinds_of(nodes) == "Magic 'spell 0', 'spell 1', 'spell 2' and 197 more"
    kinds = [Unsupported(f"Magic{n}", "spell", "why " * 200) for n in range(40)]
    text = kinds_of(kinds)
    assert text.startswith("Magic0 'spell' (why why") and text.endswith("; and 34 kinds more")
    assert len(text) < 1200


def test_symbolic_shapes_must_be_given() -> None:
    model = _model([RELU], shape=("N", 3, "H", "W"))
    with pytest.raises(ModelImportError) as caught:
        from_onnx(model)
    assert "x (N, 3, H, W)" in str(caught.value)
    assert "shapes={'x': (1, 3, 1, 1)}" in str(caught.value)
    assert "--shape x=1,3,1,1" in str(caught.value)
    assert "many networks need larger images" in str(caught.value)


def test_images_that_are_too_small_are_named_where_it_begins() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    model = _model(nodes, {"w": np.zeros((2, 3, 5, 5), np.float32)}, ("N", 3, "H", "W"))
    assert from_onnx(model, {"x": (1, 3, 5, 5)}).outputs[0].shape == (1, 2, 1, 1)
    with pytest.raises(ModelImportError) as caught:
        from_onnx(model, {"x": (1, 3, 1, 1)})
    text = str(caught.value)
    assert "Conv 'first'" in text and "depends on data" not in text


def test_what_onnx_finds_inconsistent_is_said_in_our_words() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["half", "", "twice"], ["whole"]),
        helper.make_node("Concat", ["x", "whole"], ["y"], axis=1, name="join"),
    ]
    constants = {"twice": np.array([1, 1, 2, 2], np.float32)}
    model = _model(nodes, constants, ("N", 3, "H", "W"))
    assert from_onnx(model, {"x": (1, 3, 4, 4)}).outputs[0].shape == (1, 6, 4, 4)
    with pytest.raises(ModelImportError) as caught:
        from_onnx(model, {"x": (1, 3, 5, 4)})
    text = str(caught.value)
    assert "shapes do not fit: Concat 'join': " in text and "InferenceError" not in text
    assert "give other shapes than x (1, 3, 5, 4), which may be too small" in text


def test_the_advice_of_compile_gives_a_network(tmp_path: Path) -> None:
    path = str(tmp_path / "open.onnx")
    onnx.save(_model([RELU], shape=("N", 3, "H", "W")), path)
    with pytest.raises(ModelImportError) as caught:
        autosched.compile(path)
    advice = re.search(r"autosched\.from_onnx\(path, .*?\}\)", str(caught.value))
    assert advice is not None
    network = eval(advice[0], {"autosched": autosched, "path": path})
    assert network.inputs[0].shape == (1, 3, 1, 1)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 4, 8, 8)}, r"\(2, 4, 8, 8\) does not fit input 'x', declared as \(N, 3, H, H\)"),
        ({"x": (2, 3, 8, 9)}, "does not fit"),
        ({"x": (2, 3, 8)}, "does not fit"),
        ({"x": (-1, 3, 8, 8)}, "does not fit"),
        ({"data": (2, 3, 8, 8)}, "'data', which is no input of the model .* inputs: x"),
    ],
)
def test_given_shapes_must_fit(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelImportError, match=message):
        from_onnx(_model([RELU], shape=("N", 3, "H", "H")), shapes)


@pytest.mark.parametrize("extent", [None, "n", 2.7])
def test_shapes_are_whole_extents_by_name(extent: object) -> None:
    model = _model([RELU], shape=("N", 3, "H", "W"))
    for shapes in ({"x": (extent, 3, 8, 8)}, {"x": extent}, [(extent, 3)]):
        with pytest.raises(ModelImportError, match="give whole extents by the names of inputs"):
            from_onnx(model, shapes)  # type: ignore[arg-type]


def test_shapes_that_break_the_model() -> None:
    model = _model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"w": np.ones((4, 3, 5, 5), np.float32)},
        ("N", 3, "H", "W"),
    )
    with pytest.raises(ModelImportError):
        from_onnx(model, {"x": (1, 3, 2, 2)})


def test_nan_weights() -> None:
    weight = np.ones((4, 3, 3, 3), np.float32)
    weight[1, 2] = np.nan
    model = _model([helper.make_node("Conv", ["x", "kernel"], ["y"])], {"kernel": weight})
    with pytest.raises(ModelImportError, match="9 of 108 elements of constant 'kernel' are NaN"):
        from_onnx(model)


def test_a_constant_of_nan_throughout_is_meant() -> None:
    """As of ``torch.where(mask, x, torch.full_like(x, nan))``."""
    nan = np.full((2, 3, 8, 8), np.nan, np.float32)
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("Where", ["mask", "x", "nan"], ["y"]),
    ]
    model = _model(nodes, {"nan": nan, "zero": np.zeros((), np.float32)})
    x = np.random.default_rng(0).standard_normal(nan.shape).astype(np.float32)
    (found,) = autosched.compile(from_onnx(model)).run({"x": x}).values()
    np.testing.assert_array_equal(found, np.where(x > 0, x, nan))


def test_inputs_that_are_no_tensors() -> None:
    model = _model([helper.make_node("SequenceLength", ["x"], ["y"])], dtype=TensorProto.INT64)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, (2, 3)))
    model.graph.input[0].type.CopyFrom(sequence)
    with pytest.raises(UnsupportedModelError, match=r"input 'x' is no tensor .*sequence_type"):
        from_onnx(model)


def test_invalid_models_and_old_opsets() -> None:
    with pytest.raises(ModelImportError, match="the model is invalid"):
        from_onnx(_model([helper.make_node("Relu", ["nowhere"], ["y"])]))
    with pytest.raises(ModelImportError, match="the model uses opset 6"):
        from_onnx(_model([RELU], opset=6))
    with pytest.raises(ModelImportError, match="no ONNX model"):
        from_onnx(onnx.ModelProto())


@pytest.mark.parametrize("location", ["/etc/hostname", "../weights", "data/../../weights", ""])
def test_external_data_outside_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(1 << 20))
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelImportError, match="not within the model's folder"):
        from_onnx(_with_external_data(folder, location))


def test_links_to_external_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(1 << 20))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "weights")
    with pytest.raises(ModelImportError, match="not within the model's folder"):
        from_onnx(_with_external_data(folder, "link"))
    (folder / "inside").symlink_to(tmp_path)
    with pytest.raises(ModelImportError, match="not within the model's folder"):
        from_onnx(_with_external_data(folder, "inside/weights"))


def _with_external_data(folder: Path, location: str) -> Path:
    """A saved model whose weight claims to be at ``location``."""
    weight = numpy_helper.from_array(np.zeros((3, 5), np.float32), "w")
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], shape=(2, 3))
    model.graph.initializer.append(weight)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", "60")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("extent", [2**31, 2**40, 2**62])
def test_tensors_too_large_for_any_memory(extent: int) -> None:
    with pytest.raises(ModelImportError, match=r"needs .* bytes"):
        from_onnx(_model([RELU], shape=(extent, 64)))
    expand = helper.make_node("Expand", ["x", "huge"], ["y"])
    with pytest.raises(ModelImportError, match="bytes"):
        from_onnx(_model([expand], {"huge": np.array([extent, 3, 1, 1])}, shape=(1, 3, 8, 8)))
    nodes = [
        helper.make_node("ConstantOfShape", ["huge"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    with pytest.raises(ModelImportError, match="bytes"):
        from_onnx(_model(nodes, {"huge": np.array([extent, 3, 8, 8])}, shape=(1, 3, 8, 8)))


def test_cycles() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    with pytest.raises(ModelImportError, match=r"the model is invalid: .*sorted"):
        from_onnx(_model(nodes))


def test_wrong_types() -> None:
    model = _model([helper.make_node("Add", ["x", "c"], ["y"])], {"c": np.array([1, 2])}, (2, 2))
    with pytest.raises(ModelImportError, match=r"'c' is a tensor\(int64\) next to tensor\(float\)"):
        from_onnx(model)
    model = _model([helper.make_node("BitwiseNot", ["x"], ["y"])], opset=18)
    with pytest.raises(ModelImportError, match=r"BitwiseNot takes no tensor\(float\) as input 'x'"):
        from_onnx(model)
    model = _model([RELU])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(ModelImportError):
        from_onnx(model)


def test_weights_that_do_not_fit_their_shape() -> None:
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], shape=(2, 3))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((3, 5), np.float32), "w"))
    model.graph.initializer[0].raw_data = b"1234"
    with pytest.raises(ModelImportError):
        from_onnx(model)


def test_importers_that_stumble_name_the_node() -> None:
    pad = helper.make_node("Pad", ["x", "pads"], ["y"], name="border", mode=b"\xff\xfe")
    with pytest.raises(ModelImportError, match=r"UnicodeDecodeError.* node border \(Pad\)"):
        from_onnx(_model([pad], {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}))


@pytest.mark.parametrize("source", [5, None, ["model.onnx"]])
def test_what_can_be_no_model(source: object) -> None:
    with pytest.raises(ModelImportError, match=f"of type {type(source).__name__}"):
        from_onnx(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [b"model", b"", b"\x08"])
def test_bytes_that_are_no_model(source: bytes) -> None:
    with pytest.raises(ModelImportError, match=r"no ONNX model.* ONNX model \|"):
        from_onnx(source)


def test_stated_shapes_do_not_hide_shapes_that_do_not_fit() -> None:
    """The model says what its output is like, but nobody can compute that."""
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": np.ones(3, np.float32)})
    for extent in (2, 3, 8, 8):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = extent
    with pytest.raises(ModelImportError, match=r"shapes do not fit.*Add"):
        from_onnx(model)


def test_layouts_of_one_machine_are_refused_with_what_to_save_instead() -> None:
    nodes = [
        helper.make_node("ReorderInput", ["x"], ["a"], domain="com.microsoft.nchwc"),
        helper.make_node("ReorderOutput", ["a"], ["y"], domain="com.microsoft.nchwc", channels=3),
    ]
    model = _model(nodes)
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(ModelImportError, match="save it with ORT_ENABLE_EXTENDED"):
        from_onnx(model)
