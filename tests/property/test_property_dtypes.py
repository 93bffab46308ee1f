"""Random programs on random scalar types: the compiled kernel equals the oracle.

Floats are whole numbers here, so that arithmetic in float32 and in the oracle's float64 agrees.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import is_unsigned, numpy_dtype
from tests.support.compiled import check_run
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.odd_names import renamed
from tests.support.random_programs import programs

TARGETS = runnable()
COMMON = examples(
    40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def arrays_of(dag: ComputeDAG, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for tensor in dag.inputs:
        low = 0 if is_unsigned(tensor.dtype) else -4
        arrays[tensor.name] = rng.integers(low, 5, tensor.shape).astype(numpy_dtype(tensor.dtype))
    return arrays


@COMMON
@given(
    programs().flatmap(renamed),
    st.integers(0, len(TARGETS) - 1),
    st.integers(0, 7),
    st.integers(0, 2**32 - 1),
)
def test_random_programs(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check_run(dag, arrays_of(dag, seed), TARGETS[target], choice, seed)
