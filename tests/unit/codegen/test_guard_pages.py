"""The guard pages of the property tests see what they are there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.build import build
from codegen.host import host_target
from codegen.kernel import Kernel
from sketch.lang.expr import Expr
from sketch.nest.loopnest import BufferLoad, LoopNest, LoopVar, Scope, Store
from tests.support.guard_pages import KernelFault, run_guarded
from tests.support.nests import PARALLEL, SERIAL, dense, loop, plus

EXTENT = 37


@pytest.fixture(autouse=True)
def unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nests that leave their buffers would not be built."""
    monkeypatch.setattr("codegen.build.verify", lambda nest: None)


def copy_kernel(shift: int = 0, write: int = 0, threads: int = 1, extent: int = EXTENT) -> Kernel:
    """``y[i + write] = x[i + shift]``, without any check."""
    i = LoopVar("i")
    x, y = dense("x", (EXTENT,), Scope.INPUT), dense("y", (EXTENT,), Scope.OUTPUT)
    value: Expr = BufferLoad(x, (plus(i, const=shift),))
    statement = Store((y,), (plus(i, const=write),), (value,))
    kind = PARALLEL if threads > 1 else SERIAL
    nest = LoopNest("copy", (x, y), (), (loop(i, extent, kind, statement),))
    return build(nest, host_target(threads))


X = np.arange(EXTENT, dtype=np.float32)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_that_stays_inside(threads: int) -> None:
    np.testing.assert_array_equal(run_guarded(copy_kernel(threads=threads), {"x": X})["y"], X)


@pytest.mark.parametrize("shift", [-1, 1, -5000, EXTENT, 5000])
def test_reads_outside_are_faults(shift: int) -> None:
    with pytest.raises(KernelFault, match="SIGSEGV"):
        run_guarded(copy_kernel(shift), {"x": X})


@pytest.mark.parametrize("write", [-1, 1, 900])
def test_writes_outside_are_faults(write: int) -> None:
    with pytest.raises(KernelFault, match=r"SIGSEGV|beside y"):
        run_guarded(copy_kernel(write=write), {"x": X})


def test_an_input_cannot_be_written() -> None:
    kernel = copy_kernel()
    reading, writing = kernel.arguments
    swapped = replace(kernel, arguments=(writing, reading))
    with pytest.raises(KernelFault, match="SIGSEGV"):
        run_guarded(swapped, {"x": X})


def test_what_is_not_written_is_garbage() -> None:
    result = run_guarded(copy_kernel(extent=EXTENT - 1), {"x": X})["y"]
    assert np.isnan(result[-1]) and not np.isnan(result[:-1]).any()


def test_a_kernel_runs_after_a_fault() -> None:
    with pytest.raises(KernelFault):
        run_guarded(copy_kernel(5000), {"x": X})
    np.testing.assert_array_equal(run_guarded(copy_kernel(), {"x": X})["y"], X)
