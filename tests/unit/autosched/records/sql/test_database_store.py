"""Records in a SQLite database: what is kept, who may write at the same time, what goes wrong."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra db")
pytest.importorskip("alembic", reason="the extra db")

from autosched.measure.result import Failure, Timing
from autosched.records.errors import RecordError
from autosched.records.log import UNSAVED, RecordLog
from autosched.records.record import NewerSchemaError, Record
from autosched.records.store import log_name, open_store
from autosched.records.title import Title
from autosched.system.errors import MissingPackageError
from sketch.target.target import Target

HERE = Target("cpu", "generic", threads=2)
ONE = Record("task", HERE, "direct", (), {"1.0@1": 4}, Timing((1.0, 2.0, 4.0)), time=1.0)


def numbered(count: int, start: int = 0) -> list[Record]:
    return [replace(ONE, seed=start + n) for n in range(count)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a database does not take goes to a file in the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new/store.db"


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def test_records_come_back_as_they_were(url):
    store = open_store(url)
    assert not store.exists() and store.read().records == () and not store.exists()
    timing = Timing((1e-6,), "dram_cold", 1e-7, (2e-7, 3e-7), 0.25)
    records = (
        *numbered(3),
        replace(ONE, result=timing, variant="winograd-6", phase="final", title=Title("conv", 2e8)),
        replace(ONE, result=Failure("compile", "LoweringError", 'why "not"\nat all')),
        replace(ONE, task="other", target=replace(HERE, threads=1), trial=7, predicted=1e-3),
        replace(ONE, by_name=True),
    )
    store.append(records[:2])
    store.append(())
    store.append(records[2:])
    found = store.read()
    assert found.records == records and found.warnings == ()
    assert {r.title for r in found.records if r.task == "task"} == {Title("conv", 2e8)}
    assert store.read({"other"}).records == (records[5],)
    assert found.records[0].where == f"{url}: record 1"


def test_a_record_is_there_once_however_often_it_is_added(url):
    store = open_store(url)
    store.append([*numbered(2), *numbered(2)])
    store.append(numbered(3))
    assert list(store.read().records) == numbered(3)


def test_records_of_a_log_and_of_a_database_are_the_same(tmp_path, url):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(numbered(4))
    open_store(url).append(log.read().records)
    assert open_store(url).read().records == log.read().records


def test_the_state_changes_with_the_records(url):
    store = open_store(url)
    states = [store.state()]
    for start in range(2):
        store.append(numbered(1, start))
        states.append(store.state())
    store.replace(numbered(2, 5))
    states.append(store.state())
    assert len(set(states)) == 4 and store.state() == states[-1]
    assert list(store.read().records) == numbered(2, 5)


def test_a_damaged_row_is_skipped_and_told(url):
    store = open_store(url)
    store.append(numbered(3))
    with sqlite3.connect(file_of(url)) as raw:
        raw.execute("UPDATE autosched_records SET line = replace(line, '[4]', '[8]') WHERE id = 2")
    found = store.read()
    assert list(found.records) == [numbered(3)[0], numbered(3)[2]]
    assert found.warnings == (
        f"{url}: record 2: skipped: damaged: the checksum is of something else",
    )


LINES = {
    "bytes": "X'00ff'",
    "no UTF-8": "CAST(X'ff41' AS TEXT)",
    "the bytes of a line": "CAST(line AS BLOB)",
    "nothing": "''",
    "a number": "3",
    "another value": "'[1]'",
    "a line of another table": "(SELECT line FROM autosched_{other} ORDER BY rowid DESC LIMIT 1)",
}


def test_one_line_of_garbage_loses_no_other(tmp_path, url):
    open_store(url).append(numbered(2))
    whole = file_of(url).read_bytes()
    for table, name in product(("sessions", "sketches", "records"), LINES):
        copied = tmp_path / f"{table}-{name}.db"
        copied.write_bytes(whole)
        with sqlite3.connect(copied) as raw:
            first = f"rowid = (SELECT MIN(rowid) FROM autosched_{table})"
            line = LINES[name].format(other="sketches" if table == "records" else "records")
            raw.execute(f"UPDATE autosched_{table} SET line = {line} WHERE {first}")
        store = open_store(f"sqlite:///{copied}")
        found, best = store.read(), store.read_best([ONE.task], HERE)
        if name == "the bytes of a line":
            assert list(found.records) == list(best.records) == numbered(2) and not found.warnings
        else:
            kept = numbered(2)[1:] if table == "records" else []
            assert list(found.records) == list(best.records) == kept and found.warnings


WRITER = """
    import sys
    from tests.unit.autosched.records.sql.test_database_store import write
    print("ready", flush=True)
    sys.stdin.readline()
    write(sys.argv[1], 1000)
"""


def write(url: str, first: int) -> None:
    store = open_store(url)
    for n in range(8):
        store.append([replace(ONE, seed=first + 2 * n), replace(ONE, seed=first + 2 * n + 1)])


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[5])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env=environment, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_processes_make_one_store_and_lose_nothing(url):
    other = run(WRITER, url)
    assert other.stdout is not None and other.stdout.readline() == "ready\n"
    assert other.stdin is not None
    other.stdin.write("go\n")
    other.stdin.flush()
    write(url, 0)
    assert other.wait(60) == 0
    seeds = [record.seed for record in open_store(url).read().records]
    assert sorted(seeds) == [*range(16), *range(1000, 1016)]
    assert [seed for seed in seeds if seed < 1000] == list(range(16))


KILLED = """
    import sys
    from autosched.records.sql import store as module
    from autosched.records.store import open_store
    from tests.unit.autosched.records.sql.test_database_store import numbered
    insert = module.insert_rows
    def and_wait(connection, rows):
        added = insert(connection, rows)
        if len(rows.records) == 3:
            print("inserted", flush=True)
            sys.stdin.read()
        return added
    module.insert_rows = and_wait
    store = open_store(sys.argv[1])
    store.append(numbered(2))
    store.append(numbered(3, 2))
"""


def test_a_writer_that_is_killed_leaves_whole_batches(url):
    writer = run(KILLED, url)
    assert writer.stdout is not None and writer.stdout.readline() == "inserted\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait(10)
    store = open_store(url)
    assert list(store.read().records) == numbered(2)
    store.append(numbered(1, 9))
    assert len(store.read().records) == 3


def test_a_store_of_a_newer_schema_is_left_alone(url):
    store = open_store(url)
    store.append(numbered(1))
    with sqlite3.connect(file_of(url)) as raw:
        raw.execute("UPDATE autosched_schema SET version_num = '99'")
    for use in (store.read, store.check, store.check_writable, lambda: store.append([ONE])):
        with pytest.raises(NewerSchemaError, match=r"schema '99'.*update autosched"):
            use()


def test_what_is_no_store_is_left_alone(tmp_path):
    text, other = tmp_path / "log.jsonl", tmp_path / "other.db"
    RecordLog(text).append(numbered(1))
    with sqlite3.connect(other) as raw:
        raw.execute("CREATE TABLE mine (x)")
    before = text.read_bytes(), other.read_bytes()
    for path, said in ((text, "this is no database"), (other, "this is no store")):
        store = open_store(f"sqlite:///{path}")
        for use in (store.read, store.check, store.check_writable):
            with pytest.raises(RecordError, match=said):
                use()
        with pytest.raises(RecordError, match=said):
            store.append([ONE])
    assert (text.read_bytes(), other.read_bytes()) == before


def test_a_read_only_store_can_be_read(url):
    open_store(url).append(numbered(2))
    store = open_store(f"sqlite:///file:{file_of(url)}?mode=ro&uri=true")
    assert list(store.read().records) == numbered(2)
    for write in (store.check_writable, partial(store.append, [replace(ONE, seed=9)])):
        with pytest.raises(RecordError, match="read-only"):
            write()
    before = file_of(url).read_bytes()
    open_store(url).check_writable()
    assert file_of(url).read_bytes() == before


def test_a_store_that_is_locked_for_long_is_an_error(url):
    open_store(url).append(numbered(1))
    store = open_store(f"{url}?timeout=0.05")
    raw = sqlite3.connect(file_of(url), isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    assert list(store.read().records) == numbered(1)
    with pytest.raises(RecordError, match=r"another process keeps it locked.*\?timeout=SECONDS"):
        store.append([replace(ONE, seed=9)])
    raw.execute("ROLLBACK")
    raw.close()
    store.append([replace(ONE, seed=9)])
    assert len(store.read().records) == 2


def test_a_full_disk_is_an_error_and_loses_nothing(url, monkeypatch):
    from autosched.records.sql import connections

    store = open_store(url)
    store.append(numbered(2))
    (pages,) = sqlite3.connect(file_of(url)).execute("PRAGMA page_count").fetchone()

    def limited(raw):
        raw.execute(f"PRAGMA max_page_count={pages}")

    with monkeypatch.context() as patch:
        patch.setattr(connections, "_write_ahead", limited)
        with pytest.raises(RecordError, match="cannot take 500 records: the disk is full") as full:
            store.append(numbered(500, 10))
    assert list(store.read().records) == numbered(2)
    assert f"500 records are in {Path.cwd() / UNSAVED} instead" in full.value.what
    assert f"autosched records import {UNSAVED} --into URL" in full.value.hint
    assert store.add_new(RecordLog(UNSAVED).read().records) == 500
    assert list(store.read().records) == [*numbered(2), *numbered(500, 10)]


def test_where_no_file_can_be_written_the_error_stays_what_it_was(url, monkeypatch):
    from autosched.records.sql import store as module

    Path(UNSAVED).mkdir()
    store = open_store(url)

    def full(*_):
        raise RecordError("the disk is full")

    monkeypatch.setattr(module, "insert_rows", full)
    with pytest.raises(RecordError) as caught:
        store.append(numbered(1))
    assert str(caught.value) == "the disk is full"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://ann:secret@host/db", "no store of kind 'mysql'"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "in memory"),
        ("sqlite:///file::memory:?uri=true", "in memory"),
        ("sqlite:///a\0b", "no file has such a name"),
        ("sqlite://log.db", "names a file, no host.*three slashes"),
        ("postgresql://ann:secret@host", "names no database"),
        ("postgresql://ann:secret@host:port/db", "cannot be understood"),
    ],
)
def test_a_wrong_url_is_an_error_without_the_password(url, said):
    with pytest.raises(RecordError, match=said) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("file/store.db", "File exists|Not a directory"),
        ("x" * 300, "cannot be opened|File name too long"),
        ("store.db?timeout=soon", "follows the .* could not convert string to float: 'soon'"),
        ("store.db?timeout=1&timeout=2", "follows the .* 'tuple'"),
        ("store.db?cached_statements=some", "follows the .* 'some'"),
    ],
)
def test_files_and_options_that_cannot_be_are_one_error(tmp_path, rest, said):
    (tmp_path / "file").touch()
    store = open_store(f"sqlite:///{tmp_path}/{rest}")
    with pytest.raises(RecordError, match=said):
        store.check_writable()
    with pytest.raises(RecordError, match=said):
        store.append(numbered(1))
    for looks in (store.exists, store.read, store.state, store.size_bytes):
        try:
            looks()
        except RecordError:
            continue


@pytest.mark.parametrize(
    ("option", "said"),
    [("sslmode=some", 'invalid sslmode value: "some"'), ("nosuch=1", 'option "nosuch"')],
)
def test_options_that_the_client_refuses_are_named(option, said):
    pytest.importorskip("psycopg")
    store = open_store(f"postgresql://ann:secret@127.0.0.1:1/tuning?{option}")
    with pytest.raises(RecordError, match=said) as caught:
        store.check_writable()
    assert "secret" not in str(caught.value)


def test_names_have_no_password():
    pytest.importorskip("psycopg")
    url = "postgresql://ann:secret@db.example:5433/tuning?password=secret&sslmode=require"
    store = open_store(url)
    assert "secret" not in repr(store) + store.name + log_name(url)
    assert store.name.startswith("postgresql://ann:***@db.example:5433/tuning")


def test_a_missing_package_is_named(monkeypatch, url):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingPackageError, match=r"'sqlalchemy'.*autosched\[db\]"):
        open_store(url)


def test_a_server_that_does_not_answer_is_an_error():
    pytest.importorskip("psycopg")
    store = open_store("postgresql://ann:secret@127.0.0.1:1/tuning")
    with pytest.raises(RecordError, match="does not answer") as caught:
        store.check_writable()
    assert "secret" not in str(caught.value)
