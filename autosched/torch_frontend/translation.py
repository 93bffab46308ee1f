"""Operators whose arguments torch's ONNX exporter ignores or rounds: re-written, or refused."""

from __future__ import annotations

from typing import Any

from autosched.graph.errors import ModelImportError
from autosched.torch_frontend.aten.elementwise import is_half

_BICUBIC, _BORDER = 2, 1  # torch's numbers of grid_sample's modes


def make_translatable(graph: Any, where: str) -> None:
    """Change a ``torch.fx.Graph`` of ATen operators so that its translation to ONNX is faithful.

    Raises:
        ModelImportError: an operator whose translation would compute something else.
    """
    for node in graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        reason = _untranslatable(node)
        if reason:
            raise ModelImportError(
                f"{node.target} {reason}", where, "use another form of the operator"
            )
        _fix_sizes(node)
        _keep_scales(node)
        _leave_out_addend(node)
        _widen(node)


def _untranslatable(node: Any) -> str:
    """Why torch's exporter would translate ``node`` into something else; empty if it would not."""
    given, name = arguments_of(node), node.target._schema.name
    if given.get("divisor_override") is not None:
        return "divides by a number of its own, which torch's exporter ignores"
    if given.get("training") is True and given.get("running_mean") is not None:
        return (
            "normalises by the statistics of its batch, which torch's exporter takes for the "
            "stored statistics"
        )
    if name.endswith("_aa") and given.get("scale_factors"):
        return "smooths by scale factors, which torch's exporter ignores; give the size"
    if name.endswith("_aa") and given.get("align_corners"):
        return "smooths with aligned corners, where ONNX has other values"
    if name.startswith("aten::as_strided"):
        return "views memory beyond the elements of its tensor, which is no part of the network"
    if name == "aten::scatter_reduce" and given.get("reduce") == "mean":
        return "takes means, where torch's exporter takes the last element"
    if name == "aten::addmm" and given.get("beta") == 0 and given.get("alpha", 1) != 1:
        return "scales a product whose addend torch leaves out, and ONNX multiplies by 0"
    if name == "aten::lstm" and _projects(given):
        return "projects its states, which torch's exporter ignores; use a Linear layer after it"
    modes = given.get("interpolation_mode"), given.get("padding_mode")
    if modes == (_BICUBIC, _BORDER):
        return "interpolates cubically beyond the border, where ONNX has other values"
    return ""


def _projects(given: dict[str, Any]) -> bool:
    """Whether an LSTM has matrices besides W and R."""
    each = (4 if given["has_biases"] else 2) * (2 if given["bidirectional"] else 1)
    return len(given["params"]) != each * given["num_layers"]


def _fix_sizes(node: Any) -> None:
    """Aligned corners: the size decides, but ONNX would compute with ``extent * scale``."""
    given = arguments_of(node)
    scales = [name for name, value in given.items() if name.startswith("scale") and value]
    if not given.get("align_corners") or not scales:
        return
    sizes = [int(extent) for extent in node.meta["val"].shape[2:]]
    changed = given | {"output_size": sizes} | dict.fromkeys(scales)
    node.args, node.kwargs = tuple(changed.values()), {}


def _keep_scales(node: Any) -> None:
    """The exporter ignores scales that are not in a list."""
    import torch

    aten = torch.ops.aten
    with_list = {
        aten.upsample_linear1d.default: aten.upsample_linear1d.vec,
        aten.upsample_trilinear3d.default: aten.upsample_trilinear3d.vec,
    }
    given = arguments_of(node)
    scales = [value for name, value in given.items() if name.startswith("scales")]
    if node.target in with_list and scales and None not in scales:
        node.target = with_list[node.target]
        node.args, node.kwargs = (given["self"], None, given["align_corners"], scales), {}


def _leave_out_addend(node: Any) -> None:
    """A factor of 0: the addend may be no number, which ONNX would multiply."""
    import torch

    given = arguments_of(node)
    if node.target == torch.ops.aten.addmm.default and given.get("beta") == 0:
        node.target = torch.ops.aten.mm.default
        node.args, node.kwargs = (given["mat1"], given["mat2"]), {}


def _widen(node: Any) -> None:
    """A factor that float16 does not hold: torch rounds the product, the exporter the factor."""
    import torch

    aten = torch.ops.aten
    if node.target not in (aten.mul.Tensor, aten.div.Tensor):
        return
    (x, other), value = node.args[:2], node.meta["val"]
    factor = getattr(other, "meta", {}).get("val", other)
    if value.dtype != torch.float16 or is_half(factor):
        return
    with node.graph.inserting_before(node):
        wide = node.graph.call_function(aten._to_copy.default, (x,), {"dtype": torch.float32})
        wide.meta["val"] = x.meta["val"].float()
        result = node.graph.call_function(node.target, (wide, other))
        result.meta["val"] = value.float()
    node.target, node.args, node.kwargs = aten._to_copy.default, (result,), {"dtype": value.dtype}


def arguments_of(node: Any) -> dict[str, Any]:
    """The arguments of a call by name, in the order of its operator's schema."""
    names = [argument.name for argument in node.target._schema.arguments]
    return dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
