"""Memory for the arrays of one task after another: apart while they live, used again after."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autosched.measure.scratch import Scratch
from codegen.kernel import BUFFER_ALIGNMENT

SIZE = 1 << 20


def place(array):
    return array.__array_interface__["data"][0]


def test_arrays_lie_apart_aligned_and_as_they_were_asked_for():
    scratch = Scratch(SIZE)
    arrays = [scratch.empty((3, 40001), dtype) for dtype in ("float32", "int8", "bfloat16")]
    for number, array in enumerate(arrays):
        assert array.shape == (3, 40001) and array.flags.c_contiguous and array.flags.writeable
        assert place(array) % BUFFER_ALIGNMENT == 0
        array[...] = number
    assert [str(array.dtype) for array in arrays] == ["float32", "int8", "bfloat16"]
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_memory_is_used_again_when_the_last_view_ends():
    scratch = Scratch(SIZE)
    array = scratch.empty((SIZE // 4,), "float32")
    first, view = place(array), array.reshape(-1, 2)[::3, 1]
    view[...] = 7
    del array
    other = scratch.empty((SIZE // 4,), "float32")  # no room: allocated by itself
    other[...] = 1
    assert place(other) != first and (view == 7).all()
    del view
    assert place(scratch.empty((SIZE // 4,), "float32")) == first


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_neighbours_that_have_ended_are_joined(order):
    scratch = Scratch(3 << 17)
    arrays = dict(enumerate(scratch.empty((1 << 17,), "uint8") for _ in range(3)))
    first = place(arrays[0])
    for number in order:
        del arrays[number]
    assert place(scratch.empty((3 << 17,), "uint8")) == first


def test_small_arrays_take_none_of_it():
    scratch = Scratch(1 << 16)
    small = [scratch.empty((10,), "float32") for _ in range(9)]
    whole = scratch.empty((1 << 16,), "uint8")
    assert len({place(array) for array in (*small, whole)}) == 10
    assert scratch.empty((0, 5), "float32").shape == (0, 5)


def test_threads_do_not_get_the_same_memory():
    scratch = Scratch(SIZE)

    def work(number):
        for _ in range(50):
            arrays = [scratch.empty((70000 + number,), "uint8") for _ in range(2)]
            for array in arrays:
                array.fill(number)
            if any((array != number).any() for array in arrays):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert np.all(scratch.empty((SIZE,), "uint8").shape == (SIZE,))
