"""The ``Scan`` of host operators: onnx's own goes along first axes alone, forwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx.reference.op_run import OpRun

from autosched.host.operators.loop_results import body_results, joined


class Scan(OpRun):
    """Replaces onnx's implementation of the same name, of opset 9 and later."""

    op_domain: ClassVar[str] = ""

    def need_context(self) -> bool:
        """The body reads values of the graph around it."""
        return True

    def _run(
        self,
        *given: Any,
        context: dict[str, Any] | None = None,
        body: Any = None,
        num_scan_inputs: int = 1,
        scan_input_axes: Sequence[int] | None = None,
        scan_input_directions: Sequence[int] | None = None,
        scan_output_axes: Sequence[int] | None = None,
        scan_output_directions: Sequence[int] | None = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        names = self.body.input_names
        count = len(given) - num_scan_inputs
        states, scanned = list(given[:count]), given[count:]
        steps = map(_along, scanned, *_sides(scanned, scan_input_axes, scan_input_directions))
        collected: list[list[Any]] = [[] for _ in self.body.output_names[count:]]
        for step in zip(*steps, strict=True):
            values = dict(context or {}) | dict(zip(names, (*states, *step), strict=True))
            results = list(self._run_body(values, attributes=attributes, bindings=bindings))
            states = results[:count]
            for stack, result in zip(collected, results[count:], strict=True):
                stack.append(result)
        infos = body_results(self.onnx_node, len(collected))
        axes, backwards = _sides(collected, scan_output_axes, scan_output_directions)
        stacks = [s[::-1] if b else s for s, b in zip(collected, backwards, strict=True)]
        return self._check_and_fix_outputs((*states, *map(joined, stacks, infos, axes)))


def _sides(
    arrays: Sequence[Any], axes: Sequence[int] | None, directions: Sequence[int] | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Axis and direction of each array: the first, forwards, where a node has no such attribute."""
    none = (0,) * len(arrays)
    return axes or none, directions or none


def _along(array: Any, axis: int, backwards: int) -> Any:
    """What the iterations read, one after the other."""
    moved = np.moveaxis(array, axis, 0)
    return moved[::-1] if backwards else moved
