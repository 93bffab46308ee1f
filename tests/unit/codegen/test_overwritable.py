"""Which inputs a kernel's output may take the place of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pytest

from codegen.build import build
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lang.reducers import sum as total
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target

N: Final = 12
Make = Callable[[Mapping[str, Tensor]], Tensor]


def over(body: Callable[..., Any]) -> Make:
    return lambda x: compute((N, N), lambda i, j: body(x, i, j), name="out")


def rows_sum(x: Mapping[str, Tensor]) -> Tensor:
    k = reduce_axis(N)
    return compute((N,), lambda i: total(x["a"][i, k], k), name="out")


def product(x: Mapping[str, Tensor]) -> Tensor:
    k = reduce_axis(N)
    return compute((N, N), lambda i, j: total(x["a"][i, k] * x["weight"][k, j], k), name="product")


def residual(x: Mapping[str, Tensor]) -> Tensor:
    found = product(x)
    return compute((N, N), lambda i, j: found[i, j] + x["b"][i, j], name="out")


def own_residual(x: Mapping[str, Tensor]) -> Tensor:
    found = product(x)
    return compute((N, N), lambda i, j: found[i, j] + x["a"][i, j], name="out")


def of_all(x: Mapping[str, Tensor]) -> Tensor:
    mean = rows_sum(x)
    return compute((N, N), lambda i, j: x["a"][i, j] - mean[i], name="centred")


CASES: Final[Mapping[str, tuple[Make, set[str]]]] = {
    "an element": (over(lambda x, i, j: x["a"][i, j] * 2), {"a"}),
    "two elements": (over(lambda x, i, j: x["a"][i, j] + x["b"][i, j]), {"a", "b"}),
    "a factor of each column": (over(lambda x, i, j: x["a"][i, j] * x["row"][0, j]), {"a"}),
    "turned": (over(lambda x, i, j: x["a"][i, j] + x["b"][j, i]), {"a"}),
    "next to it": (over(lambda x, i, j: x["a"][i, j] + x["a"][i, N - 1 - j]), set()),
    "as wide": (over(lambda x, i, j: cast(x["whole"][i, j], "float32")), {"whole"}),
    "wider": (over(lambda x, i, j: cast(x["a"][i, j], "float64")), set()),
    "a weight": (over(lambda x, i, j: x["a"][i, j] + x["weight"][i, j]), {"a"}),
    "a sum": (rows_sum, set()),
    "what is read before": (of_all, set()),
    "what is added to a product": (residual, {"b"}),
    "a factor of a product": (product, set()),
    "a factor that is added, too": (own_residual, set()),
}


@pytest.mark.parametrize("case", CASES)
def test_inputs_of_which_each_element_is_read_for_the_one_in_its_place(case: str) -> None:
    make, expected = CASES[case]
    tensors = {
        "a": placeholder((N, N), name="a"),
        "b": placeholder((N, N), name="b"),
        "row": placeholder((1, N), name="row"),
        "whole": placeholder((N, N), "int32", "whole"),
        "weight": placeholder((N, N), name="weight", constant=True),
    }
    target: Target = cpu_target("cpu-sse2", 2)
    for sketch in generate(ComputeDAG([make(tensors)]), target):
        row = sample(sketch, 1, np.random.default_rng(0)).row(0)
        assert build(lower(sketch, row), target).overwrites == expected
