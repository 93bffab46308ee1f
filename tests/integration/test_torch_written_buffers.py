"""Models that write what they hold: buffers that change from call to call are no constants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.tensors import version_of
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
torch_backend = lazily("autosched.torch_frontend.backend")
CALLS = 8


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows with everything that is compiled."""
    found: list[int] = []
    specialise = CompiledGraph._specialise

    def counted(self: CompiledGraph, *args: Any, **more: Any) -> Any:
        found.append(1)
        return specialise(self, *args, **more)

    monkeypatch.setattr(CompiledGraph, "_specialise", counted)
    torch._dynamo.reset()
    yield found
    torch._dynamo.reset()


def compiled(module: Any) -> Any:
    options = {"effort": "none", "cache": False}
    return torch.compile(module, backend=torch_backend.backend, options=options)


def test_a_cache_in_a_buffer_is_compiled_a_few_times(made: list[int]) -> None:
    class Cached(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = torch.nn.Linear(8, 8)
            self.register_buffer("keys", torch.zeros(16, 8))

        def forward(self, x: Any, place: Any) -> Any:
            self.keys.index_copy_(0, place, self.project(x))
            return x @ self.keys.T

    torch.manual_seed(0)
    ours, theirs = Cached().eval(), Cached().eval()
    theirs.load_state_dict(ours.state_dict())
    fast = compiled(ours)
    with torch.no_grad():
        for number in range(CALLS):
            x, place = torch.randn(1, 8), torch.tensor([number])
            assert torch.allclose(fast(x, place), theirs(x, place), atol=1e-5)
    assert torch.allclose(ours.keys, theirs.keys, atol=1e-5) and len(made) <= 4


def test_weights_that_are_written_between_calls_become_inputs(made: list[int]) -> None:
    layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)
    fast = compiled(layer)
    with torch.no_grad():
        for _ in range(CALLS):
            layer.weight.mul_(0.9)
            assert torch.allclose(fast(x), x @ layer.weight.T + layer.bias, atol=1e-5)
    assert len(made) <= 4


def test_weights_that_change_once_are_still_constants(made: list[int]) -> None:
    """As after an epoch of training: many calls follow."""
    layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)
    fast = compiled(layer)
    with torch.no_grad():
        for _ in range(4):
            layer.weight.mul_(0.9)
            for _ in range(20):
                found = fast(x)
            assert torch.allclose(found, x @ layer.weight.T + layer.bias, atol=1e-5)
    assert len(made) == 4


def test_one_update_counts_once_for_all_sets_of_shapes(made: list[int]) -> None:
    layer = torch.nn.Linear(8, 8)
    fast = compiled(layer)
    with torch.no_grad():
        for _ in range(3):
            layer.weight.mul_(0.9)
            for _ in range(20):
                for rows in (2, 3, 4):
                    x = torch.ones(rows, 8)
                    found = fast(x)
                    assert torch.allclose(found, x @ layer.weight.T + layer.bias, atol=1e-5)
    before = len(made)
    with torch.no_grad():
        layer.weight.mul_(0.9)
        fast(torch.ones(2, 8))
    assert len(made) == before + 1, "they are still constants"


@pytest.mark.parametrize("through_data", [False, True])
def test_a_tensor_in_the_place_of_another_is_noticed(through_data: bool) -> None:
    """Allocators give freed addresses out again: here it is the same array.  Its first and last
    elements are equal, and so is the number of times that they were written.
    """

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.from_numpy(array))

        def forward(self, x: Any) -> Any:
            return x + self.mask

    array = np.zeros(4096, np.float32)
    torch._dynamo.reset()
    module, x = Masked(), torch.zeros(4096)
    fast = compiled(module)
    with torch.no_grad():
        for number in range(3):
            for _ in range(20):  # so many calls that it stays a constant
                fast(x)
            if through_data:
                module.mask.data = torch.zeros(0)
            else:
                module.mask = None
            array[30] += number
            if through_data:
                module.mask.data = torch.from_numpy(array)
            else:
                module.mask = torch.from_numpy(array)
            assert torch.equal(fast(x), x + module.mask)


def test_threads_may_find_weights_written_at_once(made: list[int]) -> None:
    """Each of them looks at what the others are just making inputs of constants."""
    layer, start = torch.nn.Linear(8, 8), threading.Barrier(4)
    fast = compiled(layer)

    def called() -> Any:
        with torch.no_grad():
            start.wait()
            return fast(torch.ones(2, 8))

    with torch.no_grad(), ThreadPoolExecutor(4) as pool:
        fast(torch.ones(2, 8))
        for _ in range(4):
            layer.weight.mul_(0.9)
            expected = torch.ones(2, 8) @ layer.weight.T + layer.bias
            for found in [pool.submit(called) for _ in range(4)]:
                assert torch.allclose(found.result(), expected, atol=1e-5)
    assert len(made) <= 4


def test_constants_are_not_kept_alive() -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    torch._dynamo.reset()
    layer = torch.nn.Linear(8, 8)
    fast = compiled(layer)
    with torch.no_grad():
        fast(torch.ones(2, 8))
        weight = StorageWeakRef(layer.weight.untyped_storage())
        layer.weight = None
    assert weight.expired()


def test_types_without_arrays_stay_with_torch() -> None:
    torch._dynamo.reset()
    x = torch.randn(4, 8)
    cases = [
        (lambda t: (t * 2).to(torch.float8_e4m3fn), x),
        (lambda t: t.to(torch.float32) * 2, x.to(torch.float8_e5m2)),
    ]
    for function, given in cases:
        with torch.no_grad():
            found, expected = compiled(function)(given), function(given)
        assert found.dtype == expected.dtype
        assert torch.equal(found.float(), expected.float())


def test_the_version_of_a_view_looks_at_its_own_elements() -> None:
    """Not at what lies beyond them."""
    memory = torch.zeros(64)
    view = memory[0].expand(64)
    before = version_of(view)
    memory.numpy()[1:] = 5.0
    assert version_of(view) == before
    memory.numpy()[0] = 1.0
    assert version_of(view) != before
    empty = torch.zeros(0)
    assert version_of(empty) == version_of(empty)
