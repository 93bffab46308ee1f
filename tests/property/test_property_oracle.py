"""The oracle's fast path (matrix products) against its general path, and compiled kernels against
the oracle, on random programs under odd names.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d
from sketch.oracle.contraction import sum_of_products
from sketch.oracle.interpret import interpret
from sketch.oracle.sampled import sample_reference
from tests.support.compiled import check_run
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.odd_names import renamed
from tests.support.workloads import random_inputs

small = st.integers(1, 4)
TARGETS = runnable()


@st.composite
def convolutions(draw):
    kernel = (draw(small), draw(small))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = tuple(draw(st.integers(0, 3)) for _ in range(4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [draw(st.integers(max(1, r - 2), r + 6)) for r in reach]
    padded = [size[d] + padding[d] + padding[d + 2] for d in range(2)]
    size = [n + max(0, r - p) for n, r, p in zip(size, reach, padded, strict=True)]
    channels, outputs = draw(small), draw(small)
    groups = draw(st.sampled_from([1, channels]))
    data = placeholder((draw(st.integers(1, 2)), *size, channels), name="data")
    weight = placeholder((*kernel, channels // groups, outputs * groups), name="weight")
    stride = (draw(small), draw(small))
    return ComputeDAG([conv2d(data, weight, stride, padding, dilation, groups)])


@st.composite
def sums_of_products(draw):
    """``out(spatial) += sum of +- products of loads`` with shifted, scaled, summed indices, some
    masked by bounds of one of their indices."""
    axes = [Axis("i", draw(small), "spatial"), Axis("j", draw(small), "spatial")]
    over = [reduce_axis(draw(small), "k"), reduce_axis(draw(small), "l")]
    tensors = []

    def element(*spatial):
        def load():
            indices, shape = [], []
            for _ in range(draw(st.integers(1, 3))):
                index, last = None, 0
                for axis in draw(st.sets(st.sampled_from(range(4)), min_size=1, max_size=2)):
                    live = [*spatial, *over][axis]
                    scale = draw(st.integers(1, 2))
                    index = live * scale if index is None else index + live * scale
                    last += (live.extent - 1) * scale
                indices.append(index)
                shape.append(last + 1)
            tensors.append(placeholder(shape, name=f"t{len(tensors)}"))
            return tensors[-1][tuple(indices)], indices[0], shape[0]

        total = None
        for _ in range(draw(st.integers(1, 2))):
            product, index, extent = load()
            for _ in range(draw(st.integers(0, 2))):
                product = product * load()[0]
            product = product * draw(st.sampled_from([1.0, -2.5]))
            if draw(st.booleans()):
                low = draw(st.integers(0, extent))
                product = select(all_of(index >= low, index < extent - 1), product, 0)
            total = product if total is None else total - product
        return reducers.sum(total, axis=over)

    return ComputeDAG([compute([axis.extent for axis in axes], lambda i, j: element(i, j))])


def assert_paths_agree(dag, seed):
    inputs = random_inputs(dag, np.random.default_rng(seed))
    fast, general = interpret(dag, inputs), interpret(dag, inputs, fast=False)
    for name, value in general.items():
        np.testing.assert_allclose(fast[name], value, rtol=1e-10, atol=1e-10)
    sampled = sample_reference(dag, inputs, np.random.default_rng(seed))
    assert sampled.check(general) < 1e-10


@examples(60)
@given(convolutions().flatmap(renamed), st.integers(0, 2**32 - 1))
def test_convolutions(dag, seed):
    assert sum_of_products(dag.stages[0]) is not None
    assert_paths_agree(dag, seed)


@examples(100)
@given(sums_of_products().flatmap(renamed), st.integers(0, 2**32 - 1))
def test_sums_of_products(dag, seed):
    assert sum_of_products(dag.stages[0]) is not None
    assert_paths_agree(dag, seed)


@examples(40)
@given(
    st.one_of(convolutions(), sums_of_products()).flatmap(renamed),
    st.sampled_from(TARGETS),
    st.integers(0, 47),
    st.integers(0, 2**32 - 1),
)
def test_kernels(dag, target, choice, seed):
    check_run(dag, random_inputs(dag, np.random.default_rng(seed)), target, choice, seed)
