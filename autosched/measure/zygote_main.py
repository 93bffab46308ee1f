"""The zygote: a clean process that all measuring children are forked from.

It has imported what the children need (NumPy, llvmlite, our code generator), has one thread and
never runs an OpenMP region: a child of a process that did would hang in its first one.

Run as ``python -m autosched.measure.zygote_main FD`` with FD one end of a Unix socket pair.
Requests: ("fork", role, setup) -> (pid, socket); ("reap", pid) -> (wait status, end of its output).
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from autosched.measure.builder import serve_builder, serve_work
from autosched.measure.channel import Channel
from autosched.measure.cpu_worker import serve_timing


def _serve_gpu_timing(channel: Channel, setup: Any) -> None:
    """Loads what drives a GPU where it is needed: on a CPU nothing is."""
    from autosched.measure.gpu_worker import serve_gpu_timing

    serve_gpu_timing(channel, setup)


ROLES: Final[Mapping[str, Callable[[Channel, Any], None]]] = {
    "build": serve_builder,
    "work": serve_work,
    "time-cpu": serve_timing,
    "time-gpu": _serve_gpu_timing,
}
FORBIDDEN: Final = ("lightgbm", "sklearn", "torch")
_PR_SET_PDEATHSIG: Final = 1
_OUTPUT_TAIL: Final = 2000
_REAP_S: Final = 2.0


class ZygoteServer:
    """Serves the control channel; ``outputs`` holds each child's captured stdout and stderr."""

    def __init__(self, control: Channel) -> None:
        self.control = control
        self.outputs: dict[int, int] = {}

    def serve(self) -> None:
        """Answer requests until the tuner goes away."""
        while True:
            try:
                request, *arguments = self.control.receive()
            except EOFError:
                return
            if request == "fork":
                self.fork(*arguments)
            else:
                self.control.send(self.reap(*arguments))

    def fork(self, role: str, setup: Any) -> None:
        """Fork a child and hand its socket to the tuner."""
        theirs, ours = socket.socketpair()
        output = os.memfd_create(f"autosched-{role}")
        pid = os.fork()
        if pid == 0:
            theirs.close()
            self.control.close()
            run_child(ROLES[role], Channel(ours), setup, output)
        ours.close()
        self.outputs[pid] = output
        self.control.send(pid)
        socket.send_fds(self.control.socket, [b"s"], [theirs.fileno()])
        theirs.close()

    def reap(self, pid: int) -> tuple[int, str]:
        """Wait status of an ending child (killed when it does not end) and what it printed last."""
        if pid not in self.outputs:  # of a zygote before this one, killed with it
            return signal.SIGKILL, ""
        deadline = time.monotonic() + _REAP_S
        while (waited := os.waitpid(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        output = self.outputs.pop(pid)
        size = os.fstat(output).st_size
        tail = os.pread(output, _OUTPUT_TAIL, max(0, size - _OUTPUT_TAIL))
        os.close(output)
        return waited[1], tail.decode(errors="replace").strip()

    def kill_all(self) -> None:
        """End every child that is left, and leave no zombie to whoever inherits them."""
        for pid in self.outputs:
            os.kill(pid, signal.SIGKILL)
        for pid in self.outputs:
            os.waitpid(pid, 0)


def run_child(
    serve: Callable[[Channel, Any], None], channel: Channel, setup: Any, output: int
) -> None:
    """The life of a forked child; never returns.

    Args:
        serve: answers requests until the channel closes.
        channel: to the parent.
        setup: given to ``serve``.
        output: file descriptor that the kernel's output goes to.
    """
    status = 1
    try:
        # Should the zygote die, its children must not stay behind.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(output, 1)
        os.dup2(output, 2)
        serve(channel, setup)
        status = 0
    except EOFError:  # the tuner closed the channel
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def main() -> None:
    """Say that the imports worked, then serve."""
    control = Channel(socket.socket(fileno=int(sys.argv[1])))
    loaded = [name for name in FORBIDDEN if name in sys.modules]
    if loaded:
        sys.exit(f"the zygote has imported {', '.join(loaded)}, which may start OpenMP threads")
    gc.freeze()  # children need not look at what all of them have imported
    control.send("ready")
    zygote = ZygoteServer(control)
    try:
        zygote.serve()
    finally:
        zygote.kill_all()


if __name__ == "__main__":
    main()
