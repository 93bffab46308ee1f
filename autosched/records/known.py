"""What a log is known to have, so that an append looks only at what is new in the file.

A log only grows, so what was read once need not be read again.  Where the file was replaced,
truncated or altered, nothing of it is known: it is read from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from autosched.records.shared import Copies, headers_in
from autosched.records.title import titled_in

# The last line that was read must still be where it was; of a long one its end tells enough.
_MARK_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """What the first ``end`` bytes of a file say; they end a line.

    Attributes:
        file: device and inode.
        end: bytes.
        mark: the last of these bytes: a part of the last line, with its checksum.
        headers: how often each is there, by key.
        titled: keys of the tasks that have a title.
    """

    file: tuple[int, int] = (0, 0)
    end: int = 0
    mark: bytes = b""
    headers: Mapping[str, Copies] = field(default_factory=dict)
    titled: frozenset[str] = frozenset()

    def with_text(self, text: bytes) -> Known:
        """What is known with the bytes ``text`` after those known."""
        return Known(
            self.file,
            self.end + len(text),
            (self.mark + text)[-_MARK_BYTES:],
            headers_in(text, self.headers),
            self.titled | titled_in(text),
        )


def read_on(fd: int, before: Known) -> tuple[Known, bytes]:
    """What all whole lines of an open log say, and the bytes after them: of a torn line.

    Reads what was appended since ``before``, by whomever.
    """
    status = os.fstat(fd)
    file = status.st_dev, status.st_ino
    mark = os.pread(fd, len(before.mark), before.end - len(before.mark))
    if before.file != file or mark != before.mark:
        before = Known(file)
    text = os.pread(fd, max(0, status.st_size - before.end), before.end)
    whole = text.rfind(b"\n") + 1
    return before.with_text(text[:whole]), text[whole:]
