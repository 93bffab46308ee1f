"""Operators without a converter in terms of others, as torch itself takes them apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from autosched.torch_frontend.accurate import decompositions
from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.aten.table import CONVERTERS
from autosched.torch_frontend.recurrent_layer import layer_operators


def has_parts(operator: Any) -> bool:
    """Whether torch knows an operator in terms of others."""
    return operator in _known() or _is_composite(operator)


def parts_of_operator(operator: Any) -> Callable[..., Any] | None:
    """The function of torch that computes an operator in terms of others, complex or real; None if
    there is none.  Those of ours are for real numbers.
    """
    if operator in layer_operators():
        return None
    if operator in _of_torch():
        return _of_torch()[operator]
    return operator.decompose if _is_composite(operator) else None


def decomposed(graph: Any, args: Sequence[Any], apart: Collection[Any]) -> Any:
    """A graph without operators that have parts and no converter.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators.
        args: that it is called with; the new graph is for these shapes.
        apart: operators that have a converter and are taken apart nevertheless.

    Raises:
        NotTakenError: torch cannot trace it.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    table = {
        operator: function
        for operator, function in _known().items()
        if operator in apart or str(operator) not in CONVERTERS
    }

    def traced() -> Any:
        with torch.no_grad():
            parts = make_fx(graph, table, "fake", _allow_non_fake_inputs=True)(*args)
            parts.graph.eliminate_dead_code()  # results of parts that nobody has a converter for
            if not any(map(_writes, parts.graph.nodes)):
                return parts
            pure = torch.func.functionalize(parts)
            return make_fx(pure, {}, "fake", _allow_non_fake_inputs=True)(*args)

    # In a thread of its own: this one is inside a compiled function, under modes of torch.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(traced).result()
        except Exception as error:  # torch raises whatever it meets on the way
            raise NotTakenError(f"torch cannot trace it: {type(error).__name__}") from error


def _is_composite(operator: Any) -> bool:
    """Whether tracing an operator meets others in its place."""
    if operator is None or operator in layer_operators():
        return False
    return hasattr(operator, "_can_decompose") and bool(operator._can_decompose())


def _writes(node: Any) -> bool:
    """Whether a node changes a tensor: torch's own functions do it to those that they made."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _known() -> Mapping[Any, Callable[..., Any]]:
    known, layers = {**_of_torch(), **decompositions()}, layer_operators()
    return {operator: parts for operator, parts in known.items() if operator not in layers}


@cache
def _of_torch() -> Mapping[Any, Callable[..., Any]]:
    """Not ours: those of operators that other packages register come when these are loaded."""
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()  # type: ignore[no-any-return]
