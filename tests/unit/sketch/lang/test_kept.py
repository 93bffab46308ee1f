"""What is found out about an object lives as long as the object."""

import gc
import pickle
from dataclasses import dataclass, replace

import autosched as asd
from sketch.lang.kept import KeepsResults, give_result, kept, known_result
from sketch.lang.tensor import Compute
from sketch.rules.generate import generate

_asked: list[str] = []


@dataclass(frozen=True, slots=True, eq=False)
class Named(KeepsResults):
    name: str


@kept
def length(subject: Named) -> int:
    """Of the name."""
    _asked.append(subject.name)
    return len(subject.name)


@kept
def is_long(subject: Named) -> bool:
    """Asks for another result on its way."""
    return length(subject) > 3


def test_each_object_is_asked_once() -> None:
    _asked.clear()
    one, other = Named("one"), Named("three")
    assert [is_long(one), length(one), length(other), is_long(other), is_long(one)] == [
        False, 3, 5, True, False,
    ]  # fmt: skip
    assert _asked == ["one", "three"]


def test_copies_begin_without() -> None:
    one = Named("one")
    length(one)
    _asked.clear()
    copies = pickle.loads(pickle.dumps(one)), replace(one, name="four")
    assert [length(copy) for copy in copies] == [3, 4]
    assert _asked == ["one", "four"]


def test_what_others_found_is_not_asked_again() -> None:
    _asked.clear()
    one, other = Named("one"), Named("three")
    assert known_result(length, one) is None
    give_result(length, one, 7)
    assert (known_result(length, one), length(one), is_long(one)) == (7, 7, True)
    assert length(other) == known_result(length, other) == 5
    assert _asked == ["three"]


def test_programs_that_nobody_uses_any_more_are_gone() -> None:
    def explored() -> int:
        a, b = asd.placeholder((8, 9), name="A"), asd.placeholder((9, 16), name="B")
        k = asd.reduce_axis(9)
        c = asd.compute((8, 16), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
        d = asd.compute((8, 16), lambda i, j: asd.maximum(c[i, j], 0), name="D")
        sketches = generate(asd.ComputeDAG([d]), asd.Target("cpu", threads=2))
        return sum(len(sketch.decisions) for sketch in sketches)

    def stages() -> int:
        gc.collect()
        return sum(type(item) is Compute for item in gc.get_objects())

    explored()
    before = stages()
    assert explored() > 0
    assert stages() == before
