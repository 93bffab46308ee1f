"""Graphs of torch.compile that are tuned while they run."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.runtime.module import Module
from autosched.system.errors import TuningError
from autosched.torch_frontend import background
from autosched.torch_frontend.background import BackgroundTuning, in_child
from autosched.torch_frontend.compiled_graph import CompiledGraph
from autosched.torch_frontend.options import BackendOptions
from autosched.torch_frontend.tuning_child import MODULE
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
OPTIONS = BackendOptions(tune="background", trials=2, effort="none")
LONGEST_S = 60.0
ROOT = Path(asd.__file__).parent.parent


def network(function: str) -> Network:
    net = GraphBuilder(function)
    x = net.input(Value("x", (4, 16)))
    return Network(function, net.finish({"y": net.add(UnaryOp(function), (x,))}))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module that computes what the graph of the tests computes."""
    path = tmp_path_factory.mktemp("module") / MODULE
    asd.compile(network("relu"), effort="none").save(path)
    return path


def wait_for(tuning: BackgroundTuning) -> Module:
    end = time.monotonic() + LONGEST_S
    while (module := tuning.take()) is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    return module


def graph() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda x: (torch.relu(x),), tracing_mode="fake")(torch.ones(4, 16))


@pytest.mark.parametrize("right", [True, False])
def test_tuned_kernels_are_used_once_they_are_there(
    right: bool,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ready, used, tunings = Event(), [], []

    def tuner(_: Network, options: BackendOptions, folder: Path) -> None:
        assert options == OPTIONS
        assert ready.wait(LONGEST_S)
        shutil.copy(file, folder)

    def compiled(*_: Any) -> Any:
        tunings.append(BackgroundTuning(network("relu"), OPTIONS, "graph", tuner))
        return first, tunings[0]

    run = CompiledGraph._run

    def noted(self: Any, module: Module, *args: Any) -> Any:
        used.append(module)
        results = run(self, module, *args)
        return results if right or module is first else tuple(y + 1 for y in results)

    first = asd.load(file)
    monkeypatch.setattr(CompiledGraph, "_compiled", compiled)
    monkeypatch.setattr(CompiledGraph, "_run", noted)
    ours = CompiledGraph(graph(), frozenset(), replace(OPTIONS, cache=tmp_path / "cache"), "0/0")
    x = torch.randn(4, 16)
    with caplog.at_level(logging.INFO, "autosched.torch"):
        for call in range(4):
            torch.testing.assert_close(ours(x), (torch.relu(x),))
            if call == 1:
                ready.set()
                tuned = wait_for(tunings[0])
    assert used == [first, first, first, tuned, tuned if right else first]
    message = "used from now on" if right else "not used: output 0 is not what torch computes"
    assert message in caplog.text
    assert (tmp_path / "cache").exists() == right


@pytest.mark.parametrize(
    ("error", "message"),
    [(TuningError("nothing runs"), "nothing runs"), (KeyError("x"), "KeyError: 'x'")],
)
def test_a_tuning_that_fails_is_said_and_the_next_one_begins(
    error: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    def tuner(network: Network, options: BackendOptions, folder: Path) -> None:
        raise error

    done = Event()
    with caplog.at_level(logging.WARNING, "autosched.torch"):
        failed = BackgroundTuning(network("relu"), OPTIONS, "graph 0/0", tuner)
        BackgroundTuning(network("relu"), OPTIONS, "", lambda *_: done.set())
        assert done.wait(LONGEST_S)
    assert failed.take() is None
    assert f"graph 0/0 is not tuned in the background: {message}" in caplog.text


def test_a_forked_process_tunes_too() -> None:
    done = Event()
    BackgroundTuning(network("relu"), OPTIONS, "", lambda *_: done.set())
    assert done.wait(LONGEST_S)
    child = os.fork()
    if child == 0:
        own = Event()
        BackgroundTuning(network("relu"), OPTIONS, "", lambda *_: own.set())
        os._exit(0 if own.wait(LONGEST_S) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_that_fails_is_said(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(TuningError, match=r"log\.jsonl"):
        in_child(network("relu"), OPTIONS, tmp_path)


def test_a_child_that_ends_before_it_has_read_all_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys; sys.stdin.close(); sys.exit('no room')"
    monkeypatch.setattr(background, "_CHILD", (sys.executable, "-c", program))
    net = GraphBuilder("wide")
    weight = net.constant("w", np.zeros((4, 1 << 18), np.float32))
    result = net.add(BinaryOp("add"), (net.input(Value("x", (4, 1 << 18))), weight))
    with pytest.raises(TuningError, match="no room"):
        in_child(Network("wide", net.finish({"y": result})), OPTIONS, tmp_path)


ENDLESS = """
import pickle, sys
_, _, folder = pickle.load(sys.stdin.buffer)
while True:
    folder.mkdir(exist_ok=True)
    (folder / "log").write_text("")
"""
ENDED_WHILE_IT_TUNES = f"""
import sys, tempfile, time
from pathlib import Path
from autosched.torch_frontend import background

tempfile.tempdir = sys.argv[1]
background._CHILD = (sys.executable, "-c", {ENDLESS!r})
background.BackgroundTuning(None, None, "graph")
while not list(Path(sys.argv[1]).glob("*/log")):
    time.sleep(0.005)
"""


def test_a_process_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDED_WHILE_IT_TUNES, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


@pytest.mark.slow
def test_a_child_tunes(tmp_path: Path) -> None:
    in_child(network("tanh"), replace(OPTIONS, log=tmp_path / "mine.jsonl"), tmp_path)
    module = asd.load(tmp_path / MODULE)
    assert not module.untuned
    assert len((tmp_path / "mine.jsonl").read_text().splitlines()) >= 2
