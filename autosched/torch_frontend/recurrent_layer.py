"""Recurrent layers of torch stay single operators, from torch's graphs to ONNX.

torch.compile does not trace them unless it is told to, AOT autograd then takes them apart into
time steps, and torch's exporter does so with ``RNN``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

_LSTM: Final = "lstm"
_NAMES: Final = (_LSTM, "gru", "rnn_tanh", "rnn_relu")
_LAYER: Final = (
    "{name}(Tensor input, {states} hx, Tensor[] params, bool has_biases, int num_layers, "
    "float dropout, bool train, bool bidirectional, bool batch_first) -> ({results})"
)
_LISTS: Final = 2  # position of the parameters; packed sequences have them elsewhere
_TRAIN: Final = 6  # position of the flag


def allow_recurrent_layers() -> None:
    """Let torch.compile trace recurrent layers, which it leaves alone by default, in this process.

    It is asked before it knows whether a back end could do something with them.
    """
    try:
        from torch._dynamo import config
    except ImportError:
        return
    config.allow_rnn = True


def has_recurrent_layers(graph: Any) -> bool:
    """Whether a ``torch.fx.Graph`` as torch.compile makes it calls a recurrent layer."""
    return any(_called(node) for node in graph.nodes)


def as_single_operators(graph: Any) -> None:
    """Let recurrent layers be operators that nobody takes apart; ``as_torch_operators`` undoes it.

    Not those in training mode, nor those of packed sequences.
    """
    operators = _operators()
    for node in graph.nodes:
        name = _called(node)
        if name and _is_plain(node):
            node.target = operators[name]


def as_torch_operators(graph: Any) -> None:
    """Let the operators of ``as_single_operators`` be torch's own again."""
    names = {operator: name for name, operator in _operators().items()}
    for node in graph.nodes:
        if node.target in names:
            node.target = _torch_operator(names[node.target])


def layer_operators() -> frozenset[Any]:
    """Torch's operators for whole layers: nobody should take them apart into time steps."""
    return frozenset(map(_torch_operator, _NAMES))


def translations() -> dict[Any, Callable[..., Any]]:
    """How torch's exporter shall translate the layers that it takes apart."""
    return {
        _torch_operator("rnn_tanh"): _translation("Tanh"),
        _torch_operator("rnn_relu"): _translation("Relu"),
    }


def _called(node: Any) -> str:
    """The layer that a node calls; empty if none."""
    import torch

    if node.op != "call_function":
        return ""
    functions = {getattr(torch, name): name for name in _NAMES}
    functions |= {getattr(torch._VF, name): name for name in _NAMES}
    return functions.get(node.target, "")


def _is_plain(node: Any) -> bool:
    plain = len(node.args) > _TRAIN and isinstance(node.args[_LISTS], list | tuple)
    return plain and node.args[_TRAIN] is False and not node.kwargs


def _torch_operator(name: str) -> Any:
    import torch

    return getattr(torch.ops.aten, name).input


def _operators() -> Mapping[str, Any]:
    """Operators of our own by the name of the layer: without derivatives, opaque to tracing."""
    import torch

    _library()
    return {name: getattr(torch.ops.autosched, name).default for name in _NAMES}


@cache
def _library() -> Any:
    """What defines the operators, as long as it lives."""
    import torch

    library = torch.library.Library("autosched", "FRAGMENT")
    for name in _NAMES:
        states = "Tensor[]" if name == _LSTM else "Tensor"
        results = ", ".join(["Tensor"] * (3 if name == _LSTM else 2))
        library.define(_LAYER.format(name=name, states=states, results=results))
        library.impl(name, _torch_operator(name), "CompositeExplicitAutograd")
    return library


def _translation(activation: str) -> Callable[..., Any]:
    """``RNN`` as torch's exporter wants it; gates need no other order, there is one."""

    def translate(
        input: Any,
        hx: Any,
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        from onnxscript import opset18 as op

        directions = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        data = op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
        last = []
        for layer in range(num_layers):
            numbers = range(layer * directions, (layer + 1) * directions)
            own = [params[each * number : each * (number + 1)] for number in numbers]
            biases = [op.Concat(*parts[2:], axis=0) for parts in own if has_biases]
            stacks = [
                _stacked(op, [parts[0] for parts in own]),
                _stacked(op, [parts[1] for parts in own]),
                _stacked(op, biases) if biases else None,
            ]
            data, state = op.RNN(
                data,
                *stacks,
                None,
                op.Slice(hx, [numbers[0]], [numbers[-1] + 1], [0]),
                hidden_size=int(hx.shape[2]),
                direction="bidirectional" if bidirectional else "forward",
                activations=[activation] * directions,
            )
            data = op.Reshape(op.Transpose(data, perm=[0, 2, 1, 3]), [0, 0, -1])
            last.append(state)
        if batch_first:
            data = op.Transpose(data, perm=[1, 0, 2])
        return data, op.Concat(*last, axis=0)

    return translate


def _stacked(op: Any, values: Sequence[Any]) -> Any:
    """One matrix or vector after the other, along a new first dimension."""
    return op.Concat(*(op.Unsqueeze(value, [0]) for value in values), axis=0)
