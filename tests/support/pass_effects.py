"""What a pass of code generation changes: programs with and without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen import build
from sketch.dag.dag import ComputeDAG
from sketch.nest.loopnest import Allocate, LoopNest
from sketch.nest.walk import walk
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs


def turned_copies(nest: LoopNest) -> int:
    """How many there are in a nest."""
    nodes = walk(nest.roots)
    return sum(isinstance(n, Allocate) and n.buffer.name.endswith(".turned") for n in nodes)


def copies_for_same_bits(dag: ComputeDAG, target: Target, seed: int, name: str) -> int:
    """How many turned copies a pass makes in random programs of all sketches.

    Asserts that their results have the bits that they have without the pass.

    Args:
        dag: the definition.
        target: this machine, or a part of it.
        seed: of inputs and decisions.
        name: of the pass in ``codegen.build``.
    """
    rng, made = np.random.default_rng(seed), list[int]()
    inputs = random_inputs(dag, rng)
    known: Callable[..., LoopNest] = getattr(build, name)

    def counted(nest: LoopNest, *options: Target) -> LoopNest:
        changed = known(nest, *options)
        made.append(turned_copies(changed) - turned_copies(nest))
        return changed

    for sketch in generate(dag, target):
        row = sample(sketch, 1, rng).row(0)
        found: list[dict[str, np.ndarray]] = []
        for each in (counted, lambda nest, *_: nest):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(build, name, each)
                found.append(run_compiled(sketch, row, inputs, target))
        for output, values in found[0].items():
            np.testing.assert_array_equal(values, found[1][output])
    return sum(made)
