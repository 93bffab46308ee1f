"""``autosched records`` on a database; upgrades of older tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra db")
pytest.importorskip("alembic", reason="the extra db")

from autosched.cli.app import main
from autosched.measure.result import Failure, Timing
from autosched.records.log import RecordLog
from autosched.records.merge import prune
from autosched.records.record import Record
from autosched.records.sql import schema
from autosched.records.sql.connections import connection_to
from autosched.records.sql.rows import rows_of
from autosched.records.sql.tables import PLACES, RECORDS, SESSIONS, SKETCHES
from autosched.records.store import open_store
from autosched.records.title import Title
from sketch.target.target import Target

HERE = Target("cpu", "generic", threads=2)
LOG = tuple(
    Record(
        "t" * 16, HERE, "direct", (), {"i": n}, Timing((1e-3 / (1 + n),)), title=Title("conv", 1e6)
    )
    for n in range(6)
)
FAILED = replace(LOG[0], decisions={"i": 9}, result=Failure("run", "SIGSEGV", "crash"))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A log of JSON lines, and a database with the same records."""
    log, url = str(tmp_path / "log.jsonl"), f"sqlite:///{tmp_path}/store.db"
    for name in (log, url):
        open_store(name).append([*LOG, FAILED])
    return log, url


@pytest.mark.parametrize("action", ["stats", "best", "csv"])
def test_tables_of_a_database_are_those_of_a_log(action, files, capsys):
    told = []
    for name in files:
        assert main(["records", action, name]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] and "conv" in told[0]


def test_a_log_is_imported_once_and_exported_again(tmp_path, files, capsys):
    log, _ = files
    url, back = f"sqlite:///{tmp_path}/team.db", str(tmp_path / "back.jsonl")
    for said in ("7 records added, 0 were there", "0 records added, 7 were there"):
        assert main(["records", "import", log, "--into", url]) == 0
        assert said in capsys.readouterr().out
    assert main(["records", "merge", url, "-o", back]) == 0
    assert Path(back).read_bytes() == Path(log).read_bytes()
    RecordLog(back).append([replace(LOG[0], seed=5)])
    assert main(["records", "import", back, "--into", log]) == 0
    assert "1 record added, 7 were there" in capsys.readouterr().out


def test_a_database_is_pruned_and_keeps_what_others_add(files, capsys, monkeypatch):
    _, url = files
    late = replace(LOG[0], task="u" * 16)
    assert main(["records", "prune", url, "--top", "2"]) == 0
    assert "2 records" in capsys.readouterr().out
    assert open_store(url).read().records == prune(LOG, 2)

    from autosched.records import merge

    real = merge.prune

    def meanwhile(*arguments):
        open_store(url).append([late])
        return real(*arguments)

    monkeypatch.setattr(merge, "prune", meanwhile)
    assert main(["records", "prune", url, "--top", "1"]) == 0
    assert open_store(url).read().records == (*prune(LOG, 1), late)


def test_a_database_of_others_is_not_replaced(tmp_path, files, capsys):
    _, url = files
    other = str(tmp_path / "other.jsonl")
    RecordLog(other).append(LOG[:1])
    for line in (["merge", other, "-o", url], ["prune", other, "-o", url]):
        assert main(["records", *line]) == 1
        assert "would be lost" in capsys.readouterr().err
    assert len(open_store(url).read().records) == 7
    assert main(["records", "merge", url, other, "-o", url]) == 0
    assert main(["records", "distill", url, "-o", str(tmp_path / "small")]) == 0
    assert RecordLog(tmp_path / "small" / "store.jsonl").read().records == prune(LOG, 1)


def older(url: str, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database as the last release with the schema ``before`` left it."""
    from alembic import command
    from sqlalchemy import insert

    rows = rows_of([*LOG, FAILED])
    store = open_store(url)
    with connection_to(store._url, writes=True) as connection, monkeypatch.context() as patch:
        real = command.upgrade
        patch.setattr(command, "upgrade", lambda config, _: real(config, before))
        schema.upgrade(connection, url)
        for table, some in (
            (SESSIONS, list(rows.sessions.values())),
            (SKETCHES, list(rows.sketches.values())),
            (RECORDS, rows.records),
            *([] if before == "1" else [(PLACES, list(rows.places.values()))]),
        ):
            connection.execute(insert(table), some)


@pytest.mark.parametrize("before", schema.SCHEMAS[:-1])
def test_older_tables_are_upgraded_when_that_is_asked_for(before, tmp_path, capsys, monkeypatch):
    url = f"sqlite:///{tmp_path}/old.db"
    older(url, before, monkeypatch)
    assert main(["records", "stats", url]) == 1
    assert f"has schema {before}, this release needs 3" in capsys.readouterr().err
    assert main(["records", "upgrade", url]) == 0
    assert main(["records", "upgrade", url]) == 0
    store = open_store(url)
    assert store.read().records == (*LOG, FAILED)
    assert store.read_best((LOG[0].task,), HERE).records == LOG[-4:]
    assert main(["records", "upgrade", str(tmp_path / "log.jsonl")]) == 2
    assert main(["records", "upgrade", f"sqlite:///{tmp_path}/none.db"]) == 1


def test_the_last_schema_is_the_last_migration():
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(Path(schema.__file__).with_name("migrations")))
    revisions = [item.revision for item in script.walk_revisions()]
    assert tuple(reversed(revisions)) == schema.SCHEMAS
