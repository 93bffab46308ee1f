"""The tuner's side of the zygote: starting it, and asking it for child processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any, Final

from autosched.measure.channel import Channel
from autosched.measure.errors import MeasureError
from autosched.measure.pinning import allowed_cpus, openmp_environment

_START_S: Final = 60.0
_FORK_S: Final = 10.0


def clean_environment() -> dict[str, str]:
    """The environment of the zygote: our import path, one BLAS thread, pinned OpenMP threads."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {
        **os.environ,
        **openmp_environment(allowed_cpus()),
        "PYTHONPATH": path,
        "OPENBLAS_NUM_THREADS": "1",  # a process that forks must have one thread
    }


class Zygote:
    """A clean process that forks children; started on first use, restarted if it dies.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Channel | None = None
        self._closed = False

    def fork(self, role: str, setup: Any) -> tuple[int, Channel]:
        """A new child that plays ``role`` ("build" or "time"): its pid and our end of its channel.

        Raises:
            MeasureError: the zygote cannot be started, or is closed.
        """
        with self._lock:
            try:
                return self._fork(role, setup)
            except (EOFError, OSError):  # it died since the last request
                self._stop()
                try:
                    return self._fork(role, setup)
                except (EOFError, OSError) as error:
                    raise MeasureError(
                        f"the measuring processes cannot be started: {error!r}"
                    ) from error

    def _fork(self, role: str, setup: Any) -> tuple[int, Channel]:
        control = self._started()
        control.send(("fork", role, setup))
        pid: int = control.receive(_FORK_S)
        control.socket.settimeout(_FORK_S)
        _, fds, _, _ = socket.recv_fds(control.socket, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not fds:
            raise EOFError
        return pid, Channel(socket.socket(fileno=fds[0]))

    def reap(self, pid: int) -> tuple[str, str]:
        """How a child ended, ``SIGSEGV`` or ``exit status 1``, and the end of what it printed."""
        with self._lock:
            if self._control is None:
                return "killed", ""
            try:
                self._control.send(("reap", pid))
                status, output = self._control.receive(_FORK_S)
            except (EOFError, OSError):
                self._stop()
                return "killed", ""
        return describe_status(status), output

    def _started(self) -> Channel:
        if self._closed:
            raise MeasureError("the measuring processes were ended")
        if self._control is None:
            ours, theirs = socket.socketpair()
            with tempfile.TemporaryFile() as errors, theirs:
                self._process = self._spawn(theirs.fileno(), errors)
                self._control = Channel(ours)
                theirs.close()
                self._await_ready(errors)
        return self._control

    def _spawn(self, fd: int, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "autosched.measure.zygote_main", str(fd)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=[fd],
            env=clean_environment(),
            start_new_session=True,  # Ctrl-C is for the tuner, which then ends the children
        )

    def _await_ready(self, errors: IO[bytes]) -> None:
        assert self._control is not None
        try:
            self._control.receive(_START_S)
        except (EOFError, OSError) as error:
            self._stop()
            errors.seek(0)
            output = errors.read()[-2000:].decode(errors="replace").strip()
            raise MeasureError("the measuring process could not start", output) from error

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the zygote, and with it all its children."""
        with self._lock:
            self._closed = True
            self._stop()


def describe_status(status: int) -> str:
    """A wait status in words: the signal's name, or the exit status."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"
