"""Machine code of the fastest candidates of a task."""

from dataclasses import replace

from autosched.measure.fastest import FastestKernels
from autosched.tasks.candidate import Candidate
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.population.population import from_rows
from sketch.rules.generate import generate


def test_kernels_of_the_fastest_candidates_are_kept() -> None:
    a = placeholder((64, 64), name="A")
    dag = ComputeDAG([compute((64, 64), lambda i, j: a[i, j] + 1.0, name="C")])
    sketch = generate(dag, cpu_target("cpu-avx2", 1))[0]
    names = [decision.id for decision in sketch.decisions]
    rows = [dict.fromkeys(names, value) for value in range(1, 41)]
    kernels = FastestKernels()
    for number, row in enumerate(rows):
        seconds = float((7 * number) % 40)  # each of 0 .. 39 once
        kernels.note(Candidate(sketch, row), bytes([number]), seconds)
    again = [Candidate(sketch, from_rows(sketch, [row]).row(0)) for row in rows]
    kept = {n for n, candidate in enumerate(again) if kernels.kernel(candidate) == bytes([n])}
    assert kept == {n for n in range(40) if (7 * n) % 40 < 24}
    assert sum(kernels.kernel(candidate) is not None for candidate in again) == len(kept)


def test_a_variant_keeps_no_other_out() -> None:
    """It may be forbidden later, and is faster than all that is left."""
    a = placeholder((64, 64), name="A")
    dag = ComputeDAG([compute((64, 64), lambda i, j: a[i, j] + 1.0, name="C")])
    sketch = generate(dag, cpu_target("cpu-avx2", 1))[0]
    names = [decision.id for decision in sketch.decisions]
    other = replace(sketch, variant="other")
    kernels = FastestKernels()
    for value in range(1, 31):
        kernels.note(Candidate(other, dict.fromkeys(names, value)), b"other", 0.5)
    left = [Candidate(sketch, dict.fromkeys(names, value)) for value in range(1, 4)]
    for candidate in left:
        kernels.note(candidate, b"left", 1.0)
    assert [kernels.kernel(candidate) for candidate in left] == [b"left"] * 3
