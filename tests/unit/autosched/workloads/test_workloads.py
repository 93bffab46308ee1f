"""The library of workloads: values, keys, configurations, sketches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import autosched as asd
from autosched.system.errors import WorkloadError
from autosched.workloads import WORKLOADS, get
from sketch.errors import ExpressionError
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.support.small_workloads import SMALL
from tests.support.targets import AVX512
from tests.support.workloads import random_inputs


@asd.workload
def outer(n: int, m: int = 4) -> object:
    """Outer product of two vectors."""
    a, b = asd.placeholder((n,), name="a"), asd.placeholder((m,), name="b")
    return asd.compute((n, m), lambda i, j: a[i] * b[j], name="outer")


def test_a_function_becomes_a_workload(rng: np.random.Generator) -> None:
    assert str(outer) == "outer(n, m=4): Outer product of two vectors."
    dag = outer.dag(3, m=5)
    inputs = random_inputs(dag, rng)
    wanted = np.outer(inputs["a"].astype(np.float64), inputs["b"])
    np.testing.assert_allclose(interpret(dag, inputs)["outer"], wanted)
    assert outer(3).shape == (3, 4)


def test_names_and_configurations_can_be_given() -> None:
    named = asd.workload(name="OUT", shapes=[[1, 2], [3, 4]])(outer.define)
    assert (named.name, named.shapes) == ("OUT", ((1, 2), (3, 4)))
    assert named.configurations(batch=16) == ((16, 2), (16, 4))


def test_workloads_are_values() -> None:
    assert asd.workload(outer.define) == outer
    assert len({*WORKLOADS, get("gmm"), get("GMM")}) == len(WORKLOADS)


def test_tasks_have_the_label_and_the_target() -> None:
    task = get("GMM").task(1, 8, 8, k=8, threads=2)
    assert (task.name, task.target.threads) == ("GMM(1, 8, 8, k=8)", 2)
    assert task.key == get("GMM").key(1, 8, 8, 8)


def test_keys_are_equal_in_another_process() -> None:
    program = (
        "import autosched as asd\n"
        "for w in asd.workloads.WORKLOADS: print(w.key(*w.shapes[0]))"
    )  # fmt: skip
    lines = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert lines == [w.key(*w.shapes[0]) for w in WORKLOADS]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get("nothing"), "known: C1D, C2D"),
        (lambda: outer.dag(), "call it as outer"),
        (lambda: outer.dag(1, 2, 3), "too many"),
        (lambda: asd.workload(lambda n: n).dag(3), "returned int"),
    ],
)
def test_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        call()


def test_sizes_that_make_no_program_are_refused() -> None:
    with pytest.raises(ExpressionError):
        get("C2D").dag(1, 2, 2, 3, 4, 7)


def test_every_workload_has_the_configurations_of_the_paper() -> None:
    for workload in WORKLOADS:
        assert len(workload.shapes) == 4
        for batch in (1, 16):
            for shape in workload.configurations(batch):
                assert workload.dag(*shape).flops > 0


def test_flops_count_no_inserted_zero() -> None:
    """A transposed convolution multiplies each input by each element of the kernel, once."""
    n, h, w, ci, co, kernel, *_ = shape = get("T2D").shapes[0]
    most = 2 * n * h * w * ci * co * kernel * kernel
    assert get("T2D").dag(*shape).flops <= most


def test_sketches(golden: Callable[[str, str], None]) -> None:
    """How many sketches each workload gets, with the rules for CPUs and for GPUs."""
    lines = []
    for workload in WORKLOADS:
        counts = [
            f"{len(generate(workload.dag(*shape), AVX512))}+"
            f"{len(generate(workload.dag(*shape), cuda_target('sm_90')))}"
            for shape in (*workload.shapes, *workload.configurations(16)[:1], SMALL[workload.name])
        ]
        lines.append(f"{workload.name}: {' '.join(counts)}")
    golden("sketches", "\n".join(lines))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("C1D", (2, 9, 3, 5, 3, 2, 1)),
        ("C2D", (2, 6, 5, 3, 4, 3, 1, 1)),
        ("C3D", (1, 4, 5, 3, 2, 3, 2, 1)),
        ("DIL", (1, 8, 7, 3, 4, 3, 1, 2)),
        ("DEP", (2, 6, 5, 4, 3, 2, 1)),
    ],
)
def test_convolutions_may_have_their_channels_first(
    name: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    last, first = (get(name).dag(*shape, layout=layout) for layout in ("NHWC", "NCHW"))
    data, weight = random_inputs(last, rng).values()
    rank = data.ndim
    moved = {
        "data": np.moveaxis(data, -1, 1),
        "weight": weight.transpose(rank - 1, rank - 2, *range(rank - 2)),
    }
    (expected,) = interpret(last, {"data": data, "weight": weight}).values()
    (found,) = interpret(first, moved).values()
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), expected, rtol=1e-6, atol=1e-6)


def test_an_unknown_layout_of_a_convolution_is_refused() -> None:
    with pytest.raises(ExpressionError, match="'CHWN' is no layout"):
        get("C2D").dag(1, 4, 4, 2, 2, 3, layout="CHWN")
