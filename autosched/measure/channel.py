"""Pickled messages over a connected Unix stream socket."""

from __future__ import annotations

import pickle
import socket
import struct
import time
from typing import Any, Final

_HEADER: Final = struct.Struct("<Q")
_CHUNK: Final = 1 << 20


class Channel:
    """One end of a socket pair.  A message is a length (8 bytes) and a pickle."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @property
    def socket(self) -> socket.socket:
        return self._sock

    def send(self, message: Any) -> None:
        """Send one message.  Raises BrokenPipeError when the other end is gone."""
        data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._sock.settimeout(None)
        self._sock.sendall(_HEADER.pack(len(data)) + data)

    def receive(self, timeout_s: float | None = None) -> Any:
        """Wait for one message.

        Raises:
            EOFError: the other end was closed, or its process died.
            TimeoutError: no complete message within ``timeout_s`` seconds.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        (length,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
        return pickle.loads(self._read(length, deadline))

    def _read(self, count: int, deadline: float | None) -> bytes:
        parts: list[bytes] = []
        while count:
            self._sock.settimeout(_remaining(deadline))
            try:
                part = self._sock.recv(min(count, _CHUNK))
            except ConnectionError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close this end; the other one then reads EOF."""
        self._sock.close()


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise TimeoutError
    return rest
