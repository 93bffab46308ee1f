"""Kernels of a network: a result that several stages write, alone or in a larger value."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.shape import Concat


@pytest.mark.parametrize("parts", [1, 2])
def test_a_result_that_several_stages_write_is_one_argument(parts: int) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1, 1, 4, 7), dtype=np.float32)
    net = GraphBuilder("upsampled")
    image = net.input(Value("image", data.shape))
    results = []
    for n in range(parts):
        weight = net.constant(f"w{n}", rng.standard_normal((1, 5, 2, 3), dtype=np.float32))
        op = ConvTranspose((2, 3), (0, 0, 0, 2))
        results.append(net.add(op, (image, weight)))
    result = results[0] if parts == 1 else net.add(Concat(1), tuple(results))
    network = Network("upsampled", net.finish({"result": result}))

    module = asd.compile(network)
    inputs = {"image": data}
    found = module.run(inputs)["result"]
    expected = evaluate(network.graph, inputs)["result"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
