"""Results of a graph that are numbers: sizes, and what is computed of sizes.

A graph that is traced with open shapes returns sizes next to its tensors, for what comes after it.
They are the same whenever the graph runs on inputs of the same shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.graph.errors import ModelImportError


def is_computed(output: Any) -> bool:
    """Whether a result is neither a constant nor an input."""
    return hasattr(output, "op") and output.op != "placeholder"


def is_number(output: Any) -> bool:
    """Whether a result that is computed is no tensor."""
    return not hasattr(output.meta.get("val"), "dtype")


def numbers_of(outputs: Sequence[Any], results: Sequence[Any]) -> dict[int, Any]:
    """By position, those among torch's results that are computed numbers."""
    return {
        index: results[index]
        for index, output in enumerate(outputs)
        if is_computed(output) and is_number(output)
    }


def check_numbers(outputs: Sequence[Any]) -> None:
    """Raise ModelImportError where not only shapes decide what a number is."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    for index, output in enumerate(outputs):
        known = not is_computed(output) or not is_number(output)
        if not known and free_unbacked_symbols(output.meta.get("val")):
            raise ModelImportError(f"output {index} is a number that depends on the data")
