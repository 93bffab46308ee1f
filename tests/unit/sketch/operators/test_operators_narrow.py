"""Products with words of narrow integers: what they refuse."""

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators.narrow import NarrowFormat, narrow_matmul
from sketch.rules.generate import generate
from tests.support.targets import AVX512

FORMAT = NarrowFormat(4, 32)


@pytest.mark.parametrize(("bits", "block"), [(3, 32), (4, 8), (4, 48), (16, 32)])
def test_formats(bits: int, block: int) -> None:
    with pytest.raises(ExpressionError):
        NarrowFormat(bits, block)


@pytest.mark.parametrize(
    ("data", "words", "scale", "message"),
    [
        ("int32", (8, 5), (2, 5), "floats"),
        ("float32", (7, 5), (2, 5), "hold 64 rows"),
        ("float32", (8, 5), (1, 5), "scale"),
        ("float32", (8, 5), (2, 4), "scale"),
    ],
)
def test_shapes(data: str, words: tuple[int, ...], scale: tuple[int, ...], message: str) -> None:
    x = placeholder((1, 64), data, "x")
    w, s = placeholder(words, "int32", "w"), placeholder(scale, "float32", "s")
    with pytest.raises(ExpressionError, match=message):
        narrow_matmul(x, w, s, None, FORMAT)


def test_rows_are_whole_words() -> None:
    x, w = placeholder((1, 60), "float32", "x"), placeholder((8, 5), "int32", "w")
    with pytest.raises(ExpressionError, match="multiple of 8"):
        narrow_matmul(x, w, placeholder((2, 5), "float32", "s"), None, FORMAT)


def test_words_scales_and_zeros_stream_from_panels() -> None:
    x = placeholder((1, 128), "float32", "x")
    w = placeholder((16, 64), "int32", "w", constant=True)
    s = placeholder((4, 64), "float16", "s", constant=True)
    z = placeholder((4, 64), "int8", "z", constant=True)
    dag = ComputeDAG([narrow_matmul(x, w, s, z, FORMAT)])
    for sketch in generate(dag, AVX512):
        packed = {sketch.program.operation(pack.tensor).name for pack in sketch.program.packs}
        assert packed == {"w", "s", "z"}
