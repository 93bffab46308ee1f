"""Registers that do not fit are kept on a stack that is aligned to vectors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from codegen.build import emit
from codegen.llvm.machine import emit_assembly
from sketch.target.target import Target
from tests.support.nests import matmul
from tests.support.targets import AVX512

AVX2 = replace(AVX512, features="+avx2,+fma", arch="haswell", vector_bytes=32, registers=16)
SSE = replace(AVX512, features="", arch="x86-64", vector_bytes=16, registers=16)


def functions(target: Target) -> list[str]:
    """The assembly of a product whose sums of 512 terms are added up in blocks, by function."""
    lanes = target.vector_bytes // 4
    rows = {32: 12, 16: 6}[target.registers]
    nest = matmul(rows, 2 * lanes, 512, rows, 2, lanes)
    return re.split(r"\n(?=\w\S*:)", emit_assembly(emit(nest, target, "f").text, target))


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_spilled_vectors_do_not_lie_across_two_lines(target: Target) -> None:
    aligned = re.compile(rf"and\w\s+\$-{target.vector_bytes}, %[re]sp")
    spilling = [f for f in functions(target) if re.search(r"%[yz]mm\d+, -?\d*\(%[re]sp\)", f)]
    assert spilling
    assert all(aligned.search(function) for function in spilling)


def test_the_stack_of_narrow_vectors_is_as_the_caller_leaves_it() -> None:
    assert not any(re.search(r"and\w\s+\$-\d+, %[re]sp", f) for f in functions(SSE))
