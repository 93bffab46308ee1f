"""A graph of ATen operators traced anew, with other calls in place of some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from autosched.torch_frontend.aten.call import NotTakenError


def retraced(graph: Any, args: Sequence[Any], function: Callable[..., Any]) -> Any:
    """The graph of what a function calls, whose inputs are called like those of another graph.

    Args:
        graph: a ``torch.fx.GraphModule``.
        args: tensors and numbers that the function is called with; the new graph is for these
            shapes.
        function: with the inputs of ``graph``.

    Raises:
        NotTakenError: the function does, or torch cannot trace it.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    def traced() -> Any:
        with torch.no_grad():
            new = make_fx(function, {}, "fake", _allow_non_fake_inputs=True)(*args)
            _name_inputs(new.graph, _inputs(graph.graph))
            new.recompile()
            return new

    # In a thread of its own: this one may be inside a compiled function, under modes of torch.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(traced).result()
        except NotTakenError:
            raise
        except Exception as error:  # torch raises whatever it meets on the way
            raise NotTakenError(f"{type(error).__name__}: {error}") from error


def _inputs(graph: Any) -> Sequence[Any]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _name_inputs(graph: Any, others: Sequence[Any]) -> None:
    """Call inputs like those of another graph."""
    graph.eliminate_dead_code()
    names = [node.name for node in others]
    for node in graph.nodes:
        if node.op == "placeholder" or node.name in names:
            node._rename(f"{node.name}_result")
    for node, name in zip(_inputs(graph), names, strict=True):
        node._rename(name)
        node.target = name
