"""Tensors of PyTorch that it negates or conjugates only when their elements are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.torch_frontend.tensors import to_numpy
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
backend_module = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")


def _negated() -> Any:
    """Imaginary parts of conjugated numbers."""
    tensor = torch.complex(torch.randn(3, 4), torch.randn(3, 4)).conj().imag
    assert tensor.is_neg()
    return tensor


def test_modules_read_tensors_as_they_are_meant() -> None:
    x = _negated()
    module = asd.compile(asd.from_torch(modules.Function(torch.relu), torch.ones(3, 4)))
    (name,) = (spec.name for spec in module.inputs)
    (found,) = module.run({name: x}).values()
    np.testing.assert_array_equal(found, x.relu().numpy())


def test_compiled_functions_read_tensors_as_they_are_meant() -> None:
    torch._dynamo.reset()
    x = _negated()
    compiled = torch.compile(lambda t: t.relu() * 2, backend=backend_module.backend)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), x.relu() * 2)
    np.testing.assert_array_equal(to_numpy(x), x.resolve_neg().numpy())
