"""The workloads as tensor programs, and as tasks."""

from __future__ import annotations

from typing import Any

from autosched.task import Task
from benchmarks.workloads import (
    Attention,
    Conv,
    IntegerConv,
    IntegerMatmul,
    Matmul,
    Operator,
    OuterProducts,
    Stencil,
)
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import functions, reducers
from sketch.lang.expr import cast, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d
from sketch.operators.einsum import einsum
from sketch.operators.matmul import matmul
from sketch.operators.softmax import softmax


def operator_task(
    workload: Operator, threads: int, renamed: bool = False, direct: bool = False
) -> Task:
    """The workload as a task for this machine; ``direct``: as it is written, and no other way."""
    task = Task(program(workload, renamed), host_target(threads), workload.name)
    return Task(task.variants[:1], task.target, task.name) if direct else task


def program(workload: Operator, renamed: bool = False) -> ComputeDAG:
    """The workload's program; placeholders are called as its arrays.

    Args:
        workload: what to compute.
        renamed: write it out by hand, under a name that says nothing; the speed must be the same.
    """
    match workload:
        case Conv():
            return ComputeDAG([_plain_conv(workload) if renamed else _conv(workload)])
        case Matmul():
            lhs = placeholder((workload.m, workload.k), name="A")
            rhs = placeholder((workload.k, workload.n), name="B", constant=workload.constant_b)
            product = _plain_product(lhs, rhs) if renamed else matmul(lhs, rhs, name="C")
            return ComputeDAG([product])
        case IntegerConv():
            return ComputeDAG([_integer_conv(workload)])
        case IntegerMatmul():
            lhs = placeholder((workload.m, workload.k), "uint8", name="A")
            rhs = placeholder((workload.k, workload.n), "int8", name="B", constant=True)
            return ComputeDAG([_integer_product(lhs, rhs)])
        case OuterProducts():
            return ComputeDAG([_outer_products(workload)])
        case Attention():
            return ComputeDAG([_attention(workload)])
        case Stencil():
            return ComputeDAG([_stencil(workload)])


def _attention(case: Attention) -> Tensor:
    q, k, v = (placeholder(case.shape, name=name) for name in "QKV")
    products = einsum((q, k), ("bhid", "bhjd"), "bhij", "products")

    def score(b: Any, h: Any, i: Any, j: Any) -> Any:
        scaled = products[b, h, i, j] * case.size**-0.5
        return select(j <= i, scaled, float("-inf")) if case.causal else scaled

    weights = softmax(compute(products.shape, score, name="scores"))
    return einsum((weights, v), ("bhij", "bhjd"), "bhid", "Y")


def _conv_inputs(case: Conv) -> tuple[Tensor, Tensor]:
    data = placeholder((1, case.size, case.size, case.channels), name="X")
    shape = (case.kernel, case.kernel, case.channels, case.filters)
    return data, placeholder(shape, name="W", constant=True)


def _conv(case: Conv) -> Tensor:
    data, weight = _conv_inputs(case)
    return conv2d(data, weight, case.stride, case.padding, name="Y")


def _plain_conv(case: Conv) -> Tensor:
    data, weight = _conv_inputs(case)
    p, q = reduce_axis(case.kernel, "p"), reduce_axis(case.kernel, "q")
    r = reduce_axis(case.channels, "r")

    def body(a: Any, b: Any, c: Any, d: Any) -> Any:
        y, x = b * case.stride + p - case.padding, c * case.stride + q - case.padding
        term = data[a, y, x, r] * weight[p, q, r, d]
        if case.padding:
            term = select(all_of(y >= 0, y < case.size, x >= 0, x < case.size), term, 0)
        return reducers.sum(term, axis=(p, q, r))

    shape = (1, case.out, case.out, case.filters)
    result: Tensor = compute(shape, body, name="quux")
    return result


def _integer_conv(workload: IntegerConv) -> Tensor:
    case = workload.of
    data = placeholder((1, case.size, case.size, case.channels), "uint8", name="X")
    shape = (case.kernel, case.kernel, case.channels, case.filters)
    weight = placeholder(shape, "int8", name="W", constant=True)
    p, q = reduce_axis(case.kernel, "p"), reduce_axis(case.kernel, "q")
    r = reduce_axis(case.channels, "r")

    def body(a: Any, b: Any, c: Any, d: Any) -> Any:
        y, x = b * case.stride + p - case.padding, c * case.stride + q - case.padding
        term = cast(data[a, y, x, r], "int32") * cast(weight[p, q, r, d], "int32")
        if case.padding:
            term = select(all_of(y >= 0, y < case.size, x >= 0, x < case.size), term, 0)
        return reducers.sum(term, axis=(p, q, r))

    sums = compute((1, case.out, case.out, case.filters), body, name="sums")

    def narrow(a: Any, b: Any, c: Any, d: Any) -> Any:
        whole = functions.round(cast(sums[a, b, c, d], "float32") * workload.scale)
        return cast(functions.minimum(functions.maximum(whole, 0.0), 255.0), "uint8")

    result: Tensor = compute(sums.shape, narrow, name="Y")
    return result


def _integer_product(lhs: Tensor, rhs: Tensor) -> Tensor:
    k = reduce_axis(lhs.shape[1], "k")
    result: Tensor = compute(
        (lhs.shape[0], rhs.shape[1]),
        lambda i, j: reducers.sum(cast(lhs[i, k], "int32") * cast(rhs[k, j], "int32"), axis=k),
        name="C",
    )
    return result


def _plain_product(lhs: Tensor, rhs: Tensor) -> Tensor:
    r = reduce_axis(lhs.shape[1], "r")
    result: Tensor = compute(
        (lhs.shape[0], rhs.shape[1]),
        lambda a, b: reducers.sum(rhs[r, b] * lhs[a, r], axis=r),
        name="quux",
    )
    return result


def _outer_products(case: OuterProducts) -> Tensor:
    lhs = placeholder((case.batch, case.k, case.m), name="A")
    rhs = placeholder((case.batch, case.k, case.n), name="B")
    k = reduce_axis(case.k)
    result: Tensor = compute(
        (case.batch, case.m, case.n),
        lambda b, i, j: reducers.sum(lhs[b, k, i] * rhs[b, k, j], axis=k),
        name="C",
    )
    return result


def _stencil(case: Stencil) -> Tensor:
    grid = placeholder((case.size, case.size), name="U")
    inner = case.size - 2

    def body(i: Any, j: Any) -> Any:
        around = grid[i, j + 1] + grid[i + 2, j + 1] + grid[i + 1, j] + grid[i + 1, j + 2]
        return grid[i + 1, j + 1] * 0.5 + around * 0.125

    result: Tensor = compute((inner, inner), body, name="V")
    return result
