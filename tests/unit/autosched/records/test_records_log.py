import json
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import pytest

from autosched.measure.result import Timing
from autosched.records.checksum import with_checksum
from autosched.records.errors import RecordError
from autosched.records.log import UNSAVED, RecordLog
from autosched.records.record import NewerSchemaError, Record, to_json
from sketch.target.target import Target

RECORD = Record("task", Target("cpu", "generic"), "direct", (), {"a": 1}, Timing((1.0,)))


USES = (RecordLog.read, RecordLog.check_writable, lambda log: log.append([RECORD]))


def numbered(count, start=0):
    return [replace(RECORD, seed=start + n) for n in range(count)]


def seeds_in(log):
    return [record.seed for record in log.read().records]


def test_appended_batches_are_read_in_order(tmp_path):
    log = RecordLog(tmp_path / "new" / "directory" / "log.jsonl")
    log.append(numbered(2))
    log.append([])
    log.append(numbered(1, start=2))
    assert log.read().records == tuple(numbered(3))
    assert log.read().warnings == ()


def test_a_log_that_does_not_exist_is_empty(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    assert log.read().records == ()
    assert not log.path.exists()


def test_a_torn_last_line_is_tolerated_and_ended_by_the_next_append(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(2))
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20])
    found = log.read()
    assert [r.seed for r in found.records] == [0]
    assert found.warnings == (f"{log.path}:4: skipped: the last line is torn (its writer died)",)
    log.append(numbered(2, start=2))
    assert seeds_in(log) == [0, 2, 3]
    assert f"{log.path}:4: skipped: no JSON" in log.read().warnings[0]


def test_a_whole_last_line_without_newline_counts(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(2))
    log.path.write_bytes(log.path.read_bytes()[:-1])
    assert seeds_in(log) == [0, 1]
    log.append(numbered(1, start=2))
    assert seeds_in(log) == [0, 1, 2]


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"{half a line", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[1, 2]", "must be a JSON object"),
        (b'{"v": 1}', "'task' is missing"),
        (b'{"v": 1, "task": "t", "target": 3}', "not a target|wrong value"),
        (b'{"v": 1, "time": NaN}', "NaN is no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"v": 2, "v": 2}', "'v' is given twice"),
        (b'{"v": 1, "seed": 1' + b"0" * 5000 + b"}", "no JSON"),
        (b'{"v": 1, "task": "' + b"x" * (1 << 22) + b'"}', "are no record"),
        (b'{"v":' * 5000 + b"1" + b"}" * 5000, "no JSON"),
    ],
)
def test_a_corrupt_line_is_skipped_with_file_and_number(tmp_path, line, reason):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(1))
    with log.path.open("ab") as file:
        file.write(line + b"\n\n")
    log.append(numbered(1, start=1))
    assert seeds_in(log) == [0, 1]
    (warning,) = log.read().warnings
    assert warning.startswith(f"{log.path}:4: skipped: ")
    assert any(part in warning for part in reason.split("|"))


def test_a_newer_schema_stops_reading_by_name(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(1))
    with log.path.open("a") as file:
        file.write(json.dumps(with_checksum(to_json(RECORD) | {"v": 6})) + "\n")
    with pytest.raises(NewerSchemaError, match=r"schema 6 is newer .*log\.jsonl:4"):
        log.read()


def test_checking_leaves_no_trace(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.check_writable()
    assert log.path.read_bytes() == b""
    log.append(numbered(1))
    before = log.path.read_bytes()
    log.check_writable()
    assert log.path.read_bytes() == before


def no_space(*_):
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_one_error_before_and_during(tmp_path, monkeypatch):
    log = RecordLog(tmp_path / "log.jsonl")
    monkeypatch.setattr("autosched.records.log.os.write", no_space)
    with pytest.raises(RecordError, match=r"cannot be written: No space left.*log.jsonl"):
        log.check_writable()
    with pytest.raises(RecordError, match=r"cannot take 3 records: No space left"):
        log.append(numbered(3))
    assert log.path.read_bytes() == b""


def test_what_a_full_disk_does_not_take_goes_to_the_working_directory(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    log = RecordLog(tmp_path / "my log.jsonl")
    log.append(numbered(2))
    write, full = os.write, log.path.stat().st_ino

    def on_disk(fd, data):
        return no_space() if os.fstat(fd).st_ino == full else write(fd, data)

    monkeypatch.setattr("autosched.records.log.os.write", on_disk)
    with pytest.raises(RecordError) as raised:
        log.append(numbered(3, 10))
    assert f"3 records are in {work / UNSAVED} instead" in raised.value.what
    assert f"import {UNSAVED} --into '{log.path}'" in raised.value.hint
    monkeypatch.undo()
    assert log.add_new(RecordLog(work / UNSAVED).read().records) == 3


def test_a_full_disk_keeps_what_was_written(tmp_path, monkeypatch):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(2))
    write = os.write

    def short(fd, data):
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(fd, data[: len(data) - 49])

    monkeypatch.setattr("autosched.records.log.os.write", short)
    with pytest.raises(RecordError, match="No space left"):
        log.append(numbered(1, start=2))
    monkeypatch.undo()
    assert seeds_in(log) == [0, 1]
    log.append(numbered(1, start=3))
    assert seeds_in(log) == [0, 1, 3]


def test_a_directory_and_a_file_as_directory_are_errors(tmp_path):
    for use in USES:
        with pytest.raises(RecordError, match="the log is a directory"):
            use(RecordLog(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="Not a directory"):
        RecordLog(tmp_path / "file" / "log.jsonl").check_writable()


def test_a_pipe_and_a_device_are_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe"), ("/dev/null", "a device")):
        for use in USES:
            with pytest.raises(RecordError, match=f"the log is {what}"):
                use(RecordLog(path))


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n", bytes(range(256)) * 40, b"[1]\n", b'{"epoch": 1}\n' * 9, b"# A title\n\ntext",
     b"\x08\x07\x12\x04test", b"x" * 100_000],
)  # fmt: skip
def test_a_file_of_another_kind_is_neither_read_nor_written(tmp_path, content):
    path = tmp_path / "important"
    path.write_bytes(content)
    for use in (RecordLog.read, RecordLog.check_writable):
        with pytest.raises(RecordError, match="this is no log: none of its lines is a record"):
            use(RecordLog(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\n \n", b'{"v":2,"task":"0a', b'{"v": 1}\n'])
def test_an_empty_and_a_torn_file_may_become_a_log(tmp_path, content):
    log = RecordLog(tmp_path / "log.jsonl")
    log.path.write_bytes(content)
    log.check_writable()
    log.append(numbered(1))
    assert seeds_in(log) == [0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_an_error(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.path.touch(mode=0o444)
    with pytest.raises(RecordError, match="Permission denied"):
        log.check_writable()


def test_a_read_only_file_system_is_an_error(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("autosched.records.log.os.open", refuse)
    with pytest.raises(RecordError, match="Read-only file system"):
        RecordLog(tmp_path / "log.jsonl").check_writable()


def test_a_replaced_log_keeps_its_link_and_its_permissions(tmp_path):
    file, link = tmp_path / "team.jsonl", tmp_path / "log.jsonl"
    RecordLog(file).append(numbered(2))
    file.chmod(0o664)
    link.symlink_to(file)
    RecordLog(link).replace(numbered(1))
    assert link.is_symlink() and seeds_in(RecordLog(file)) == [0]
    assert file.stat().st_mode & 0o777 == 0o664


def test_threads_do_not_tear_each_others_lines(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")

    def write(start):
        for n in range(20):
            log.append(numbered(3, start + 3 * n))

    threads = [threading.Thread(target=write, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(1000 * t + n for t in range(4) for n in range(60))
    assert sorted(seeds_in(log)) == expected
    assert log.read().warnings == ()


def test_two_processes_share_a_log(tmp_path):
    path = tmp_path / "log.jsonl"
    script = textwrap.dedent("""
        import sys
        from dataclasses import replace
        from autosched.measure.result import Timing
        from autosched.records.log import RecordLog
        from autosched.records.record import Record
        from sketch.target.target import Target

        record = Record("t" * 5000, Target("cpu", "x"), "direct", (), {}, Timing((1.0,)))
        log = RecordLog(sys.argv[1])
        for n in range(30):
            log.append([replace(record, seed=int(sys.argv[2]) + n)] * 2)
            log.check_writable()
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), start], env=environment)
        for start in ("0", "100")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = RecordLog(path).read()
    assert found.warnings == ()
    assert sorted(r.seed for r in found.records) == sorted([*range(30), *range(100, 130)] * 2)


def test_an_append_reads_what_is_new_in_the_file(tmp_path, monkeypatch):
    log, other = (RecordLog(tmp_path / "log.jsonl") for _ in range(2))
    read: list[int] = []

    def counted(fd, count, offset, pread=os.pread):
        read.append(count)
        return pread(fd, count, offset)

    log.append(numbered(500))
    log.append(numbered(1, start=500))
    monkeypatch.setattr(os, "pread", counted)
    log.append(numbered(1, start=501))
    assert sum(read) < 10_000 < log.path.stat().st_size
    other.append(numbered(20, start=502))
    log.append(numbered(500, start=522))
    monkeypatch.undo()
    once = RecordLog(tmp_path / "once.jsonl")
    for record in numbered(1022):
        once.append([record])
    assert log.path.read_bytes() == once.path.read_bytes()


@pytest.mark.parametrize("keep", ["nothing", "few lines", "other lines", "another file"])
def test_a_log_that_did_not_only_grow_is_read_again(tmp_path, keep):
    log, fresh = RecordLog(tmp_path / "log.jsonl"), tmp_path / "fresh.jsonl"
    log.append([replace(RECORD, decisions={"a": 1, "b": 1})])
    log.append(numbered(30))
    whole = log.path.read_bytes()
    RecordLog(fresh).append([replace(RECORD, task="other", seed=n) for n in range(60)])
    if keep == "another file":
        fresh.replace(log.path)
    else:
        kept = {"nothing": b"", "few lines": whole[:900], "other lines": fresh.read_bytes()}
        log.path.write_bytes(kept[keep])
    log.append(numbered(3, start=70))
    assert seeds_in(log)[-3:] == [70, 71, 72]


def test_logs_of_one_path_are_equal_whatever_they_have_read(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(1))
    assert log == RecordLog(log.path) and hash(log) == hash(RecordLog(log.path))
    assert repr(log) == repr(RecordLog(log.path))
