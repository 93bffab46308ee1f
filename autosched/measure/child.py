"""A child process as a service: calls with a time limit, and a new process after a crash."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from autosched.measure.channel import Channel
from autosched.measure.errors import ChildDiedError, ChildTimeoutError
from autosched.measure.zygote import Zygote

T = TypeVar("T")


def serve(channel: Channel, methods: Mapping[str, Callable[..., Any]]) -> None:
    """The child's loop: ``(method, *arguments)`` in, the method's result out, until EOF."""
    while True:
        method, *arguments = channel.receive()
        channel.send(methods[method](*arguments))


class Child:
    """One child of the zygote, forked on the first call and again after it died.

    What was sent with ``define`` is lost with a process; ``define`` sends it again when needed.
    """

    def __init__(self, zygote: Zygote, role: str, setup: Any) -> None:
        self._zygote, self._role, self._setup = zygote, role, setup
        self._pid = 0
        self._channel: Channel | None = None
        self._defined: set[tuple[str, str]] = set()
        self.calls = 0  # of the present process, definitions not counted

    def define(
        self, method: str, key: str, *arguments: Any, timeout_s: float, forgets: Sequence[str] = ()
    ) -> None:
        """Call ``method(*arguments)`` unless the present process has had it under this ``key``.

        Args:
            method: of the child.
            key: stands for the arguments.
            timeout_s: longest wait, in seconds.
            forgets: methods: the child forgets what it had of them under other keys.
            arguments: sent when the child does not have them.
        """
        if (method, key) in self._defined:
            return
        self._defined = {pair for pair in self._defined if pair[0] not in forgets}
        self._request((method, *arguments), timeout_s)
        self._defined.add((method, key))

    def call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """The result of ``method(*arguments)`` in the child.

        Raises:
            ChildDiedError: the process crashed; the next call gets a new one.
            ChildTimeoutError: no answer in time; it was killed.
        """
        self.calls += 1
        return self.ask(method, *arguments, timeout_s=timeout_s)

    def ask(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        """``call`` that does not count as one."""
        return self._request((method, *arguments), timeout_s)

    def _request(self, message: tuple[Any, ...], timeout_s: float) -> Any:
        if self._channel is None:
            self._pid, self._channel = self._zygote.fork(self._role, self._setup)
        try:
            self._channel.send(message)
            return self._channel.receive(timeout_s)
        except TimeoutError as error:
            self.kill()
            raise ChildTimeoutError(timeout_s) from error
        except (EOFError, BrokenPipeError, ConnectionError) as error:
            raise ChildDiedError(*self._bury()) from error
        except BaseException:  # Ctrl-C: the answer to this request must not meet the next one
            self.kill()
            raise

    def kill(self) -> None:
        """End the process now; the next call starts another."""
        if self._channel is not None:
            # Only the zygote reaps, and only when asked: the pid is still this child's.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._bury()

    def close(self) -> None:
        """Close our end of the channel: the process ended with its zygote, or will."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _bury(self) -> tuple[str, str]:
        self.close()
        self._defined.clear()
        self.calls = 0
        return self._zygote.reap(self._pid)


def again_when_killed(request: Callable[[], T]) -> T:
    """``request()``, once more when its child was killed from outside; then it may be to blame.

    Raises:
        ChildDiedError, ChildTimeoutError: as ``Child.call``.
    """
    try:
        return request()
    except ChildDiedError as error:
        if not error.from_outside:
            raise
    return request()
