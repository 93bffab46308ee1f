"""What is seen of the tensors that were compiled into a module, all at once."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.torch_frontend.constants_watch import ConstantsWatch
from tests.support.lazily import lazily

torch = lazily("torch")


def _tensors() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    found = [torch.randn(shape, generator=generator) for shape in [(4, 3), (100,), (), (0, 5)]]
    return [*found, torch.arange(40).view(5, 8)[1:3, ::2]]


def _swapped(tensor: Any) -> None:
    tensor.data = tensor.data.clone()


WRITES: list[Callable[[Any], Any]] = [
    lambda t: t.add_(1),
    lambda t: t.data.fill_(7),
    lambda t: t.numpy().flat.__setitem__(-1, 7),
    lambda t: t.numpy().flat.__setitem__(0, 7),
    _swapped,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("place", [0, 1, 4])
def test_writes_are_seen(write: Callable[[Any], Any], place: int) -> None:
    tensors = _tensors()
    watch = ConstantsWatch(tensors)
    assert watch.holds(tensors) and watch.holds(list(tensors))
    write(tensors[place])
    assert not watch.holds(tensors)


def test_another_tensor_is_seen_even_of_the_same_memory() -> None:
    tensors = _tensors()
    watch = ConstantsWatch(tensors)
    assert not watch.holds([tensors[0].detach(), *tensors[1:]])
    assert not watch.holds(tensors[:-1])


def test_nothing_is_read_of_tensors_that_are_gone() -> None:
    tensors = _tensors()
    watch = ConstantsWatch(tensors)
    tensors[1] = None
    gc.collect()
    tensors[1] = torch.zeros(100)
    assert not watch.holds(tensors)


def test_watched_tensors_can_be_swapped() -> None:
    """As load_state_dict and Module.to do, if torch.__future__ says so."""
    layer = torch.nn.Linear(3, 3)
    watch = ConstantsWatch([layer.weight])
    assert watch.holds([layer.weight])
    torch.utils.swap_tensors(layer.weight, torch.nn.Parameter(torch.ones(3, 3)))
    assert not watch.holds([layer.weight])


def test_numbers_are_left_to_others() -> None:
    assert not ConstantsWatch([torch.zeros(3), 5]).holds([torch.zeros(3), 5])
    assert ConstantsWatch([]).holds([])


def test_shared_memory_is_watched_for_each(rng: np.random.Generator) -> None:
    memory = torch.zeros(64)
    parts = [memory[:32], memory[16:48]]
    watch = ConstantsWatch(parts)
    memory[60] = 1.0
    assert not watch.holds(parts)  # torch counts what is written into the memory, not into a view
