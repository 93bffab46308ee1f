"""Circular paddings are elements at known places, not writes into parts of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
pytestmark = pytest.mark.usefixtures("torchlib")


@pytest.mark.parametrize(
    ("shape", "pad"),
    [((2, 3, 7), (2, 1)), ((1, 4, 5, 6), (0, 3, 4, 0)), ((2, 4, 3, 4), (1, 1, 2, 2, 1, 0)),
     ((1, 2, 5, 6), (-1, 2, 1, -2))],
)  # fmt: skip
def test_circular(shape: tuple[int, ...], pad: tuple[int, ...]) -> None:
    class Padded(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.pad(x, pad, mode="circular") * 2

    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    network = asd.from_torch(Padded(), (x,))
    assert not any(node.op.kind == "concat" for node in network.graph.nodes)
    (name,) = (value.name for value in network.inputs)
    (found,) = asd.compile(network, threads=1).run({name: x.numpy()}).values()
    np.testing.assert_array_equal(found, Padded()(x).numpy())
