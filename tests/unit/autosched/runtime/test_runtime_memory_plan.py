import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.runtime.errors import AssemblyError
from autosched.runtime.memory import HUGE_PAGE_BYTES, allocate, view
from autosched.runtime.memory_plan import ONE_THREAD, Block, Shares, align, plan_memory
from codegen.kernel import BUFFER_ALIGNMENT

LIVES = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(-1, 12), st.integers(0, 6)), max_size=25
)


def test_values_that_never_meet_share_memory() -> None:
    plan = plan_memory([Block("a", 100, 0, 1), Block("b", 100, 2, 3), Block("c", 100, 1, 2)])
    assert plan.offsets["a"] == plan.offsets["b"] == 0
    assert plan.offsets["c"] == align(100)
    assert plan.size_bytes == 2 * align(100)


def test_a_gap_between_two_live_blocks_is_used() -> None:
    plan = plan_memory(
        [
            Block("big", 640, 0, 9),
            Block("gone", 320, 0, 1),
            Block("top", 256, 0, 9),
            Block("late", 64, 5, 6),
        ]
    )
    assert plan.offsets["gone"] <= plan.offsets["late"] < plan.offsets["gone"] + 320


def test_nothing_to_plan() -> None:
    assert plan_memory([]).size_bytes == 0


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(AssemblyError, match="'a'"):
        plan_memory([Block("a", 4, 0, 0), Block("a", 4, 1, 1)])


def test_threads_find_their_share_where_they_had_one_before() -> None:
    """Layers of falling size, each read by the next: all even and all odd ones share a middle."""
    sizes = [4096 - 512 * n for n in range(7)]
    blocks = [Block(str(n), size, n, n + 1) for n, size in enumerate(sizes)]
    plan = plan_memory(blocks, Shares(2, 4096))
    middles = [plan.offsets[str(n)] + size // 2 for n, size in enumerate(sizes)]
    assert len({*middles[::2]}) == len({*middles[1::2]}) == 1
    assert plan.size_bytes == plan_memory(blocks).size_bytes == sizes[0] + sizes[1]


def test_what_leaves_the_caches_lies_anywhere() -> None:
    blocks = [Block("large", 8192, 0, 1), Block("small", 1024, 2, 3), Block("later", 512, 4, 5)]
    plan = plan_memory(blocks, Shares(2, 4096))
    assert plan.offsets == {"large": 0, "small": 0, "later": 256}


@given(LIVES, st.sampled_from([1, 2, 3, 8]))
def test_an_arena_in_the_order_of_threads_grows_little(
    lives: list[tuple[int, int, int]], threads: int
) -> None:
    blocks = [Block(str(n), size, at, at + span) for n, (size, at, span) in enumerate(lives)]
    lowest = plan_memory(blocks).size_bytes
    assert plan_memory(blocks, Shares(threads, 4096)).size_bytes <= 1.25 * lowest


@given(LIVES, st.sampled_from([ONE_THREAD, Shares(2, 2048), Shares(3, 10**6)]))
def test_live_blocks_are_aligned_and_disjoint(
    lives: list[tuple[int, int, int]], shares: Shares
) -> None:
    blocks = [Block(str(n), size, at, at + span) for n, (size, at, span) in enumerate(lives)]
    plan = plan_memory(blocks, shares)
    for block in blocks:
        offset = plan.offsets[block.name]
        assert offset % BUFFER_ALIGNMENT == 0
        assert offset + block.size_bytes <= plan.size_bytes
        for other in blocks:
            if other is not block and other.first <= block.last and block.first <= other.last:
                start = plan.offsets[other.name]
                assert offset + block.size_bytes <= start or start + other.size_bytes <= offset


def test_allocated_memory_is_zeroed_and_aligned_to_huge_pages() -> None:
    memory = allocate(1000)
    assert memory.ctypes.data % HUGE_PAGE_BYTES == 0
    assert memory.shape == (1000,) and not memory.any()
    assert allocate(0).size == 0


def test_a_view_is_a_window_on_the_memory() -> None:
    memory = allocate(256)
    window = view(memory, 64, "float32", (2, 3))
    window[...] = 1.0
    assert memory[:64].sum() == 0
    assert np.array_equal(memory[64:88].view("float32"), np.ones(6, np.float32))
    assert view(memory, 0, "int64", ()).shape == ()
