"""Functions of torch as networks, and what these compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network
from autosched.torch_frontend.aten import network_of_graph
from autosched.torch_frontend.tensors import to_numpy, to_torch


def traced(function: Any, args: Sequence[Any], mode: str = "fake") -> Any:
    """The graph of ATen operators of a function.

    Args:
        function: of tensors; a tuple of them, or one.
        args: of the function.
        mode: of tracing.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    def flat(*given: Any) -> tuple[Any, ...]:
        results = function(*given)
        return results if isinstance(results, tuple) else (results,)

    with torch.no_grad():
        return make_fx(flat, tracing_mode=mode)(*args)


def network_of(graph: Any, args: Sequence[Any]) -> Network:
    """The network of a graph, without ONNX.

    Args:
        graph: as ``traced`` makes it.
        args: that it was traced with.
    """
    (last,) = (node for node in graph.graph.nodes if node.op == "output")
    return network_of_graph(graph, args, (), range(len(last.args[0])))


def reference(network: Network, args: Sequence[Any]) -> list[Any]:
    """The results of a network, computed operator by operator.

    Args:
        network: the network.
        args: its inputs, tensors of torch.
    """
    names = [value.name for value in network.inputs]
    arrays = {name: to_numpy(arg) for name, arg in zip(names, args, strict=True)}
    outputs = evaluate(network.graph, arrays).values()
    return [to_torch(array) for array in outputs]


def assert_equal(ours: Sequence[Any], theirs: Sequence[Any], name: str) -> None:
    """Fail unless two lists of tensors are nearly the same.

    Args:
        ours: what a network computed.
        theirs: what torch did.
        name: of what was computed.
    """
    import torch

    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            one.to(other.dtype), other, rtol=2e-5, atol=2e-5, msg=lambda text: f"{name}: {text}"
        )
