"""A network has the same tasks from PyTorch and from ONNX, so that a log serves both."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.network_source import from_onnx
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
nn = lazily("torch.nn")
pytestmark = pytest.mark.usefixtures("torchlib")

IMAGE = (1, 8, 6, 6)
LAYERS = {
    "group norm": (lambda: nn.GroupNorm(4, 8), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2d(8), IMAGE),
    "instance norm with parameters": (lambda: nn.InstanceNorm2d(8, affine=True), IMAGE),
    "layer norm": (lambda: nn.LayerNorm(16), (4, 16)),
    "one slope": (lambda: nn.PReLU(), IMAGE),
    "slopes of channels": (lambda: nn.PReLU(8), IMAGE),
    "slopes of columns": (lambda: nn.PReLU(16), (4, 16)),
    "elu": (lambda: nn.ELU(0.7), IMAGE),
    "celu": (lambda: nn.CELU(0.7), IMAGE),
    "celu of 1": (lambda: nn.CELU(), IMAGE),
    "selu": (lambda: nn.SELU(), IMAGE),
    "softplus": (lambda: nn.Softplus(), IMAGE),
    "softplus, steeper": (lambda: nn.Softplus(beta=2.5, threshold=3), IMAGE),
}


def _run(network: Any, x: Any) -> Any:
    module = asd.compile(network, effort="none")
    (result,) = module.run({network.inputs[0].name: x}).values()
    return torch.from_numpy(np.array(result))


# Layers whose parameters training changes.
TRAINED = (
    "group norm", "instance norm with parameters", "layer norm",
    "one slope", "slopes of channels", "slopes of columns",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "trained"),
    [*((name, False) for name in LAYERS), *((name, True) for name in TRAINED)],
)
def test_tasks_are_equal_and_results_are_torchs(name: str, trained: bool) -> None:
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer, x = make().eval(), torch.randn(shape) * 3
    if trained:
        assert list(layer.parameters())
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, 0.1, 2)
    direct = asd.from_torch(layer, x)
    with redirect_stdout(io.StringIO()):
        exported = torch.onnx.export(layer, (x,), dynamo=True, verbose=False)
    through = from_onnx(exported.model_proto)
    ours, theirs = ([task.key for task in asd.extract_tasks(n)] for n in (direct, through))
    assert ours == theirs
    expected = layer(x).detach()
    for network in (direct, through):
        torch.testing.assert_close(_run(network, x), expected, rtol=2e-5, atol=2e-6)


def test_a_logarithm_of_a_sigmoid_is_finite() -> None:
    x = torch.tensor([-1e30, -200.0, -1.0, -1e-6, 0.0, 5.0, 1e30, float("inf"), -float("inf")])
    layer = nn.LogSigmoid()
    torch.testing.assert_close(_run(asd.from_torch(layer, x), x), layer(x), rtol=1e-6, atol=0)
