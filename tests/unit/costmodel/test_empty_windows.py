"""Stages whose guards hold nowhere have draft seconds, too."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import ComputeDAG, Target, Task, placeholder
from sketch.operators.transposed import conv_transpose


@pytest.mark.parametrize("name", ["cpu-avx512", "cpu-avx2"])
def test_a_phase_that_reads_padding_alone(name: str) -> None:
    data = placeholder((1, 1, 16), name="x")
    weight = placeholder((3, 4, 16), name="w", constant=True)
    phases = conv_transpose(data, weight, 3, padding=1, output_padding=2, groups=16)
    task = Task(ComputeDAG(phases), Target(name, threads=1))
    assert np.isfinite([float(drafts[0]) for drafts in task.space.drafts]).all()
