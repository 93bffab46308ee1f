"""What a network returns is what torch returns: tensors alone, of the same dtypes and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Network, Result
from autosched.graph.ops.elementwise import CastOp
from sketch.lang.dtypes import SUPPORTED

if TYPE_CHECKING:
    from autosched.graph.ir import Value

_PAIRS: Final = "return torch.view_as_real of a complex tensor: pairs of numbers"


def tensors_of(program: Any, where: str) -> list[Any]:
    """The tensors without elements that stand for the results of a program; None is left out.

    Args:
        program: a ``torch.export.ExportedProgram``.
        where: the module, for errors.

    Raises:
        ModelImportError: a result is a number, a text or another constant, or there is no tensor.
    """
    from torch.export.graph_signature import ConstantArgument, OutputKind

    specs = program.graph_signature.output_specs
    results = [spec.arg for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    for index, result in enumerate(results):
        if isinstance(result, ConstantArgument) and result.value is not None:
            raise ModelImportError(
                f"part {index} of the module's result is {result.value!r}, which is no tensor",
                where,
                "let forward return tensors alone",
            )
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    tensors = [values[result.name] for result in results if result.name in values]
    if not tensors:
        raise ModelImportError("the module returns no tensor", where)
    return tensors


def with_types_of(tensors: Sequence[Any], network: Network, where: str = "") -> Network:
    """The network with results of the dtypes of torch's; the exporter takes others for some.

    Args:
        tensors: torch's results, with elements or without.
        network: of the same results.
        where: the module, for errors.

    Raises:
        ModelImportError: the number of results or a shape is another one, or a dtype is one that
            networks do not have: ONNX knows no complex numbers, torch's exporter writes pairs.
    """
    ours = network.outputs
    if len(ours) != len(tensors):
        raise ModelImportError(f"of {len(tensors)} results ONNX has {len(ours)}", where)
    pairs = list(zip(ours, tensors, strict=True))
    if all(
        _dtype(theirs) in (None, value.dtype) and _fits(value, theirs) for value, theirs in pairs
    ):
        return network
    builder = GraphBuilder.from_graph(network.graph)
    for node in network.graph.nodes:
        builder.copy(node, node.inputs)
    results = []
    for (value, theirs), result in zip(pairs, network.graph.results, strict=True):
        dtype, name = _dtype(theirs) or value.dtype, result.value
        if dtype not in SUPPORTED or not _fits(value, theirs):
            raise ModelImportError(
                f"result {value.name!r} is {dtype}{list(theirs.shape)}, as ONNX it is {value.type}",
                where,
                _PAIRS if dtype.startswith("complex") else "",
            )
        if dtype != value.dtype:
            name = builder.add(CastOp(dtype), (name,), builder.unique(f"{name}.{dtype}"))
        results.append(Result(result.name, name))
    return Network(network.name, builder.finish(results), network.reduced)


def _dtype(tensor: Any) -> str | None:
    """None: it is a number, whose type nobody promises."""
    return str(tensor.dtype).removeprefix("torch.") if hasattr(tensor, "dtype") else None


def _fits(value: Value, tensor: Any) -> bool:
    """Whether the shapes are equal, as far as torch knows them."""
    if not hasattr(tensor, "shape"):
        return True
    known = [isinstance(extent, int) for extent in tensor.shape]
    return len(known) == len(value.shape) and all(
        not fixed or own == theirs
        for fixed, own, theirs in zip(known, value.shape, tensor.shape, strict=True)
    )
