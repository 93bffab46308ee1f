"""Random rows where there is hardly any that fits."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.search.sampling import sample_feasible
from sketch.rules.generate import generate
from tests.support.targets import AVX512
from tests.support.workloads import attention_dag


@pytest.mark.parametrize("number", [0, 9])
def test_rows_of_long_blocks_are_many_and_different(number: int) -> None:
    sketch = generate(attention_dag(4, 2048, 2048, 64), AVX512)[number]
    rows = sample_feasible(sketch, 256, np.random.default_rng(0))
    assert rows.count > 128
    assert len(np.unique(rows.keys())) == rows.count
