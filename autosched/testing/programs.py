"""The programs and the target of the suites, unless a suite is given others."""

from __future__ import annotations

from functools import cache

from autosched.task import Task
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators import broadcast, elementwise
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.target.target import Target


def small_target() -> Target:
    """No real machine: 4 lanes and 16 registers make tails in small shapes."""
    return Target(
        "cpu", "invented", threads=2, vector_bytes=16, registers=16, fma_accumulators=4
    )  # fmt: skip


def product(m: int = 2, n: int = 3, k: int = 2) -> ComputeDAG:
    """``C = A @ B``, [m, k] x [k, n], with a constant B."""
    lhs, rhs = placeholder((m, k), name="A"), placeholder((k, n), name="B", constant=True)
    return ComputeDAG([matmul(lhs, rhs, name="C")])


def convolution(size: int = 9, channels: int = 8, outputs: int = 16) -> ComputeDAG:
    """``relu(conv2d(data, weight) + bias)``, 3 x 3 with padding, NHWC: a stage with a consumer."""
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, outputs), name="weight", constant=True)
    bias = placeholder(outputs, name="bias", constant=True)
    return ComputeDAG([elementwise.relu(broadcast.add(conv2d(data, weight, 1, 1), bias))])


@cache
def large_task() -> Task:
    """A task of some dozen sketches; made once, as its space takes longer than a test."""
    return Task(convolution(), small_target())


@cache
def small_task() -> Task:
    """A task whose space is used up after some hundred candidates."""
    return Task(product(), small_target())
