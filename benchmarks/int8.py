"""Products of bytes against the peak of the tensor unit that this CPU has for them.

``python -m benchmarks.int8 --json benchmarks/results/int8.json``

Results must be equal to those of the rivals, bit by bit.
"""

from __future__ import annotations

from typing import Final

from benchmarks.operator_rows import Bar, Case, run
from benchmarks.workloads import IntegerMatmul

_BAR: Final = Bar((("openvino", 1.0), ("onnxruntime", 1.1)), peak_share=0.85)
CASES: Final = (
    Case(IntegerMatmul("int8_1024", 1024, 1024, 1024), _BAR),
    Case(IntegerMatmul("int8_bert_128x768x3072", 128, 3072, 768), _BAR),
    Case(IntegerMatmul("int8_bert_128x3072x768", 128, 768, 3072), _BAR),
)


if __name__ == "__main__":
    run(
        CASES, "int8", "Products of bytes after at most 200 trials each.",
        ("openvino", "onnxruntime"),
    )  # fmt: skip
