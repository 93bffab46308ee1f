"""Single operators after at most 200 trials each: products and convolutions of networks.

``python -m benchmarks.ops --json benchmarks/results/ops.json``

Rows whose name ends in ``_renamed`` are the same programs written out by hand under names that say
nothing; the last rows are operators that neither autosched nor any library knows.
"""

from __future__ import annotations

from typing import Final

from benchmarks.operator_rows import Bar, Case, run
from benchmarks.workloads import CONVOLUTIONS, MATMULS, UNKNOWN_OPERATORS, Conv, Matmul

_CONV_BAR: Final = Bar((("onednn", 0.9),))
_CONV3X3_BAR: Final = Bar((("onednn", 2.0),))  # over all algorithms
_TAPS: Final = 3
_CONSTANT_BAR: Final = Bar((("openvino", 1.0),), peak_share=0.88)
_INPUTS_BAR: Final = Bar((("openvino", 0.95),))


def _case(workload: Matmul | Conv, renamed: bool = False) -> Case:
    match workload:
        case Conv():
            bar = _CONV3X3_BAR if workload.kernel == _TAPS else _CONV_BAR
            return Case(workload, bar, renamed)
        case Matmul(constant_b=True):
            return Case(workload, _CONSTANT_BAR, renamed)
        case Matmul():
            return Case(workload, _INPUTS_BAR, renamed)


CASES: Final = (
    *(_case(workload) for workload in (*MATMULS, *CONVOLUTIONS)),
    *(_case(workload, renamed=True) for workload in (MATMULS[0], CONVOLUTIONS[0])),
    *(Case(workload) for workload in UNKNOWN_OPERATORS),
)


if __name__ == "__main__":
    run(
        CASES, "ops", "Single operators after at most 200 trials each.",
        ("openvino", "onnxruntime", "onednn"),
    )  # fmt: skip
