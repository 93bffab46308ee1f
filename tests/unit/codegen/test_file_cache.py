"""Files that several processes keep for each other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codegen.file_cache import FileCache

ROOT = Path(__file__).parents[3]


def test_the_files_used_longest_ago_go_once_the_cache_is_full(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, most_bytes=100, look_every=4)
    for number in range(3):
        path = cache.file(str(number), lambda path: path.write_bytes(bytes(30)))
        os.utime(path, (number, number))
    assert cache.find("0") == tmp_path / "0"
    assert cache.find("3") is None
    cache.file("3", lambda path: path.write_bytes(bytes(15)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3"]
    cache.drop("0")
    cache.drop("0")
    assert cache.find("0") is None


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, look_every=1)
    for name, age in (("killed", 2 * 3600), ("writing", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_bytes(b"x")
        then = time.time() - age
        os.utime(tmp_path / name, (then, then))
    cache.file("whole", lambda path: path.write_bytes(b"xx"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["whole", "writing"]


def test_a_cache_of_one_process_ends_with_it_and_not_with_its_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "file"
    home.write_text("")
    script = (
        "import os, tempfile\nfrom codegen.file_cache import user_cache\n"
        f"tempfile.tempdir = {str(tmp_path)!r}\nfolder = user_cache('x').folder\n"
        "child = os.fork()\n"
        "if child:\n    os.waitpid(child, 0)\n    print(folder.parent, folder.exists())\n"
    )
    monkeypatch.setenv("HOME", str(home))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", f"{tmp_path} True\n")
    assert list(tmp_path.iterdir()) == [home]
