"""What any schedule of a program has to move through memory at least once."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of
from sketch.lang.tensor import Tensor


def compulsory_bytes(dag: ComputeDAG) -> float:
    """Bytes of all inputs (constants included, each as a whole) and outputs."""
    return _bytes_of(dag.inputs) + written_bytes(dag)


def written_bytes(dag: ComputeDAG) -> float:
    """Bytes of all outputs."""
    return _bytes_of(dag.outputs)


def _bytes_of(tensors: Iterable[Tensor]) -> float:
    return float(sum(math.prod(tensor.shape) * size_of(tensor.dtype) for tensor in tensors))
