"""The guess by which tasks are ranked before anything is known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.tasks.rough_seconds import rough_seconds
from sketch.target.gpu_targets import cuda_target
from tests.support.targets import AVX512
from tests.support.workloads import matmul_dag


def test_arithmetic_and_traffic_count_by_what_the_machine_does() -> None:
    dag = matmul_dag(64, 64, 4096)
    seconds = rough_seconds(dag, AVX512)
    assert seconds > 2.0 * rough_seconds(matmul_dag(64, 64, 1024), AVX512)
    fast = replace(AVX512.rates, hertz=2 * AVX512.rates.hertz)
    assert rough_seconds(dag, replace(AVX512, rates=fast)) == pytest.approx(seconds / 2)
    # one step of the reduction: hardly any arithmetic, the result has to be written all the same
    thin = matmul_dag(512, 512, 1)
    written_s = 4 * 512 * 512 / (AVX512.rates.memory * AVX512.vector_bytes * AVX512.rates.hertz)
    assert written_s < rough_seconds(thin, AVX512) < 1.3 * written_s


def test_a_card_has_numbers_of_its_own() -> None:
    target = cuda_target("h200")
    dag = matmul_dag(4096, 4096, 4096)
    card = target.card
    peak = 2 * card.fma_lanes * target.threads * card.hertz
    assert dag.flops / peak < rough_seconds(dag, target) < 1.1 * dag.flops / peak
