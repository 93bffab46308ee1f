"""Compiled code on disk, found by its contents' hash and shared by all processes of a user."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(".cache") / "autosched"
# A cubin or a library has tens of kilobytes: some ten thousand candidates.
_MOST_BYTES: Final = 512 << 20
# A folder that is being written to is younger.
_ABANDONED_S: Final = 3600.0


@dataclass(slots=True)
class FileCache:
    """Files in one folder that are written once, whole, and read often.

    Attributes:
        folder: made when it is first written to.
        most_bytes: what the files may have together.
        look_every: files after whose writing that is checked: it takes milliseconds.
        written: files that this process wrote.
    """

    folder: Path
    most_bytes: int = _MOST_BYTES
    look_every: int = 256
    written: int = 0

    def file(self, name: str, write: Callable[[Path], object]) -> Path:
        """The file of that name; ``write`` makes it, at another path first, where there is none.

        Raises:
            OSError: the folder cannot be written to.
        """
        found = self.find(name)
        if found is not None:
            return found
        path = self.folder / name
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            made = Path(own) / name
            write(made)
            os.replace(made, path)
        self.written += 1
        if self.written % self.look_every == 0:
            self._make_room()
        return path

    def find(self, name: str) -> Path | None:
        """The file of that name, which counts as used now; None where there is none."""
        path = self.folder / name
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError:  # a folder that may only be read, or not even that
            return path if os.path.exists(path) else None
        return path

    def drop(self, name: str) -> None:
        """Remove a file that is of no use."""
        with suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Once there is too much, remove half, what was used longest ago first."""
        self._remove_abandoned()
        files = []
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # another process removes files, too
                if entry.is_file():
                    files.append((entry.stat(), entry.path))
        total = sum(stat.st_size for stat, _ in files)
        excess = total - self.most_bytes // 2 if total > self.most_bytes else 0
        for stat, path in sorted(files, key=lambda pair: pair[0].st_mtime):
            if excess <= 0:
                return
            with suppress(OSError):  # another process was faster
                os.unlink(path)
            excess -= stat.st_size

    def _remove_abandoned(self) -> None:
        """Processes that were killed while they wrote leave folders."""
        before = time.time() - _ABANDONED_S
        for entry in os.scandir(self.folder):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < before:
                    shutil.rmtree(entry.path, ignore_errors=True)


def user_folder(name: str) -> Path:
    """Where files of one sort are kept for the user; it need not exist.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path.home() / _FOLDER / name


@lru_cache(maxsize=8)
def user_cache(name: str) -> FileCache:
    """The user's cache of one sort of files; of this process alone where there is no home."""
    try:
        folder = user_folder(name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return FileCache(folder)
    except (OSError, RuntimeError):
        pass
    own = Path(tempfile.mkdtemp(prefix=f"autosched-{name}-"))
    atexit.register(_remove_own, own, os.getpid())
    return FileCache(own)


def _remove_own(folder: Path, process: int) -> None:
    """Remove the folder of a process when it ends, not when a forked child of it does."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
