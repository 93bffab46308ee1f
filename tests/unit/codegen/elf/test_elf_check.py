"""Objects that our compiler writes pass the check, for every target; others are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import autosched as asd
from codegen.elf.check import check_object
from codegen.elf.layout import HEADER, SECTION
from codegen.errors import ObjectFileError

ARCHITECTURES = {"cpu-avx512": "x86_64", "cpu-sse2": "x86_64", "cpu-neon": "aarch64"}


def objects_for(target: str, threads: int) -> dict[str, bytes]:
    """Kernels with constants in memory, calls of the mathematics library, and threads."""
    from autosched.compilation.task import task_contents

    a = asd.placeholder((40, 300), name="A")
    b = asd.compute((40, 300), lambda i, j: asd.exp(a[i, j]) + asd.tanh(a[i, j] * 0.3), name="B")
    j = asd.reduce_axis(300, name="j")
    c = asd.compute((40,), lambda i: asd.sum(b[i, j], axis=j), name="C")
    task = asd.Task(asd.ComputeDAG([c]), asd.Target(target, threads=threads))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task_contents(task)[2]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_our_own_objects_pass(target: str, threads: int) -> None:
    for name, code in objects_for(target, threads).items():
        assert name in check_object(code, ARCHITECTURES[target]).defined


def test_an_object_of_another_machine_is_refused() -> None:
    for code in objects_for("cpu-neon", 1).values():
        with pytest.raises(ObjectFileError, match="code of machine 183, expected 62"):
            check_object(code, "x86_64")


def test_a_truncated_object_is_refused_wherever_it_ends() -> None:
    code = objects_for("cpu-avx512", 1)["run_plan"]
    for length in range(len(code)):
        with pytest.raises(ObjectFileError):
            check_object(code[:length], "x86_64")


@pytest.mark.parametrize(
    "field", ["offset", "size", "link", "info", "addralign", "entsize", "flags"]
)
def test_a_section_header_with_a_huge_number_is_refused(field: str) -> None:
    objects = objects_for("cpu-avx512", 1)
    (code,) = (code for name, code in objects.items() if name != "run_plan")
    header = np.frombuffer(code, HEADER, count=1)[0]
    headers = np.frombuffer(code, SECTION, int(header["shnum"]), int(header["shoff"]))
    used = {"link": (2, 4), "info": (2, 4), "entsize": (2, 4)}.get(field, (1, 2, 4))
    for number, kind in enumerate(headers["type"].tolist()):
        if kind in used:
            changed = headers.copy()
            changed[field][number] = np.iinfo(changed[field].dtype).max
            found = bytes(code[: int(header["shoff"])]) + changed.tobytes()
            with pytest.raises(ObjectFileError):
                check_object(found, "x86_64")
