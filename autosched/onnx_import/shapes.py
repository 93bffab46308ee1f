"""Static shapes for a model's inputs, given by the model or by the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper, shape_inference

from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Value
from autosched.graph.ops.base import Shape
from sketch.dtypes import SUPPORTED

Dimension = int | str
Shapes = Mapping[str, Sequence[int]]


def input_values(model: onnx.ModelProto, shapes: Shapes | None) -> tuple[Value, ...]:
    """The model's inputs (initializers are none) with static shapes.

    Raises:
        ModelImportError: a symbolic dimension without a shape in ``shapes``, a shape that
            contradicts the model, an unknown name in ``shapes``, an unsupported dtype.
    """
    given = {name: tuple(int(extent) for extent in s) for name, s in (shapes or {}).items()}
    initialized = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in initialized]
    declared = {info.name: _declared(info) for info in infos}
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise ModelImportError(
            f"shapes names {unknown[0]!r}, which is no input of the model",
            "from_onnx",
            f"inputs: {', '.join(declared)}",
        )
    _check_all_static(declared, given)
    symbols: dict[str, int] = {}
    return tuple(
        Value(info.name, _resolved(info.name, declared[info.name], given, symbols), _dtype(info))
        for info in infos
    )


def with_static_inputs(model: onnx.ModelProto, inputs: Sequence[Value]) -> onnx.ModelProto:
    """A copy of ``model`` whose inputs have these shapes, with all shapes inferred.

    Raises:
        ModelImportError: onnx finds the model inconsistent.
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
        info.type.tensor_type.ClearField("shape")
    try:
        return shape_inference.infer_shapes(copy, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ModelImportError(
            f"shapes do not fit: {first}", "from_onnx", "check the model and the shapes given"
        ) from error


def static_shape(info: onnx.ValueInfoProto) -> Shape | None:
    """The shape that a value was inferred to have; None unless all of it is known."""
    dims = _declared(info)
    if not info.type.tensor_type.HasField("shape") or any(isinstance(d, str) for d in dims):
        return None
    return tuple(int(d) for d in dims)


def _declared(info: onnx.ValueInfoProto) -> tuple[Dimension, ...]:
    """Extents, or the names of symbolic ones ('?' where there is no name)."""
    return tuple(
        dim.dim_value if dim.WhichOneof("value") == "dim_value" else dim.dim_param or "?"
        for dim in info.type.tensor_type.shape.dim
    )


def _check_all_static(
    declared: Mapping[str, tuple[Dimension, ...]], given: Mapping[str, Shape]
) -> None:
    symbolic = {
        name: dims
        for name, dims in declared.items()
        if name not in given and any(isinstance(dim, str) or dim < 1 for dim in dims)
    }
    if symbolic:
        listed = ", ".join(f"{name} {_text(dims)}" for name, dims in symbolic.items())
        example = ", ".join(f"{name!r}: {_text(_example(d))}" for name, d in symbolic.items())
        raise ModelImportError(
            f"input shapes are not static: {listed}",
            "from_onnx",
            f"say which shapes you want, for example shapes={{{example}}}",
        )


def _resolved(
    name: str,
    declared: tuple[Dimension, ...],
    given: Mapping[str, Shape],
    symbols: dict[str, int],
) -> Shape:
    shape = given.get(name, tuple(dim for dim in declared if isinstance(dim, int)))
    fits = len(shape) == len(declared) and all(extent > 0 for extent in shape)
    for extent, dim in zip(shape, declared, strict=False):
        expected = dim if isinstance(dim, int) else symbols.setdefault(dim, extent)
        fits = fits and (dim == "?" or expected == extent)
    if not fits:
        raise ModelImportError(
            f"shape {shape} does not fit input {name!r}, declared as {_text(declared)}",
            "from_onnx",
            "equal symbols need equal positive extents",
        )
    return shape


def _dtype(info: onnx.ValueInfoProto) -> str:
    kind = info.type.tensor_type.elem_type
    dtype = str(helper.tensor_dtype_to_np_dtype(kind)) if kind else "no tensor"
    if dtype not in SUPPORTED:
        raise ModelImportError(
            f"input {info.name!r} has dtype {dtype}",
            "from_onnx",
            f"export the model with one of {', '.join(SUPPORTED)}",
        )
    return dtype


def _text(dims: Sequence[Dimension]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def _example(dims: Sequence[Dimension]) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) and dim > 0 else 1 for dim in dims)
