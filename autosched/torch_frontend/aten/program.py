"""A program that ``torch.export`` made, as a graph of ATen operators and its arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.torch_frontend.aten.call import NotTakenError


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A graph of ATen operators, and what it is called with.

    Attributes:
        graph: a ``torch.fx.GraphModule``.
        args: tensors that fix shapes and dtypes.
        static: positions of those that are constants.
        outputs: public names of results by position.
    """

    graph: Any
    args: Sequence[Any]
    static: Collection[int]
    outputs: Mapping[int, str]


def call_of_program(program: Any) -> ProgramCall:
    """The call of a program whose parameters, buffers and constants are constants of it.

    Inputs are called like the parameters of ``forward``, outputs like the nodes that compute them.

    Args:
        program: a ``torch.export.ExportedProgram`` without side effects, whose results are tensors
            or None.

    Raises:
        NotTakenError: an input is no tensor.
    """
    signature = program.graph_signature
    kept = {**program.state_dict, **program.constants}
    stored = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    places = [node for node in program.graph.nodes if node.op == "placeholder"]
    user = {name for name in signature.user_inputs if isinstance(name, str)}
    for node in places:
        if node.name not in stored and node.name not in user:
            raise NotTakenError(f"the input {node.name} is no tensor")
    args = [kept[stored[n.name]] if n.name in stored else _like(n.meta["val"]) for n in places]
    static = [index for index, node in enumerate(places) if node.name in stored]
    results = {index: name for index, name in enumerate(signature.user_outputs) if name is not None}
    names = _public(list(results.values()), user)
    outputs = dict(zip(results, names, strict=True))
    return ProgramCall(program.graph_module, args, static, outputs)


def _like(fake: Any) -> Any:
    """A tensor of that shape: tracing the program's own ones again would change the program."""
    import torch

    return torch.zeros(fake.shape, dtype=fake.dtype)


def _public(results: list[str], inputs: set[str]) -> list[str]:
    """Names of results that no input and no other result has."""
    names: list[str] = []
    for result in results:
        name = f"{result}_result" if result in inputs else result
        while name in names:
            name += "_again"
        names.append(name)
    return names
