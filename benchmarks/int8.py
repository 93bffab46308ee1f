"""Products and convolutions of bytes against rivals, the peak of this CPU's unit, and our float32.

``python -m benchmarks.int8 --json benchmarks/results/int8.json``

The peak is that of the products of bytes on vectors (VNNI); where the CPU has tile registers, too,
the share of what these could do is a column of its own.  Products must be equal to those of the
rivals, bit by bit; convolutions are requantised, and bytes may be neighbours.  Logs are kept: a run
with ``--trials 64`` takes about ten minutes, another one after it three.
"""

from __future__ import annotations

from typing import Final

from benchmarks.operator_rows import Bar, Case, run
from benchmarks.workloads import CONVOLUTIONS_3X3, POINTWISE, IntegerConv, IntegerMatmul

_BAR: Final = Bar((("openvino", 1.0), ("onnxruntime", 1.1)), peak_share=0.85)
_CONV_BAR: Final = Bar(fastest=1.0, times_float=2.8)
CASES: Final = (
    Case(IntegerMatmul("int8_1024", 1024, 1024, 1024), _BAR),
    Case(IntegerMatmul("int8_bert_128x768x768", 128, 768, 768), _BAR),
    Case(IntegerMatmul("int8_bert_128x768x3072", 128, 3072, 768), _BAR),
    Case(IntegerMatmul("int8_bert_128x3072x768", 128, 768, 3072), _BAR),
    *(Case(IntegerConv(conv), _CONV_BAR) for conv in (*CONVOLUTIONS_3X3, *POINTWISE)),
)


if __name__ == "__main__":
    run(
        CASES, "int8", "Products and convolutions of bytes after at most 200 trials each.",
        ("openvino", "onnxruntime"),
    )  # fmt: skip
