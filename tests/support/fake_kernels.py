"""Kernels written in Python, and a library that holds them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketch.target.target import Target

KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))
TARGET = Target("cpu", "generic", threads=1)
COUNT = 6


@dataclass(frozen=True)
class FakeArgument:
    name: str
    scope: str
    shape: tuple[int, ...] = (COUNT,)
    dtype: str = "float32"


@dataclass(frozen=True)
class FakeKernel:
    symbol: str
    arguments: tuple[FakeArgument, ...]
    workspace_bytes: int = 0
    overwrites: frozenset[str] = frozenset()

    @property
    def workspaces(self) -> tuple[tuple[str, int], ...]:
        return (("workspace", self.workspace_bytes),)


def floats(pointer: int) -> np.ndarray[Any, Any]:
    return np.ctypeslib.as_array((ctypes.c_float * COUNT).from_address(pointer))


class FakeLibrary:
    """Kernels and the two driver functions as ctypes callbacks."""

    def __init__(self) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        plan = ctypes.CFUNCTYPE(None, pointer, number, pointer, pointer, number, ctypes.c_int)
        timed = ctypes.CFUNCTYPE(None, pointer, number, pointer, pointer, ctypes.c_int)
        self.functions: dict[str, Any] = {
            "run_plan": plan(self._run_and_copy),
            "run_plan_timed": timed(self._run_timed),
        }

    def define(self, symbol: str, body: Callable[..., None]) -> None:
        self.functions[symbol] = KERNEL(body)

    def address(self, symbol: str) -> int:
        value = ctypes.cast(self.functions[symbol], ctypes.c_void_p).value
        assert value is not None
        return value

    def _run_and_copy(
        self,
        steps: int | None,
        count: int,
        _: int | None,
        copies: int | None,
        copied: int,
        __: int,
    ) -> None:
        if count:
            self._run(steps, count)
        for row in range(copied):
            target, source, size = (ctypes.c_uint64 * 3).from_address(copies + 24 * row)
            ctypes.memmove(target, source, size)

    def _run(self, steps: int | None, count: int) -> None:
        table = np.ctypeslib.as_array((ctypes.c_uint64 * (2 * count)).from_address(steps))
        for function, arguments in table.reshape(count, 2).tolist():
            KERNEL(function)(ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p)))

    def _run_timed(self, steps: int, count: int, nanoseconds: int, _: int | None, __: int) -> None:
        self._run(steps, count)
        out = (ctypes.c_int64 * count).from_address(nanoseconds)
        for number in range(count):
            out[number] = 1000 * (number + 1)
