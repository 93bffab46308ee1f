"""The tuner's side of the zygote: starting it, and asking it for child processes."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, Final

from autosched.measure.channel import Channel
from autosched.measure.errors import MeasureError

_START_S: Final = 60.0
_FORK_S: Final = 10.0
# A zygote that is killed was killed from outside, by the OOM killer, say: that may pass.  One that
# ends by itself will do so again.  What a loss takes of the patience with one request:
_PATIENCE: Final = 8
_KILLED, _ENDED = 1, 4
_TAIL_BYTES: Final = 2000
_FIRST_FREE: Final = 3  # file descriptor that is no standard stream
_PAUSE_S: Final = 0.05  # before the next attempt, doubled with each


def clean_environment() -> dict[str, str]:
    """The environment of the zygote: our import path, one BLAS thread."""
    # Imports pass over what is no text, such as a Path that somebody put there.
    entries = [entry for entry in sys.path if isinstance(entry, str)]
    path = os.pathsep.join(entry or os.getcwd() for entry in entries)
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OPENBLAS_NUM_THREADS": "1",  # a process that forks must have one thread
    }


class Zygote:
    """A clean process that forks children; started by ``begin`` or on first use, and again whenever
    it dies.

    Thread-safe.

    Args:
        once: it is not started again.
    """

    def __init__(self, once: bool = False) -> None:
        self._once, self._begun = once, False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: Channel | None = None
        self._output: IO[bytes] | None = None
        self._closed = self._ready = False

    def begin(self) -> None:
        """Start it, but do not wait: it loads its modules while something else is done.

        Whatever goes wrong shows when the first child is asked for.
        """
        with self._lock:
            if self._control is not None or self._closed:
                return
            try:
                self._launch()
            except BaseException as error:
                self._stop()
                if not isinstance(error, OSError):
                    raise

    def fork(self, role: str, setup: Any) -> tuple[int, Channel]:
        """A new child that plays ``role`` ("build", ...): its pid and our end of its channel.

        The zygote may die at any moment, also while it starts: another one is started.

        Raises:
            MeasureError: it dies again and again, or is closed, or has died and starts once.
        """
        with self._lock:
            patience, pause_s = _PATIENCE, _PAUSE_S
            while True:
                try:
                    return self._fork(role, setup)
                except (EOFError, OSError) as error:
                    cause, output = self._end_lost(error)
                    patience -= _KILLED if cause.startswith("SIG") else _ENDED
                    if patience <= 0:
                        raise _not_starting(cause, output) from error
                except BaseException:  # Ctrl-C: its answer must not meet the next request
                    self._stop()
                    raise
                time.sleep(pause_s)
                pause_s *= 2

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
        """How a child ended, ``SIGSEGV`` or ``exit status 1``, and the end of what it printed.

        The children of a zygote that died were killed with it.
        """
        with self._lock:
            if self._control is None:
                return signal.SIGKILL.name, ""
            try:
                self._control.send(("reap", pid))
                status, output = self._control.receive(_FORK_S)
            except (EOFError, OSError):
                self._stop()
                return signal.SIGKILL.name, ""
            except BaseException:
                self._stop()
                raise
        return describe_status(status), output

    def _started(self) -> Channel:
        if self._closed:
            raise MeasureError("the measuring processes were ended")
        if self._control is None and self._once and self._begun:
            raise MeasureError("the measuring process died, and is not started again")
        control = self._launch() if self._control is None else self._control
        if not self._ready:
            control.receive(_START_S)
            self._ready = True
        return control

    def _launch(self) -> Channel:
        self._begun = True
        ours, theirs = socket.socketpair()
        control = self._control = Channel(ours)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by _stop)
        with theirs:
            # Where standard streams are closed, its number may be that of one of the process.
            fd = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        try:
            self._process = self._spawn(fd, self._output)
        finally:
            os.close(fd)
        return control

    def _spawn(self, fd: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable or "", "-P", "-m", "autosched.measure.zygote_main", str(fd)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[fd],
            env=clean_environment(),
            start_new_session=True,  # Ctrl-C is for the tuner, which then ends the children
        )

    def _end_lost(self, error: EOFError | OSError) -> tuple[str, str]:
        """End what is left of the zygote: why it was lost, and the end of what it printed."""
        process, output = self._process, b""
        if self._output is not None:
            self._output.seek(0)
            output = self._output.read()[-_TAIL_BYTES:]
        self._stop()
        if isinstance(error, TimeoutError):
            cause = "no answer in time"
        elif process is None:
            cause = str(error)
        elif process.returncode < 0:
            cause = signal.Signals(-process.returncode).name
        else:
            cause = f"exit status {process.returncode}"
        return cause, output.decode(errors="replace").strip()

    def _stop(self) -> None:
        self._ready = False
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
        if self._output is not None:
            self._output.close()
            self._output = None

    def close(self) -> None:
        """End the zygote, and with it all its children; who waits for its start gets an error."""
        self._closed = True
        self._kill_starting()  # whoever waits for it holds the lock
        with self._lock:
            self._kill_starting()
            self._stop()

    def _kill_starting(self) -> None:
        """End a zygote that has no children yet."""
        process = self._process
        if process is not None and not self._ready:
            process.kill()


def describe_status(status: int) -> str:
    """A wait status in words: the signal's name, or the exit status."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.waitstatus_to_exitcode(status)}"


def _not_starting(cause: str, output: str) -> MeasureError:
    killed = cause.startswith("SIG")
    return MeasureError(
        f"the measuring process could not start: {cause}{', again and again' if killed else ''}",
        " ".join(output.split()),
        "something ends it from outside: see the memory limit of this machine or container, "
        "and its kernel log"
        if killed
        else "",
    )
