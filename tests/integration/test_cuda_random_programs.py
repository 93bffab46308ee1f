"""Random tensor programs on GPUs: random rows of each sketch on the checked device, in both orders.

The programs are those of the campaign, judged by its evaluator with bounds of errors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from campaign.tensor.compare import difference
from campaign.tensor.draw import draw_program
from campaign.tensor.evaluate import evaluate
from campaign.tensor.express import dag_of
from campaign.tensor.values import inputs_of
from codegen.cuda.build import emit
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from costmodel.extract import features_of
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.rules.backend import GPU_SKETCHES
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.variants import error_growth, variants_of
from tests.support.cuda_programs import feasible_rows

_ROWS = 3
# Gathers beside plain reads of a tensor, sums of sums, short images, axes of one element; places in
# a store map under a guard, a window in the padding alone; terms that data send somewhere.
SEEDS = (1016, 1066, 1133, 1168, 1220, 1236, 1477, 3001, 3005, 3052, 5057, 29, 39)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="no C++ compiler to run CUDA text with"),
]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_rows_of_every_sketch_are_right(seed: int, arch: str, tmp_path: Path) -> None:
    case, target, rng = draw_program(seed), cuda_target(arch), np.random.default_rng(seed)
    dag, inputs = dag_of(case), inputs_of(case)
    expected = {"direct": evaluate(case, inputs)}
    chosen, sources = [], []
    for name, program in {"direct": dag, **variants_of(dag, GPU_SKETCHES.algorithms)}.items():
        if name not in expected:
            expected[name] = evaluate(case, inputs, error_growth(name))
        for sketch in generate(program, target, variant=name):
            rows = feasible_rows(sketch, _ROWS, rng)
            assert np.isfinite(features_of(rows).values).all()
            for row in map(rows.row, range(rows.count)):
                chosen.append((name, preparations(sketch, row)))
                sources.append(emit(lower(sketch, row), target))
    for (name, layouts), made in zip(chosen, compile_checked(sources, tmp_path), strict=True):
        given = {**inputs, **{key: layout.apply(inputs[key]) for key, layout in layouts.items()}}
        for reverse in (False, True):
            found = made.run(given, reverse)
            for output, number in expected[name].items():
                assert difference(found[output], number)[1] is None, (output, made.source.text)
