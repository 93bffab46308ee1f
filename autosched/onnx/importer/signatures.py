"""Do a node's inputs have the types that its operator takes?  onnx's own checks do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import onnx
from onnx import defs

from autosched.onnx.importer.site import UnsupportedError
from autosched.onnx.type_names import onnx_type

_VARIADIC: Final = defs.OpSchema.FormalParameterOption.Variadic


def check_signature(node: onnx.NodeProto, dtypes: Mapping[str, str], version: int) -> None:
    """Raise UnsupportedError unless the known ``dtypes`` (NumPy's names, by value) fit.

    ``version``: of the operator set of the node's domain.
    """
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return  # not an operator of the standard
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    bound: dict[str, str] = {}
    for position, name in enumerate(node.input):
        if name not in dtypes or not schema.inputs:
            continue
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        text = onnx_type(dtypes[name])
        variable = formal.type_str
        if text not in allowed.get(
            variable, (variable,)
        ) and f"optional({text})" not in allowed.get(variable, ()):
            raise UnsupportedError(f"{node.op_type} takes no {text} as input {name!r}")
        several = formal.option == _VARIADIC and not formal.is_homogeneous
        if variable in allowed and not several and bound.setdefault(variable, text) != text:
            raise UnsupportedError(
                f"its inputs must have one type, but {name!r} is a {text} next to {bound[variable]}"
            )
