"""A graph of complex numbers traced anew, with two real tensors in place of each complex one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.complex_numbers.frames import short_time_functions
from autosched.torch_frontend.complex_numbers.pair import both_of, is_pair, pair_of_both
from autosched.torch_frontend.complex_numbers.replacement import replacing
from autosched.torch_frontend.retracing import retraced

_TRANSFORMS: Final = "aten::fft_"  # what names of torch.fft's operators begin with


def real_form(graph: Any, args: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """A graph of real operators, and its arguments: complex tensors become ``[..., 2]``, results
    as well as arguments.  A graph without complex numbers is returned as it is.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators without side effects.
        args: that it is called with; the new graph is for these shapes.

    Raises:
        NotTakenError: an operator without a form for complex numbers.
    """
    if not _has_complex(graph, args):
        return graph, args
    given = [_both(value) for value in args]
    places = [index for index, value in enumerate(args) if _is_complex(value)]
    constants = {
        node.target: _both(_attribute(graph, node.target))
        for node in graph.graph.nodes
        if node.op == "get_attr" and _is_complex(_attribute(graph, node.target))
    }

    def function(*values: Any) -> Any:
        with replacing():
            own = [
                pair_of_both(value) if index in places else value
                for index, value in enumerate(values)
            ]
            results = _interpreter_type()(graph, constants).run(*own)
            return tuple(both_of(value) if is_pair(value) else value for value in results)

    return retraced(graph, given, function), given


def _has_complex(graph: Any, args: Sequence[Any]) -> bool:
    """Whether a graph computes with complex numbers, also within an operator that is not taken
    apart yet: a transform of real numbers to real ones.
    """
    nodes = graph.graph.nodes
    return any(map(_is_complex, args)) or any(
        _is_transform(node.target) or any(map(_is_complex, _values(node.meta.get("val"))))
        for node in nodes
    )


def _is_transform(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and str(schema.name).startswith(_TRANSFORMS)


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _is_complex(value: Any) -> bool:
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))


def _both(value: Any) -> Any:
    import torch

    return torch.view_as_real(value.detach().resolve_conj()) if _is_complex(value) else value


def _attribute(graph: Any, path: str) -> Any:
    for name in path.split("."):
        graph = getattr(graph, name)
    return graph


def _check_type(value: Any, promised: Any) -> None:
    """Raise NotTakenError if a tensor is another one than torch had."""
    if not hasattr(value, "dtype") or not hasattr(promised, "dtype"):
        return
    static = all(isinstance(extent, int) for extent in promised.shape)
    if value.dtype != promised.dtype or (static and value.shape != promised.shape):
        theirs = f"{promised.dtype} {tuple(promised.shape)}"
        raise NotTakenError(f"{value.dtype} {tuple(value.shape)} where torch has {theirs}")


@cache
def _interpreter_type() -> Any:
    """Calls a graph's operators, and others in place of some."""
    import torch

    class Interpreter(torch.fx.Interpreter):
        def __init__(self, graph: Any, constants: Mapping[str, Any]) -> None:
            super().__init__(graph)
            self._constants = constants
            self._functions = {
                **short_time_functions(),
                torch.ops.aten._assert_tensor_metadata.default: lambda *_, **__: None,
            }

        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                _check_type(result, n.meta.get("val"))
            return result

        def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
            known = self._constants.get(target)
            return super().get_attr(target, args, kwargs) if known is None else pair_of_both(known)

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return self._functions.get(target, target)(*args, **kwargs)

    return Interpreter
