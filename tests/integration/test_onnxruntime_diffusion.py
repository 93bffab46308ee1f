"""A block of a diffusion model as onnxruntime's script writes it for GPUs, channels last."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from tests.support.lazily import lazily
from tests.support.onnx_sessions import reference_session

onnx = lazily("onnx")
torch = lazily("torch")
optimizer = lazily("onnxruntime.transformers.optimizer")
pytestmark = pytest.mark.slow

CHANNELS, GROUPS = 32, 8
WRITTEN = {"NhwcConv", "GroupNorm", "SkipGroupNorm", "BiasSplitGelu"}


def block() -> Any:
    """Two convolutions with group norms, an embedding of the step, and a gated layer."""
    nn, silu = torch.nn, torch.nn.functional.silu

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(4, CHANNELS, 3, padding=1)
            self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
            self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, CHANNELS) for _ in range(2))
            self.step = nn.Linear(16, CHANNELS)
            self.norm = nn.LayerNorm(CHANNELS)
            self.gated, self.last = nn.Linear(CHANNELS, 256), nn.Linear(128, CHANNELS)

        def forward(self, x: Any, t: Any) -> Any:
            x = self.first(x)
            h = self.second(silu(self.norms[0](x))) + self.step(t)[:, :, None, None]
            h = silu(self.norms[1](h)) + x
            batch, channels, height, width = h.shape
            rows = h.permute(0, 2, 3, 1).reshape(batch, height * width, channels)
            left, right = self.gated(self.norm(rows)).chunk(2, -1)
            return self.last(left * nn.functional.gelu(right)) + rows

    return Block().eval()


def test_results_are_those_of_the_exported_block(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, t = torch.randn(2, 4, 8, 8), torch.randn(2, 16)
    source, target = tmp_path / "block.onnx", tmp_path / "optimised.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            block(), (x, t), source, input_names=["x", "t"], output_names=["y"], opset_version=14,
            dynamo=False,
        )  # fmt: skip
    made = optimizer.optimize_model(
        str(source), model_type="unet", num_heads=0, hidden_size=0, opt_level=0, use_gpu=True
    )
    made.save_model_to_file(str(target))
    assert {node.op_type for node in onnx.load(target).graph.node} >= WRITTEN
    feed = {"x": x.numpy(), "t": t.numpy()}
    (expected,) = reference_session(source.read_bytes()).run(None, feed)
    (found,) = asd.compile(asd.from_onnx(target), effort="none").run(feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
