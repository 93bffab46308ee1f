"""The benchmark of small modules: cases, errors, and what a row says.  Nothing is timed here."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.modules import EAGER, error, exported  # noqa: E402
from benchmarks.small_modules import KINDS, cases, kinds  # noqa: E402
from benchmarks.small_modules.case import case, normal, order, positive, weight, whole  # noqa: E402
from benchmarks.worker import Worker  # noqa: E402
from benchmarks.workloads import Matmul  # noqa: E402
from tests.unit.benchmarks.test_benchmark_harness import NumPyProduct  # noqa: E402


def test_names_are_unique_and_have_a_kind():
    made = [found.name for make in KINDS.values() for found in make()]
    assert len(made) == len(set(made)) == len(cases()) > 300
    assert set(kinds()) == set(made)
    assert EAGER == "torch_eager"


def test_a_case_is_the_same_every_time():
    made = case("x", lambda x, i, w: x[i] @ w, normal(4, 3), whole(4, 2), weight(3, 5))
    module, inputs = made.built()
    again, others = made.built()
    assert all(torch.equal(a, b) for a, b in zip(inputs, others, strict=True))
    assert torch.equal(module(*inputs), again(*others))
    assert len(inputs) == 2
    assert [parameter.requires_grad for parameter in module.parameters()] == [False]


def test_numbers_are_drawn_as_they_are_named():
    _, (above, places) = case("x", lambda x, i: x[i], positive(50), order(50)).built(torch.float64)
    assert above.dtype == torch.float64 and above.min() > 0.1
    assert sorted(places.tolist()) == list(range(50))
    image = case("x", lambda x: x, normal(1, 8, 4, 4)).built(channels_last=True)[1][0]
    assert image.is_contiguous(memory_format=torch.channels_last)


def test_error():
    exact = np.array([1.0, -4.0, np.inf], np.float32)
    assert error(exact, exact) == 0.0
    assert error(np.array([1.0, -3.0, np.inf], np.float32), exact) == 0.25
    assert error(np.array([1.0, -4.0, 9.0], np.float32), exact) == float("inf")
    assert error(exact[:2], exact) == float("inf")
    assert error(np.array([True]), np.array([False])) > 1


def test_a_worker_takes_one_workload_after_the_other():
    first, second = (Matmul(f"{n}", n, n, n, constant_b=True) for n in (3, 5))
    with Worker.start(NumPyProduct(), first, 1) as worker:
        assert worker.outputs()["C"].shape == (3, 3)
        worker.prepare(second)
        assert worker.time(0.0)
        arrays = second.arrays()
        np.testing.assert_allclose(worker.outputs()["C"], arrays["A"] @ arrays["B"], rtol=1e-5)


def test_what_torch_cannot_export_has_no_file(tmp_path):
    pytest.importorskip("onnxscript")
    assert exported("diff", "float32", channels_last=False, folder=tmp_path).path
    assert not exported("kth_value", "float32", channels_last=False, folder=tmp_path).path
