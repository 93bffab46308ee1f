"""The ``Loop`` of host operators: onnx's own leaves two parts of the standard out.

Without a condition a loop runs as often as its trip count says (onnx's does not run at all), and
the results of all iterations are stacked along a new first dimension (onnx's joins matrices
along the existing one).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from onnx.reference.ops.op_loop import Loop as OnnxLoop

from autosched.host.operators.loop_results import body_results, joined


class Loop(OnnxLoop):
    """Replaces onnx's implementation of the same name."""

    op_domain: ClassVar[str] = ""

    def _run(
        self,
        trip_count: Any,
        condition: Any,
        *initial: Any,
        context: dict[str, Any] | None = None,
        body: Any = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        names = self.body.input_names
        values = dict(context or {}) | dict(zip(names[2:], initial, strict=True))
        carried = list(initial)
        collected: list[list[Any]] = [[] for _ in range(self.K)]
        go_on, iteration = condition is None or bool(condition), 0
        while go_on and (trip_count is None or iteration < trip_count):
            values[names[0]] = np.array(iteration, np.int64)
            values[names[1]] = np.array(True)
            go_on, *results = self._run_body(values, attributes=attributes, bindings=bindings)
            carried = results[: self.N]
            values.update(zip(names[2:], carried, strict=True))
            for stack, result in zip(collected, results[self.N :], strict=True):
                stack.append(result)
            iteration += 1
        infos = body_results(self.onnx_node, self.K)
        return self._check_and_fix_outputs((*carried, *map(joined, collected, infos)))
