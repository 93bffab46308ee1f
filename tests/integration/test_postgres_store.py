"""Records in a real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from autosched.cli.app import main
from autosched.measure.result import Failure, Timing
from autosched.records.errors import RecordError
from autosched.records.log import UNSAVED, RecordLog
from autosched.records.record import NewerSchemaError, Record
from autosched.records.store import open_store
from autosched.records.title import Title
from autosched.records.trials import first_measurements
from sketch.target.target import Target
from tests.support.postgres import PASSWORD, Server, running_server

HERE = Target("cpu", "generic", threads=2)
ONE = Record("task", HERE, "direct", (), {"i": 4}, Timing((1.0, 2.0, 4.0)), time=1.0)
NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a database does not take goes to a file in the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def url(server: Server) -> str:
    return server.create(f"tuning{next(NUMBERS)}")


def numbered(number: int, start: int = 0) -> list[Record]:
    return [replace(ONE, seed=start + n) for n in range(number)]


def test_records_come_back_as_they_were(url):
    store = open_store(url)
    assert not store.exists() and store.read().records == () and not store.exists()
    records = (
        *numbered(3),
        replace(ONE, phase="final", title=Title("conv", 2e8)),
        replace(ONE, result=Failure("run", "SIGSEGV", "a \0 and a \N{SNOWMAN}")),
        replace(ONE, task="other", trial=7, predicted=1e-3),
    )
    store.append(records)
    store.append(records)
    assert store.exists() and store.read().records == records
    assert store.read({"other"}).records == (records[5],)
    state = store.state()
    store.replace(records[:2])
    assert store.read().records == records[:2] and store.state() != state


def test_many_writers_make_one_store_and_lose_nothing(url):
    def write(first: int) -> None:
        store = open_store(url)
        for n in range(5):
            store.append([replace(ONE, seed=first + n, task=f"task {k}") for k in (n, n + 1)])

    threads = [threading.Thread(target=write, args=(100 * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = open_store(url).read().records
    assert len(records) == 60 and len({(r.seed, r.task) for r in records}) == 60


def test_writers_of_the_same_records_in_another_order_do_not_block_each_other(url):
    open_store(url).append(numbered(1))  # and their headers: nobody waits for these
    orders = [numbered(4001), numbered(4001)[::-1]] * 2
    with ThreadPoolExecutor(len(orders)) as pool:
        added = list(pool.map(lambda records: open_store(url).add_new(records), orders))
    assert sum(added) == 4000 == len(open_store(url).read().records) - 1


def test_a_writer_that_hangs_is_told_to_the_next(server, url, monkeypatch):
    import psycopg

    from autosched.records.sql import connections

    store = open_store(url)
    store.append(numbered(1))
    short = connections._ALONE.replace(f"'{connections._LOCKED_S}s'", "'50ms'")
    monkeypatch.setattr(connections, "_ALONE", short)
    with psycopg.connect(url) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({connections._LOCK})")
        assert list(store.read().records) == numbered(1)
        with pytest.raises(RecordError, match="another process keeps it locked"):
            store.append(numbered(1, 9))
        other.rollback()
    assert store.add_new(numbered(1, 9)) == 1


def test_a_wrong_password_is_an_error_that_does_not_print_it(server, url):
    name = url.rpartition("/")[2]
    for use in ("read", "check_writable", "exists"):
        with pytest.raises(RecordError, match="refuses the user or the password") as caught:
            getattr(open_store(server.url(name, "open-sesame")), use)()
        assert "open-sesame" not in str(caught.value) and PASSWORD not in str(caught.value)


def test_a_database_that_does_not_exist_is_an_error(server):
    with pytest.raises(RecordError, match=r"no such database.*createdb"):
        open_store(server.url("nowhere")).check_writable()


def test_a_user_without_the_right_to_write_can_read(server, url):
    name = url.rpartition("/")[2]
    open_store(url).append(numbered(2))
    server.sql("CREATE ROLE reader LOGIN PASSWORD 'reads'")
    server.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    store = open_store(f"postgresql://reader:reads@127.0.0.1:{server.port}/{name}")
    assert list(store.read().records) == numbered(2)
    with pytest.raises(RecordError, match="no right"):
        store.append(numbered(1, 9))
    assert list(open_store(url).read().records) == numbered(2)


def test_a_store_of_a_newer_schema_is_left_alone(server, url):
    store = open_store(url)
    store.append(numbered(1))
    server.sql("UPDATE autosched_schema SET version_num = '99'", url.rpartition("/")[2])
    for use in (store.read, store.check, store.check_writable, lambda: store.append([ONE])):
        with pytest.raises(NewerSchemaError, match=r"schema '99'.*update autosched"):
            use()


def test_a_server_that_went_away_is_an_error_and_loses_nothing(server, url):
    store = open_store(url)
    store.append(numbered(2))
    server.control("stop", "-m", "immediate")
    try:
        with pytest.raises(RecordError, match="does not answer") as caught:
            store.append(numbered(1, 9))
    finally:
        server.control("start")
    assert UNSAVED in caught.value.what and PASSWORD not in str(caught.value)
    assert list(store.read().records) == numbered(2)
    assert store.add_new(RecordLog(UNSAVED).read().records) == 1


@pytest.mark.slow
def test_a_network_is_tuned_resumed_and_compiled(url, capsys, recwarn):
    line = ["tune", "mlp", "--log", url, "--threads", "1", "--quiet", "--trials"]
    for trials in ("6", "9"):
        assert main([*line, trials]) == 0
    store = open_store(url)
    assert len(first_measurements(store.read().records)) == 9
    for command in (
        ["compile", "mlp", "--log", url, "--threads", "1", "-o", "mlp"],
        ["records", "stats", url],
        ["records", "best", url],
        ["records", "merge", url, "-o", "all.jsonl"],
        ["records", "prune", url, "--top", "1"],
    ):
        assert main(command) == 0
    told = capsys.readouterr()
    assert PASSWORD not in told.out + told.err and "postgresql://postgres:***@" in told.out
    assert not [w for w in recwarn.list if "no record" in str(w.message)]
    kept, exported = store.read().records, RecordLog("all.jsonl").read().records
    assert {r.task for r in kept} == {r.task for r in exported} and len(kept) < len(exported)
