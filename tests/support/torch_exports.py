"""PyTorch's exports without what they do again and again: half a second of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest


@contextmanager
def looked_up_once() -> Iterator[None]:
    """What exports look up in tables that stay as they are."""
    registry = pytest.importorskip("torch.onnx._internal.exporter._registration").ONNXRegistry
    modules = [
        pytest.importorskip(f"torch.export.{name}") for name in ("exported_program", "decomp_utils")
    ]
    known = cache(modules[0]._collect_all_valid_cia_ops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "from_torchlib", staticmethod(cache(registry.from_torchlib)))
        for module in modules:
            patch.setattr(module, "_collect_all_valid_cia_ops", known, raising=False)
        yield
