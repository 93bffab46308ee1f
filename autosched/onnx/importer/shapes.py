"""Static shapes for a model's inputs, given by the model or by the caller."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import index
from typing import Final

import onnx
from onnx import helper

from autosched.graph.errors import (
    GraphError,
    ModelImportError,
    OpenShapesError,
    UnsupportedModelError,
)
from autosched.graph.ir import Value
from autosched.graph.ops.base import Shape, check_size
from autosched.onnx.importer.inference import infer_types
from autosched.onnx.importer.piece import Arrays, dtype_name
from autosched.onnx.importer.window_inference import infer_with_windows

Dimension = int | str
Dimensions = tuple[Dimension, ...] | None
Declared = tuple[str, str, Dimensions]  # name, dtype, dimensions
Shapes = Mapping[str, Sequence[int]]

# What onnx's inference writes around the node and what is wrong there.
_ERROR_NAME: Final = re.compile(r"\[\w+Error\] (?:Inference error\(s\): )?")
_NODE: Final = re.compile(r"\(op_type:(\w+)(?:, node name: (.*?))?\): ")


def input_values(
    model: onnx.ModelProto, shapes: Shapes | None, arrays: Arrays | None = None
) -> tuple[Value, ...]:
    """The model's inputs (initializers are none) with static shapes.

    Args:
        model: the model.
        shapes: shapes of inputs, by name.
        arrays: values of inputs, by name; those with dimensions say a shape, too.

    Raises:
        ModelImportError: a symbolic dimension without a shape in ``shapes``, a shape that
            contradicts the model, an unknown name in ``shapes`` or ``arrays``, an input that is no
            tensor or too large for any memory.
    """
    shaped = {name: array.shape for name, array in (arrays or {}).items() if array.ndim}
    given = shaped | _given(shapes)
    initialized = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in initialized]
    dtypes = {info.name: _dtype(info) for info in infos}
    declared = {info.name: _declared(info) for info in infos}
    for what, names in (("shapes", shapes or ()), ("values", arrays or ())):
        check_known(what, names, declared)
    given = _following(declared, given, arrays or {}) | given
    _check_all_static(declared, given)
    symbols: dict[str, int] = {}
    return tuple(
        _checked(Value(name, _resolved(name, dims, given, symbols), dtypes[name]))
        for name, dims in declared.items()
    )


def _given(shapes: Shapes | None) -> dict[str, Shape]:
    if shapes is None:
        return {}
    try:
        return {name: tuple(index(extent) for extent in s) for name, s in shapes.items()}
    except (AttributeError, TypeError) as error:
        raise ModelImportError(
            f"shapes are {shapes!r}",
            "from_onnx",
            'give whole extents by the names of inputs, such as shapes={"x": (1, 3, 224, 224)}',
        ) from error


def _following(
    declared: Mapping[str, Dimensions], given: Mapping[str, Shape], arrays: Arrays
) -> dict[str, Shape]:
    """Shapes of inputs of one number for all elements, where other inputs say their extents.

    Args:
        declared: dimensions of all inputs.
        given: shapes that the caller gives.
        arrays: values of inputs.
    """
    known: dict[Dimension, int] = {}
    for name, shape in given.items():
        known.update(zip(declared.get(name) or (), shape, strict=False))
    known.pop("?", None)  # no symbol: each is another extent
    numbers = {name: declared[name] for name, array in arrays.items() if not array.ndim}
    return {
        name: tuple(dim if isinstance(dim, int) else known[dim] for dim in dims)
        for name, dims in numbers.items()
        if dims is not None and all(isinstance(dim, int) or dim in known for dim in dims)
    }


def check_known(what: str, names: Iterable[str], declared: Collection[str]) -> None:
    """Raise ModelImportError where the argument ``what`` names other inputs than are declared."""
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise ModelImportError(
            f"{what} names {unknown[0]!r}, which is no input of the model",
            "from_onnx",
            f"inputs: {', '.join(declared)}",
        )


def declared_tensors(model: onnx.ModelProto) -> tuple[list[Declared], list[Declared]]:
    """The inputs (initializers are none) and the outputs of a model, as it describes them.

    Raises:
        UnsupportedModelError: one is no tensor.
    """
    initialized = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initialized]
    return (
        [(info.name, _dtype(info), _declared(info)) for info in inputs],
        [(info.name, _dtype(info, "output"), _declared(info)) for info in model.graph.output],
    )


def with_static_inputs(
    model: onnx.ModelProto, inputs: Sequence[Value]
) -> tuple[onnx.ModelProto, str | None]:
    """A copy of ``model`` whose inputs have these shapes, with all shapes inferred.

    Also returns what onnx finds inconsistent, None if nothing.  A complaint need not be the
    model's fault (onnx's inference has its own), so it only says why a model cannot be imported.

    Raises:
        ModelImportError: onnx cannot infer anything.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    shapes = {value.name: value.shape for value in inputs}
    for info in copy.graph.input:
        if info.name in shapes:
            kind = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shapes[info.name]))
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        if info.type.WhichOneof("value") == "tensor_type":
            info.type.tensor_type.ClearField("shape")
    try:
        return infer_with_windows(copy, _infer_strictly), None
    except Exception as error:  # InferenceError, or what else broken models make onnx raise
        complaint = _complaint(error)
    try:
        return infer_with_windows(copy, infer_types), complaint
    except Exception as error:
        raise shapes_do_not_fit(_complaint(error), model, inputs) from error


def _infer_strictly(model: onnx.ModelProto) -> onnx.ModelProto:
    return infer_types(model, strict=True)


def shapes_do_not_fit(
    complaint: str, model: onnx.ModelProto, inputs: Sequence[Value], advice: str = ""
) -> ModelImportError:
    """The error for a model that onnx finds inconsistent.

    Args:
        complaint: what it says.
        model: as it was read.
        inputs: with the shapes that they were given.
        advice: what to do, empty for what helps always.
    """
    dims = {info.name: _declared(info) for info in model.graph.input}
    given = [f"{v.name} {_text(v.shape)}" for v in inputs if _is_open(dims[v.name])]
    shapes = f"other shapes than {', '.join(given)}, which may be too small" if given else ""
    return ModelImportError(
        f"shapes do not fit: {complaint}",
        "from_onnx",
        advice or (f"give {shapes}" if given else "check the model and the shapes given"),
    )


def _complaint(error: Exception) -> str:
    """The first line of what onnx says, without its names of errors; the node comes first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = _ERROR_NAME.sub("", lines[0]) if lines else ""
    return _NODE.sub(lambda n: f"{n[1]} {n[2]!r}: " if n[2] else f"{n[1]}: ", text)


def _is_open(dims: Dimensions) -> bool:
    """Whether a model leaves an extent open."""
    return dims is None or any(isinstance(dim, str) for dim in dims)


def _declared(info: onnx.ValueInfoProto) -> Dimensions:
    """Extents, or the names of symbolic ones ('?' where there is no name); None: any rank."""
    if not info.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0
        else dim.dim_param or "?"
        for dim in info.type.tensor_type.shape.dim
    )


def _check_all_static(declared: Mapping[str, Dimensions], given: Mapping[str, Shape]) -> None:
    symbolic = {
        name: dims for name, dims in declared.items() if name not in given and _is_open(dims)
    }
    if symbolic:
        listed = ", ".join(f"{name} {_text(dims)}" for name, dims in symbolic.items())
        example = ", ".join(f"{name!r}: {_text(_example(d))}" for name, d in symbolic.items())
        raise OpenShapesError(
            f"input shapes are not static: {listed}",
            "from_onnx",
            "give a network of the shapes that you want, for example "
            f"autosched.from_onnx(path, shapes={{{example}}}) "
            f"(on the command line: {_options(symbolic)}); a 1 stands for what is open, and many "
            "networks need larger images or longer clips",
        )


def _resolved(
    name: str,
    dims: Dimensions,
    given: Mapping[str, Shape],
    symbols: dict[str, int],
) -> Shape:
    declared = dims if dims is not None else ("?",) * len(given[name])
    shape = given.get(name, tuple(dim for dim in declared if isinstance(dim, int)))
    fits = len(shape) == len(declared)
    for extent, dim in zip(shape, declared, strict=False):
        expected = dim if isinstance(dim, int) else symbols.setdefault(dim, extent)
        fits = fits and extent >= 0 and (dim == "?" or expected == extent)
    if not fits:
        raise ModelImportError(
            f"shape {shape} does not fit input {name!r}, declared as {_text(declared)}",
            "from_onnx",
            "equal symbols need equal extents, and none is negative",
        )
    return shape


def _dtype(info: onnx.ValueInfoProto, what: str = "input") -> str:
    form = info.type.WhichOneof("value")
    dtype = dtype_name(info.type.tensor_type.elem_type) if form == "tensor_type" else None
    if dtype is None:
        raise UnsupportedModelError(
            f"{what} {info.name!r} is no tensor of a known type ({form or 'no type'})",
            "from_onnx",
            f"export a model whose {what}s are tensors",
        )
    return dtype


def _checked(value: Value) -> Value:
    try:
        check_size(value.name, value.type)
    except GraphError as error:
        raise ModelImportError(error.what, "from_onnx", error.hint) from error
    return value


def _text(dims: Dimensions) -> str:
    if dims is None:
        return "(any shape)"
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def _example(dims: Dimensions) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else 1 for dim in dims or ())


def _options(symbolic: Mapping[str, Dimensions]) -> str:
    return " ".join(
        f"--shape {name}={','.join(map(str, _example(dims)))}" for name, dims in symbolic.items()
    )
