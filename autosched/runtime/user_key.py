"""The key of this user on this machine, which tells modules that were saved here from others.

32 random bytes in a file that only its owner may read.  It is made when the first module is saved.
Whoever can read the key could run code as this user anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

_KEY_BYTES: Final = 32
_FOLDER: Final = ".local/share/autosched"
_FILE: Final = "module.key"
_PURPOSE: Final = b"autosched module\0"


def key_file() -> Path | None:
    """Where the key is, or would be; None for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    # An empty HOME would be whatever folder the process is in: anybody's.
    return home / _FOLDER / _FILE if home.is_absolute() else None


def signature(content: bytes, create: bool = False) -> str | None:
    """What only this user on this machine can write under ``content``: HMAC-SHA256 as text.

    None where there is no key: none was made yet, it cannot be stored, or others may read it.
    ``create``: make one where there is none.
    """
    key = _read_key()
    if key is None and create:
        _make_key()
        key = _read_key()
    return None if key is None else hmac.new(key, _PURPOSE + content, hashlib.sha256).hexdigest()


def is_signed(content: bytes, found: str | None) -> bool:
    """Whether ``found`` is the signature of ``content``."""
    expected = signature(content)
    if expected is None or found is None:
        return False
    return hmac.compare_digest(expected.encode(), found.encode())


def _read_key() -> bytes | None:
    path = key_file()
    if path is None:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            state = os.fstat(stream.fileno())
            key = stream.read(_KEY_BYTES + 1) if stat.S_ISREG(state.st_mode) else b""
    except OSError:
        return None
    private = state.st_uid == os.getuid() and not state.st_mode & 0o077
    return key if private and len(key) == _KEY_BYTES else None


def _make_key() -> None:
    """Write a key; of several processes that try, one does."""
    path = key_file()
    if path is None:
        return
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(partial, flags, 0o600), "wb") as stream:
                stream.write(secrets.token_bytes(_KEY_BYTES))
            os.link(partial, path)  # fails where another process was first
        finally:
            partial.unlink(missing_ok=True)
