"""Graphs that are tuned in another process, of low priority, while their first code runs."""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched import api
from autosched.measure.zygote import clean_environment
from autosched.system.errors import TuningError
from autosched.torch_frontend.tuning_child import MODULE
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module
    from autosched.torch_frontend.options import BackendOptions

LOG: Final = logging.getLogger("autosched.torch")
_CHILD: Final = (sys.executable, "-P", "-m", "autosched.torch_frontend.tuning_child")
_LONGEST_END_S: Final = 5.0

Tuner = Callable[["Network", "BackendOptions", Path], None]
"""Writes the tuned module to a folder, as ``tuning_child.tune_and_save`` does."""


def in_child(network: Network, options: BackendOptions, folder: Path) -> None:
    """``tune_and_save`` in a process of its own.

    Raises:
        TuningError: it failed; says why.
    """
    output = folder / "output.txt"
    with output.open("wb") as stream:
        child = subprocess.Popen(
            _CHILD,
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            env=clean_environment(),
            start_new_session=True,  # Ctrl-C is for this process
        )
    assert child.stdin is not None
    ended = threading.Event()
    end = partial(_end, child, ended, os.getpid())
    atexit.register(end)  # before the folder is removed, which the child would make anew
    try:
        with child.stdin:  # its end would end the child
            pickle.dump((network, options, folder), child.stdin)
            child.stdin.flush()
            status = child.wait()
    except BrokenPipeError:  # it ended before it had read all, and says why
        status = child.wait()
    finally:
        atexit.unregister(end)
    if ended.is_set():
        sys.exit()  # of this thread
    if status:
        lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        raise TuningError(said[-1] if said else f"the process ended with {status}")


def _end(child: subprocess.Popen[bytes], ended: threading.Event, process: int) -> None:
    """At the end of ``process``, end its child, which another thread waits for."""
    if os.getpid() != process:  # a fork of it
        return
    ended.set()
    child.kill()
    limit = time.monotonic() + _LONGEST_END_S
    while child.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)


def _wait(over: threading.Event, process: int) -> None:
    """At the end of ``process``, let a thread remove its folder: it would stop in the middle."""
    if os.getpid() == process:  # and no fork of it
        over.wait(_LONGEST_END_S)


class BackgroundTuning:
    """A graph that is being tuned; one after the other, for they would disturb each other's times.

    Args:
        network: of the graph.
        options: of the compilation.
        name: of the graph, for people.
        tuner: does the work.
    """

    def __init__(
        self, network: Network, options: BackendOptions, name: str, tuner: Tuner = in_child
    ) -> None:
        self._module: Module | None = None
        self._name = name
        _jobs().put(lambda: self._tune(network, options, tuner))

    def take(self) -> Module | None:
        """The tuned module, once it is there; takes no time."""
        return self._module

    def _tune(self, network: Network, options: BackendOptions, tuner: Tuner) -> None:
        over = threading.Event()
        wait = partial(_wait, over, os.getpid())
        atexit.register(wait)
        try:
            with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
                tuner(network, options, Path(folder))
                # Nobody else may write to that folder.
                self._module = api.load(Path(folder) / MODULE, trusted=True)
        except Exception as error:  # the graph has its first code, and others wait to be tuned
            known = isinstance(error, AutoschedError | OSError)
            why = str(error) if known else f"{type(error).__name__}: {error}"
            LOG.warning("%s is not tuned in the background: %s", self._name, why)
        finally:
            over.set()
            atexit.unregister(wait)


@cache
def _jobs() -> queue.SimpleQueue[Callable[[], None]]:
    """The work of one thread that ends with the process."""
    jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            jobs.get()()

    threading.Thread(target=work, daemon=True, name="autosched-background").start()
    return jobs


# A forked child has no such thread: it makes one of its own.
os.register_at_fork(after_in_child=_jobs.cache_clear)
