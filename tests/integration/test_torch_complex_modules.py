"""Modules that compute with complex numbers inside."""

from __future__ import annotations

import logging

import pytest

import autosched as asd
from autosched.torch_frontend.tensors import to_numpy, to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
functional = lazily("torch.nn.functional")
modules = lazily("tests.support.torch_complex_modules")
backend_module = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")
NAMES = (
    "FourierLayer", "ShiftedFourierLayer", "FourierMixing", "GlobalFilter", "Denoiser", "Rotary",
    "StateSpace",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_modules_are_networks(name: str, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    module = getattr(modules, name)().eval()
    x = torch.randn(module.shape)
    with caplog.at_level(logging.DEBUG, "autosched.torch"):
        network = asd.from_torch(module, x)
    assert "through ONNX" not in caplog.text
    assert [value.name for value in network.inputs] == ["x"]
    compiled = asd.compile(network, effort="none")
    assert not compiled.program.host_steps
    (ours,) = compiled.run({"x": to_numpy(x)}).values()
    with torch.no_grad():
        torch.testing.assert_close(to_torch(ours), module(x), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["FourierLayer", "Denoiser"])
def test_graphs_of_torch_compile(name: str, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    module = getattr(modules, name)().eval()
    x = torch.randn(module.shape)
    options = {"cache": False}
    compiled = torch.compile(module, backend=backend_module.backend, options=options)
    with torch.no_grad(), caplog.at_level(logging.INFO, "autosched.torch"):
        torch.testing.assert_close(compiled(x), module(x), rtol=2e-4, atol=2e-5)
    assert caplog.text.count("kernels, 0 on the host") == 1
    assert "stays with torch" not in caplog.text


def test_complex_results_stay_with_torch(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(3, 8)
    compiled = torch.compile(lambda x: torch.fft.rfft(x) * 2, backend=backend_module.backend)
    with torch.no_grad(), caplog.at_level(logging.DEBUG, "autosched.torch"):
        torch.testing.assert_close(compiled(x), torch.fft.rfft(x) * 2)
    assert "is of type complex64, which networks do not return" in caplog.text
    assert "through ONNX" not in caplog.text
