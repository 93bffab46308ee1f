"""Other processes draft and build what this one would, and whatever they do not do, it does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.compilation import drafting, kernels, side_processes
from autosched.compilation.network import network_contents
from autosched.compilation.side_processes import (
    SideProcesses,
    answer_of,
)
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.shape import Concat
from autosched.measure.zygote import clean_environment
from codegen.host import host_target

TARGET = host_target(1)
CHANNELS = (4, 6, 8, 10, 12, 16, 20, 24)


@pytest.fixture
def processes() -> Iterator[SideProcesses]:
    with SideProcesses() as started:
        yield started


def branches() -> Network:
    """Convolutions of different sizes, some of which write into parts of one result."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("branches")
    value = builder.input(Value("image", (1, CHANNELS[0], 12, 12)))
    parts = []
    for n, (before, after) in enumerate(pairwise(CHANNELS)):
        weight = rng.standard_normal((after, before, 3, 3), np.float32) / before
        value = builder.add(Conv((1, 1), (1, 1, 1, 1)), [value, builder.constant(f"w{n}", weight)])
        value = builder.add(UnaryOp("relu"), [value])
        parts.append(value)
    parts.append(builder.add(UnaryOp("tanh"), [value]))
    return Network("branches", builder.finish({"result": builder.add(Concat(1), parts)}))


def test_a_network_is_the_same_whoever_drafts_and_builds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[bytes | None] = []

    def waited_for(coming: Future[bytes | None] | None) -> bytes | None:
        if coming is None:  # the smallest task, by which it is estimated what the others take
            return None
        answers.append(coming.result())
        return answers[-1]

    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 1)
    alone, constants, objects, payloads = network_contents(branches(), TARGET)
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 2)
    monkeypatch.setattr(side_processes, "_WORTH_S", 0.0)
    monkeypatch.setattr(drafting, "answer_of", waited_for)
    monkeypatch.setattr(kernels, "answer_of", waited_for)
    program, *others = network_contents(branches(), TARGET)
    assert len(answers) == 2 * (len(objects) - 1) - 1  # but for what all kernels share
    assert None not in answers
    assert program == alone
    assert others[1:] == [objects, payloads]
    np.testing.assert_array_equal(others[0], constants)


def test_little_work_and_one_cpu_are_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 2)
    with SideProcesses() as processes:
        assert not processes.worth(0.1) and processes.worth(10.0)
        processes.begin(f"{__name__}:own_pid", b"").result()
        assert processes.worth(0.1)  # they are there
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 1)
    with SideProcesses() as processes:
        assert not processes.worth(10.0)


def test_what_no_process_began_is_not_waited_for(processes: SideProcesses) -> None:
    waiting: Future[bytes | None] = Future()
    assert answer_of(waiting) is None and waiting.cancelled()
    assert answer_of(None) is None


@pytest.mark.parametrize("function", ["os:abort", "no.such.module:f", "math:sqrt"])
def test_processes_that_die_or_fail_answer_nothing(processes: SideProcesses, function: str) -> None:
    assert processes.begin(function, b"").result() is None
    assert processes.begin("pickle:loads", b"later").result() == b"later"


def test_what_cannot_be_sent_is_for_this_process(processes: SideProcesses) -> None:
    assert processes.begin("pickle:loads", lambda: None).result() is None
    assert processes.begin("pickle:loads", b"later").result() == b"later"


def test_no_threads_no_answers(monkeypatch: pytest.MonkeyPatch, processes: SideProcesses) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert processes.begin("pickle:loads", b"").result() is None


def test_the_program_that_asks_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen program has no interpreter beside it."""
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 2)
    monkeypatch.setattr("sys.frozen", True, raising=False)
    with SideProcesses() as processes:
        assert not processes.worth(100.0)


def test_nobody_waits_for_processes_that_take_long_to_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(slow))
    began = time.monotonic()
    with SideProcesses() as processes:
        coming = processes.begin("pickle:loads", b"")
        time.sleep(0.2)  # a thread waits for it now
    assert time.monotonic() - began < 10.0
    assert coming.result() is None


def test_processes_start_where_standard_streams_are_closed(tmp_path: Path) -> None:
    """As those of a daemon are."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from autosched.compilation.side_processes import SideProcesses\n"
        "with SideProcesses() as processes:\n"
        "    answer = processes.begin('pickle:loads', b'later').result()\n"
        "open(sys.argv[1], 'w').write(repr(answer))\n"
    )
    found = tmp_path / "found"
    command = f"exec {sys.executable} {script} {found} <&- >&- 2>&-"
    subprocess.run(command, shell=True, check=True, env=clean_environment(), timeout=60)
    assert found.read_text() == repr(b"later")


def test_processes_that_are_ended_from_outside_are_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: SideProcesses
) -> None:
    """Whoever waits for many answers would wait for many starts."""
    starts = tmp_path / "starts"
    killed = tmp_path / "python"
    killed.write_text(f"#!/bin/sh\necho >> {starts}\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(killed))
    coming = [processes.begin("pickle:loads", b"") for _ in range(20)]
    assert [one.result() for one in coming] == [None] * 20
    assert len(starts.read_text().splitlines()) == 1


def test_side_processes_start_where_the_import_path_holds_other_objects(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: SideProcesses
) -> None:
    odd: list[Any] = [tmp_path, b"bytes"]
    monkeypatch.setattr("sys.path", [*odd, *sys.path])
    assert processes.begin("pickle:loads", b"later").result() == b"later"


def test_all_processes_end_with_the_block() -> None:
    with SideProcesses() as processes:
        pids = {_pid(processes) for _ in range(4)}
        for _ in range(50):
            processes.begin(f"{__name__}:doze", b"")
    threads = [thread.name for thread in threading.enumerate()]
    assert not any(name.startswith("autosched-work") for name in threads)
    assert not any(map(_runs, pids))


def _pid(processes: SideProcesses) -> int:
    found = processes.begin(f"{__name__}:own_pid", b"").result()
    assert found is not None
    return int(found)


def doze(_: bytes) -> bytes:
    time.sleep(0.2)
    return b""


def own_pid(_: bytes) -> bytes:
    return str(os.getpid()).encode()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("executable", ["/no/such/python", "/bin/true", None])
def test_a_machine_without_room_for_processes_compiles_as_well(
    monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    """What cannot be started is done here."""
    monkeypatch.setattr(side_processes, "usable_cpus", lambda: 2)
    monkeypatch.setattr(side_processes, "_WORTH_S", 0.0)
    monkeypatch.setattr("sys.executable", executable)
    data = np.random.default_rng(1).standard_normal((1, CHANNELS[0], 12, 12), np.float32)
    module = asd.compile(branches(), target=TARGET)
    result = module.run({"image": data})["result"]
    assert result.shape == (1, sum(CHANNELS[1:]) + CHANNELS[-1], 12, 12)
    assert np.isfinite(result).all()
