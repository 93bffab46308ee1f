"""The order in which blocks start: each once, in groups of rows; the last one has what is left."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.cuda.block_order import number_of_block
from codegen.cuda.build import emit
from codegen.cuda.device import Binding, points
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.lower import lower
from sketch.nest.loopnest import LoopVar
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.target.target import Target
from tests.support.cuda_programs import GPU, MATMUL_ROW, SMALL_ROW, row_of
from tests.support.emulate import compile_programs
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.workloads import matmul_dag, random_inputs

_CHOICE = re.compile(r"(.*) \? (.*) : (.*)")
NO_L2 = replace(GPU, l2_bytes=0)


def run(blocks: tuple[Binding, ...]) -> list[int]:
    """The number of the block that each turn takes, by the C++ text as Python."""
    lines, number = number_of_block(blocks)
    body = []
    for line in (*lines, f"const index_t number = {number};"):
        name, text = line.removeprefix("const index_t ").removesuffix(";").split(" = ", 1)
        text = text.replace("blockIdx.x", "index").replace("/", "//")
        if choice := _CHOICE.fullmatch(text):
            text = f"({choice[2]}) if {choice[1]} else ({choice[3]})"
        body.append(f"    {name} = {text}")
    code = f"for index in range({points(blocks)}):\n" + "\n".join(body)
    values: dict[str, Any] = {"found": []}
    exec(f"{code}\n    found.append(number)", values)
    found: list[int] = values["found"]
    return found


def ordered(outer: int, rows: int, inner: int, together: int) -> list[int]:
    """The same by loops."""
    return [
        (copy * rows + row) * inner + column
        for copy in range(outer)
        for first in range(0, rows, together)
        for column in range(inner)
        for row in range(first, min(first + together, rows))
    ]


def bindings(*extents: int, together: int, position: int) -> tuple[Binding, ...]:
    made = [Binding(LoopVar(f"i{n}"), extent, 1) for n, extent in enumerate(extents)]
    made[position] = replace(made[position], together=together)
    return tuple(made)


def test_every_block_runs_once_in_groups_of_rows() -> None:
    rng = np.random.default_rng(0)
    ragged = 0
    for _ in range(40):
        outer, rows, columns, last = (int(n) for n in rng.integers(1, 8, 4))
        together = int(rng.choice([2, 4, 8, 16]))
        ragged += rows > together and rows % together > 0
        found = run(bindings(outer, rows, columns, last, together=together, position=1))
        assert found == ordered(outer, rows, columns * last, together)
    assert ragged > 5


def test_one_row_at_a_time_is_the_order_of_the_hardware() -> None:
    for blocks in (
        bindings(3, 4, together=1, position=0),
        bindings(3, 1, together=4, position=0),
        bindings(3, 4, together=4, position=1),
    ):
        assert number_of_block(blocks) == ((), "blockIdx.x")


def source_of(shape: tuple[int, int, int], row: dict[DecisionId, int], rows: int) -> CudaSource:
    target: Target = NO_L2
    sketch = generate(matmul_dag(*shape), target)[0]
    found = emit(lower(sketch, {**row, **row_of({"C.i@together": rows}, sketch)}), target)
    assert ("turn" in found.text) == (rows > 1)
    return found


def equals_the_oracle(made: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("compile_all", [
    compile_programs, pytest.param(compile_checked, marks=pytest.mark.slow)
])  # fmt: skip
def test_results_do_not_depend_on_the_order(compile_all, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Of 3 rows of 3 blocks, the last one alone; rows and columns are not whole tiles."""
    shape = (41, 22, 10)
    dag = matmul_dag(*shape)
    inputs = random_inputs(dag, np.random.default_rng(1))
    expected = interpret(dag, inputs)["C"]
    sources = [source_of(shape, MATMUL_ROW, rows) for rows in (2, 16)]
    for program in compile_all(sources, tmp_path):
        for reverse in (False, True):
            equals_the_oracle(program.run(inputs, reverse=reverse)["C"], expected)


@pytest.mark.slow
@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_what_the_compiler_makes_of_it_equals_the_oracle() -> None:
    shape = (9, 7, 5)
    dag = matmul_dag(*shape)
    inputs = random_inputs(dag, np.random.default_rng(1))
    source = source_of(shape, SMALL_ROW, 2)
    made = run_ptx(source, ptx_of(source.text), inputs)["C"]
    equals_the_oracle(made, interpret(dag, inputs)["C"])
