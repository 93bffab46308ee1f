"""CUDA C++ text: golden, deterministic, exact literals, limits of the target."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.names import Identifiers, identifier
from codegen.cuda.scalars import call, literal
from codegen.errors import CodegenError
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.rules.generate import generate
from sketch.target.gpu_card import GpuCard
from tests.support.cuda_programs import GPU, feasible_nests, feasible_rows, matmul_nest
from tests.support.workloads import argmax_dag, dense_relu, softmax_dag

Golden = Callable[[str, str], None]


def test_golden_text_of_a_matrix_product(golden: Golden) -> None:
    golden("matmul", emit(matmul_nest(), GPU).text)


def test_golden_text_of_a_tuple_reduction(golden: Golden) -> None:
    (sketch,) = generate(argmax_dag(), GPU)
    row = {decision.id: 2 for decision in sketch.decisions}
    golden("argmax", emit(lower(sketch, row), GPU).text)


def test_text_depends_on_the_nest_alone() -> None:
    first, second = emit(matmul_nest(), GPU), emit(matmul_nest(), GPU)
    assert first == second
    assert pickle.loads(pickle.dumps(first)) == first


def test_one_kernel_a_root_in_order(rng: np.random.Generator) -> None:
    sketch = generate(softmax_dag(), GPU)[0]
    nest = lower(sketch, feasible_rows(sketch, 1, rng).row(0))
    source = emit(nest, GPU, "softmax")
    assert [launch.symbol for launch in source.launches] == [
        f"softmax_{number}" for number in range(len(nest.roots))
    ]
    assert {name for name, _ in source.workspaces} == {buffer.name for buffer in nest.workspaces}
    assert [argument.name for argument in source.arguments] == ["data", "softmax"]


def test_launch_covers_all_tiles() -> None:
    (launch,) = emit(matmul_nest(), GPU).launches
    assert (launch.grid, launch.block) == (2 * 3, 4 * 4)
    assert launch.buffers == ("A", "B", "C")
    assert launch.parameters == ("const float*", "const float*", "float*")


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"threads_per_block": 8}, "16 threads in a block, the limit is 8"),
     ({"shared_memory_bytes": 64, "card": GpuCard(shared_block_bytes=128)},
      "384 bytes of shared memory, the limit is 128")],
)  # fmt: skip
def test_limits_of_the_target_are_kept(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        emit(matmul_nest(), replace(GPU, **limits))


def test_indices_are_64_bit_where_32_do_not_reach(rng: np.random.Generator) -> None:
    sketch = generate(dense_relu(4, 2**16, 2**15), GPU)[-1]
    row = feasible_rows(sketch, 1, rng).row(0)
    assert "typedef long long index_t;" in emit(lower(sketch, row), GPU).text
    assert "typedef int index_t;" in emit(matmul_nest(), GPU).text


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (3, "float32", "3.0f"),
        (1e-30, "float32", "1e-30f"),
        (float("-inf"), "float32", "__int_as_float(0xff800000)"),
        (-(2**63), "int64", "(-9223372036854775807LL - 1)"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (-5, "int64", "(-5LL)"),
        (True, "bool", "true"),
    ],
)
def test_literals_have_the_very_value(value: float, dtype: str, text: str) -> None:
    assert literal(value, dtype) == text


def test_a_negative_constant_can_be_negated() -> None:
    assert call("neg", literal(-0.5, "float32"), "float32") == "(- -0.5f)"


def test_names_are_identifiers_and_unique() -> None:
    names = Identifiers()
    things = [object() for _ in range(4)]
    texts = [names.of(t, n) for t, n in zip(things, ("a.b", "a_b", "float", "0"), strict=True)]
    assert texts == ["a_b", "a_b_1", "float_1", "v_0"]
    assert names.of(things[0], "other") == "a_b"
    assert identifier("größe").isascii()


@pytest.mark.parametrize(("dtype", "call"), [("float32", "__fsub_rn"), ("float64", "__dsub_rn")])
def test_differences_of_products_are_rounded(dtype: str, call: str) -> None:
    """The compiler would round one product and not the other."""
    a, b = placeholder((64,), dtype, name="a"), placeholder((64,), dtype, name="b")
    products = compute((64,), lambda i: a[i] * a[i] - b[i] * b[i], name="y")
    scaled = compute((64,), lambda i: a[i] * 2.0 - b[i] * 3.0, name="y")
    rng = np.random.default_rng(0)
    texts = [
        emit(next(feasible_nests(ComputeDAG([root]), 1, rng)), GPU).text
        for root in (products, scaled)
    ]
    assert call in texts[0]
    assert call not in texts[1]
