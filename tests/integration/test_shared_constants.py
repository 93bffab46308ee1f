"""Processes that load one module with ``shared=True`` have its constants once in memory."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.runtime.errors import ModuleFileError
from tests.support.archives import change_plan, small_module

ROOT = Path(__file__).parents[2]
PROCESSES = 4
DEPTH, COLUMNS = 1024, 2048  # 8 MB of constants
# Says what is mapped of the file once all processes have run the module.
CHILD = """\
import sys
import numpy as np
import autosched as asd
module = asd.load(sys.argv[1], shared=True)
found = module.run({"A": np.ones((1, %d), np.float32)})["C"]
print(float(found.sum()), flush=True)
sys.stdin.readline()
print(open("/proc/self/smaps").read(), flush=True)
sys.stdin.readline()
"""


def wide_module() -> asd.Module:
    a = asd.placeholder((1, DEPTH), name="A")
    b = asd.placeholder((DEPTH, COLUMNS), name="B", constant=True)
    k = asd.reduce_axis(DEPTH)
    c = asd.compute((1, COLUMNS), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    task = asd.Task(asd.ComputeDAG([c]), target=asd.Target("cpu", threads=1))
    return task.module({"B": np.ones((DEPTH, COLUMNS), np.float32)})


def kilobytes(smaps: str, path: Path, field: str) -> int:
    """Of all mappings of a file, summed."""
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.M)
    mine = [part for part in parts if part.splitlines() and str(path) in part.splitlines()[0]]
    return sum(int(re.search(rf"^{field}: +(\d+) kB", part, re.M)[1]) for part in mine)  # type: ignore[index]


@pytest.mark.slow
def test_four_processes_share_their_constants(tmp_path: Path) -> None:
    path = tmp_path / "wide.asd"
    module = wide_module()
    module.save(path)
    size = module.program.constants_bytes >> 10
    assert size >= DEPTH * COLUMNS * 4 >> 10
    command = [sys.executable, "-c", CHILD % DEPTH, str(path)]
    children = [
        subprocess.Popen(
            command, text=True, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(PROCESSES)
    ]
    try:
        outputs = [child.stdout for child in children if child.stdout is not None]
        assert {out.readline() for out in outputs} == {f"{float(DEPTH * COLUMNS)}\n"}
        pages = []
        for child, out in zip(children, outputs, strict=True):
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
            lines = iter(out.readline, "\n")
            pages.append("".join(lines))
        for smaps in pages:
            resident, share = (kilobytes(smaps, path, field) for field in ("Rss", "Pss"))
            assert resident >= size
            assert share <= 1.05 * resident / PROCESSES
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_shared_constants_are_those_of_the_file(tmp_path: Path) -> None:
    module, path = small_module(), tmp_path / "net.asd"
    module.save(path)
    loaded = asd.load(path, shared=True)
    module.save(path)  # replaces the file: what is mapped stays
    np.testing.assert_array_equal(loaded.constants, module.constants)
    with pytest.raises(ValueError, match="read-only"):
        loaded.constants[0] = 0
    inputs = module.random_inputs()
    np.testing.assert_array_equal(loaded.run(inputs)["C"], module.run(inputs)["C"])


@pytest.mark.parametrize("shared", [False, True])
def test_threads_load_and_run_one_file_at_the_same_time(tmp_path: Path, shared: bool) -> None:
    module, path = small_module(), tmp_path / "net.asd"
    module.save(path)
    inputs = module.random_inputs()
    expected = module.run(inputs)["C"]
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: asd.load(path, shared=shared), range(16)))
        found = list(pool.map(lambda one: one.run(inputs)["C"], loaded * 4))
    assert all(np.array_equal(result, expected) for result in found)


def test_a_file_whose_constants_begin_anywhere_is_copied(tmp_path: Path) -> None:
    module, path = small_module(), tmp_path / "net.asd"
    module.save(path)
    change_plan(path, lambda plan: plan.update(name="x"))  # written without padding
    np.testing.assert_array_equal(asd.load(path).constants, module.constants)
    with pytest.raises(ModuleFileError, match=r"cannot be shared.*save it again"):
        asd.load(path, shared=True)
