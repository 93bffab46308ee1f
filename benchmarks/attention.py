"""Attention of twelve heads after at most 200 trials each, next to the fused ones of the rivals.

``python -m benchmarks.attention --json benchmarks/results/attention.json``

PyTorch runs ``scaled_dot_product_attention``, onnxruntime and OpenVINO what they make of the model.
"""

from __future__ import annotations

from typing import Final

from benchmarks.operator_rows import Bar, Case, run
from benchmarks.workloads import Attention

_RIVALS: Final = ("torch_eager", "onnxruntime", "openvino")
_BAR: Final = Bar(tuple((rival, 1.2) for rival in _RIVALS))
_HEADS: Final = 12
_SIZE: Final = 64

CASES: Final = tuple(
    Case(Attention(f"{kind}_{length}", _HEADS, length, _SIZE, kind == "causal"), _BAR)
    for length in (128, 512, 2048)
    for kind in ("attention", "causal")
)


if __name__ == "__main__":
    run(CASES, "attention", "Attention of twelve heads after at most 200 trials each.", _RIVALS)
