"""PyTorch's exports without what they do again and again: half a second of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest


class _Annotation(type):
    """Of a class that stands for ``Callable`` among the names of a module."""

    @cache  # noqa: B019 - there is one such class
    def __getitem__(cls, key: Any) -> Any:
        return Callable[key]

    def __instancecheck__(cls, instance: object) -> bool:
        return callable(instance)


class _Callable(metaclass=_Annotation):
    pass


@contextmanager
def looked_up_once() -> Iterator[None]:
    """What exports look up in tables that stay as they are; and the annotations of a function that
    they define for each of some thousand operators.
    """
    registry = pytest.importorskip("torch.onnx._internal.exporter._registration").ONNXRegistry
    modules = [
        pytest.importorskip(f"torch.export.{name}") for name in ("exported_program", "decomp_utils")
    ]
    known = cache(modules[0]._collect_all_valid_cia_ops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "from_torchlib", staticmethod(cache(registry.from_torchlib)))
        for module in modules:
            patch.setattr(module, "_collect_all_valid_cia_ops", known, raising=False)
        patch.setattr("torch._ops.Callable", _Callable)
        yield
