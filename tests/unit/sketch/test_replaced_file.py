"""Files that are replaced as a whole, by several threads, under any name."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from sketch.replaced_file import check_replaceable, replaced_file, whole_output


def test_threads_that_replace_one_file(tmp_path: Path) -> None:
    path, errors = tmp_path / "file", list[Exception]()
    meet = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            for _ in range(20):
                meet.wait()
                with replaced_file(path) as partial:
                    partial.write_text(str(number) * 100)
                    meet.wait()
                assert set(path.read_text()) <= set("0123") and len(path.read_text()) == 100
        except Exception as error:
            errors.append(error)
            meet.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert list(tmp_path.iterdir()) == [path]


def test_the_longest_name_there_is(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    with replaced_file(path) as partial:
        partial.write_text("text")
    assert path.read_text() == "text" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_can_be_no_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"), replaced_file(tmp_path / name):
        pytest.fail("there is no such file")
    with pytest.raises(OSError, match="Invalid argument"), whole_output(tmp_path / name):
        pytest.fail("there is no such file")


def test_a_pipe_stays_one(tmp_path: Path) -> None:
    """And so does a device: a user that may do it would replace /dev/null."""
    path, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(path)
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(OSError, match="no file to replace"), replaced_file(name):
            pytest.fail("it is no file")
        with pytest.raises(OSError, match="no file to replace"):
            check_replaceable(name)
    assert path.is_fifo() and link.is_symlink()


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    for mode in (0o664, 0o600):
        path.chmod(mode)
        with replaced_file(path) as partial:
            partial.write_text("new")
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one(tmp_path: Path, there: bool) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    if there:
        (folder / "file").write_text("old")
    link.symlink_to(folder / "file")
    check_replaceable(link)
    with replaced_file(link) as partial:
        assert partial.parent == folder
        partial.write_text("new")
    assert link.is_symlink() and (folder / "file").read_text() == "new"
    assert list(folder.iterdir()) == [folder / "file"]


def test_an_output_is_written_whole_or_to_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), whole_output(path) as partial:
        partial.write_text("ne")
        raise OSError("the disk is full")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with whole_output(Path("/dev/null")) as device:
        assert device == Path("/dev/null")
    with pytest.raises(IsADirectoryError), whole_output(tmp_path) as folder:
        folder.write_text("new")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with whole_output(path) as same:
        assert same == path
