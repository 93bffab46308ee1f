"""A graph of ATen operators with its constants inside, as torch's exporter wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def bind_constants(
    graph: Any, args: Sequence[Any], variable: Sequence[int], computed: Sequence[int]
) -> Any:
    """A module of the variable inputs alone, that returns the computed outputs alone.

    Args:
        graph: a ``torch.fx.GraphModule``.
        args: all of its inputs.
        variable: positions of those that stay inputs.
        computed: positions of the outputs that are wanted.
    """
    import torch

    fixed = {index: value for index, value in enumerate(args) if index not in variable}

    class Bound(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = graph  # called "graph", it would hide the graph that torch makes of this
            for index, value in fixed.items():
                if isinstance(value, torch.Tensor):
                    self.register_buffer(f"constant{index}", value.detach())

        def forward(self, *inputs: Any) -> Any:
            values = iter(inputs)
            given = [
                getattr(self, f"constant{index}", fixed[index]) if index in fixed else next(values)
                for index in range(len(args))
            ]
            results = self.body(*given)
            return tuple(results[index] for index in computed)

    return Bound().eval()
