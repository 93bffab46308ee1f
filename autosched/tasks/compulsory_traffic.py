"""What any schedule of a program has to move through memory at least once."""

from __future__ import annotations

import math

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of


def compulsory_bytes(dag: ComputeDAG) -> float:
    """Bytes of all inputs (constants included, each as a whole) and outputs."""
    tensors = [*dag.inputs, *dag.outputs]
    return float(sum(math.prod(tensor.shape) * size_of(tensor.dtype) for tensor in tensors))
