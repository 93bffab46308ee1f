"""Dtypes and shapes of what a module returns are those of PyTorch, or the import is refused."""

from __future__ import annotations

from typing import Any

import pytest

import autosched as asd
from autosched.torch_frontend import export
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.tensors import to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
pytestmark = pytest.mark.usefixtures("torchlib")


def _assert_same(module: Any, *args: Any) -> None:
    network = asd.from_torch(module, args)
    names = [value.name for value in network.inputs]
    results = asd.compile(network, effort="none").run(dict(zip(names, args, strict=True)))
    expected = module(*args)
    for ours, theirs in zip(results.values(), expected, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs)


def _not_taken(_: Any) -> None:
    raise NotTakenError("on purpose")


@pytest.mark.parametrize("through_onnx", [False, True])
def test_shifted_bytes_are_bytes(monkeypatch: pytest.MonkeyPatch, through_onnx: bool) -> None:
    """The exporter's are signed."""
    if through_onnx:
        monkeypatch.setattr(export, "network_of_program", _not_taken)
    bytes_ = torch.arange(0, 256, 5).to(torch.uint8)
    module = modules.Function(
        lambda x: (
            x << 1, x >> 1, (x << 1).to(torch.int32), (x >> 4) & 0xF, x << -1, x >> 9,
            torch.bitwise_left_shift(x, x & 7), torch.bitwise_right_shift(x, x.flip(0)), 77 >> x,
        )
    )  # fmt: skip
    _assert_same(module, bytes_)
