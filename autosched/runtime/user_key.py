"""The key of this user on this machine, which tells modules that were saved here from others.

32 random bytes in a file that only its owner may read.  It is made when the first module is saved.
Whoever can read the key could run code as this user anyway.  Where no such file can be kept, a
process signs with a key of its own: no other process knows what it saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final, NamedTuple

_KEY_BYTES: Final = 32
_FOLDER: Final = ".local/share/autosched"
_FILE: Final = "module.key"
_PURPOSE: Final = b"autosched module\0"
# Of this process, and of those that it forks.
_UNKEPT: Final = secrets.token_bytes(_KEY_BYTES)


class KeySignature(NamedTuple):
    """What only this user on this machine, or only this process, can write under a content.

    Attributes:
        text: HMAC-SHA256.
        unkept: why its key is that of this process, and not that of the user; "" where it is.
    """

    text: str
    unkept: str


def key_file() -> Path | None:
    """Where the key is, or would be; None for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    # An empty HOME would be whatever folder the process is in: anybody's.
    return home / _FOLDER / _FILE if home.is_absolute() else None


def signature(content: bytes) -> KeySignature:
    """The signature of ``content``; makes the user's key where there is none."""
    key, unkept = _key()
    return KeySignature(_signed(key, content), unkept)


def unkept_reason() -> str:
    """Why no key of this user can be kept; "" if one can.  Makes it where there is none."""
    return _key()[1]


def is_signed(content: bytes, found: str | None) -> bool:
    """Whether ``found`` is the signature of ``content`` by this user, or by this process."""
    keys = [_UNKEPT]
    with contextlib.suppress(OSError):
        keys.append(_read_key())
    given = (found or "").encode()
    return any(hmac.compare_digest(_signed(key, content).encode(), given) for key in keys)


def _key() -> tuple[bytes, str]:
    """The user's key, or that of this process with the reason."""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(), ""
        _make_key()
        return _read_key(), ""
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _UNKEPT, f"{where}{error.strerror or error}"


def _signed(key: bytes, content: bytes) -> str:
    return hmac.new(key, _PURPOSE + content, hashlib.sha256).hexdigest()


def _place() -> Path:
    path = key_file()
    if path is None:
        raise OSError("this user has no home folder")
    return path


def _read_key() -> bytes:
    """The key; raises OSError where there is none that only this user may read."""
    path = _place()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
        state = os.fstat(stream.fileno())
        key = stream.read(_KEY_BYTES + 1) if stat.S_ISREG(state.st_mode) else b""
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise OSError(f"{path}: others may read it, or it is theirs")
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path}: it is no key")
    return key


def _make_key() -> None:
    """Write a key; of several processes that try, one does.  Raises OSError where none can."""
    path = _place()
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(partial, flags, 0o600), "wb") as stream:
            stream.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
