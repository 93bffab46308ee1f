"""The best of a database is the best of the same records in a file; older tables are upgraded."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra db")
pytest.importorskip("alembic", reason="the extra db")

from autosched.measure.result import WRONG_RESULT, CacheState, Failure, Timing
from autosched.records.best import best, by_distance
from autosched.records.error_budget import VariantErrors
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.records.store import open_store
from sketch.target.target import Target

HERE = Target("cpu", "generic", threads=2)
NEAR, FAR = replace(HERE, threads=3), replace(HERE, threads=64)
STATES: tuple[CacheState, ...] = ("warm", "dram_cold")


def drawn(count: int, seed: int) -> list[Record]:
    """Records of few candidates, so that many are timed again, fail, or are found wrong."""
    rng = random.Random(seed)

    def result() -> Timing | Failure:
        kind = rng.random()
        if kind < 0.1:
            return (
                Failure("verify", WRONG_RESULT, "why") if kind < 0.02 else Failure("run", "S", "")
            )
        error = rng.random() if rng.random() < 0.2 else None
        pair = (rng.random(), rng.random()) if rng.random() < 0.1 else ()
        return Timing((1e-3 * (1 + rng.random()),), rng.choice(STATES), error, pair)

    return [
        Record(
            rng.choice(("a", "b")),
            rng.choice((HERE, HERE, replace(HERE, l2_bytes=1 << 20), FAR)),
            rng.choice(("direct", "winograd-6")),
            (),
            {"0.0@1": rng.randrange(40)},
            result(),
            "final" if rng.random() < 0.05 else "trial",
            time=float(n // 8),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_a_database_is_that_of_a_log(tmp_path: Path, seed: int) -> None:
    log, store = RecordLog(tmp_path / "log.jsonl"), open_store(f"sqlite:///{tmp_path}/store.db")
    log.append(drawn(400, seed))
    store.append(log.read().records)
    whole, found = log.read().records, store.read_best(("a", "b", "none"), HERE).records
    assert 0 < len(found) < len(whole)
    for task in ("a", "b"):
        for state in (*STATES, None):
            assert best(found, task, HERE, state) == best(whole, task, HERE, state)
        judged = [VariantErrors("direct", "fast") for _ in range(2)]
        for errors, records in zip(judged, (whole, found), strict=True):
            mine = [r for r in records if r.task == task]
            errors.note([r.variant for r in mine], [r.result for r in mine])
        told = [errors.hold("winograd-6", Timing((1.0,))) for errors in judged]
        assert told[0] == told[1]


def test_only_records_that_matter_are_read(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    one = Record("a", HERE, "direct", (), {"0.0@1": 0}, Timing((1.0,)))
    slower = [replace(one, decisions={"0.0@1": n}, result=Timing((1.0 + n,))) for n in range(1000)]
    again = replace(slower[3], result=Failure("verify", WRONG_RESULT, "why"))
    store.append([*slower, again, replace(one, task="b")])
    assert store.read_best(("a",), HERE).records == (*slower[:4], again)


@pytest.mark.parametrize("count", [1, 4, 5, 40])
def test_equal_times_are_in_the_order_of_the_log(tmp_path: Path, count: int) -> None:
    """As many of them are read as of others: estimates of a device are often equal."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    slow = Record("a", HERE, "direct", (), {"0.0@1": 99}, Timing((2.0,)))
    equal = [replace(slow, decisions={"0.0@1": n}, result=Timing((1.0,))) for n in range(count)]
    store.append([slow, *equal])
    found = store.read_best(("a",), HERE).records
    assert found == (tuple(equal[:4]) if count >= 4 else (slow, *equal))
    assert best(found, "a", HERE) == equal[0]


def test_without_records_of_a_machine_those_of_the_nearest_count(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    one = Record("a", FAR, "direct", (), {"0.0@1": 0}, Timing((1.0,)))
    store.append([one, replace(one, target=NEAR), replace(one, target=replace(FAR, threads=32))])
    found = store.read_best(("a",), HERE).records
    assert [target.threads for target, _ in by_distance(found, HERE)] == [3, 32]
    store.append([replace(one, target=HERE, result=Timing((9.0,)))])
    assert [record.target for record in store.read_best(("a",), HERE).records] == [HERE]


def tables_of(url: str) -> dict[str, object]:
    """Tables, columns and indexes as the database has them."""
    from sqlalchemy import create_engine, inspect

    engine = create_engine(url)
    found = inspect(engine)
    names = [name for name in found.get_table_names() if name != "autosched_schema"]
    told: dict[str, object] = {}
    for name in names:
        columns = [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)]
        indexes = sorted((i["name"], i["column_names"]) for i in found.get_indexes(name))
        unique = sorted((u["name"], u["column_names"]) for u in found.get_unique_constraints(name))
        told[name] = columns, indexes, unique, found.get_pk_constraint(name)
    engine.dispose()
    return told


def test_the_migrations_make_the_tables_that_are_used(tmp_path: Path) -> None:
    from sqlalchemy import create_engine

    from autosched.records.sql.tables import METADATA

    made, migrated = (f"sqlite:///{tmp_path}/{name}.db" for name in ("made", "migrated"))
    open_store(migrated).check_writable()
    engine = create_engine(made)
    METADATA.create_all(engine)
    engine.dispose()
    assert tables_of(made) == tables_of(migrated)
