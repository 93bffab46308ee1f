import csv
from dataclasses import replace

import pytest

from autosched.cli.app import main
from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.records import merge as merging
from autosched.records.best import comparable
from autosched.records.errors import RecordError
from autosched.records.log import RecordLog
from autosched.records.merge import merge, prune, read_all
from autosched.records.reading import RecordSet
from autosched.records.record import Record
from autosched.records.rows import COLUMNS, row_of, write_csv
from autosched.records.stats import stats
from autosched.records.store import open_store
from sketch.target.target import Target

HERE = Target("cpu", "generic", threads=2)


def record(tile, seconds=1.0, task="t", result=None):
    return Record(task, HERE, "direct", (), {"i": tile}, result or Timing((seconds,)))


FAILED = record(7, result=Failure("compile", "LoweringError", "why"))
LOG = (record(1, 3.0), record(2, 1.0), record(3, 2.0), record(1, 9.0, "u"), FAILED)


def test_pruning_keeps_the_best_of_each_task_and_target():
    other = replace(record(5, 7.0), target=replace(HERE, threads=1))
    assert prune([*LOG, other], 2) == (LOG[1], LOG[2], LOG[3], other)
    with pytest.raises(RecordError, match="best 0"):
        prune(LOG, 0)


def test_pruning_keeps_the_best_of_each_variant():
    fast, slow = (replace(record(tile, 0.1 * tile), variant="winograd") for tile in (4, 5))
    assert prune([*LOG[:3], slow, fast], 1) == (LOG[1], fast)
    assert prune([*LOG[:3], slow, fast], 3) == (LOG[1], slow, fast)


def test_pruning_keeps_what_was_found_wrong_where_names_and_positions_mix():
    old = replace(record(1, 0.1), by_name=True)
    wrong = record(4, result=Failure("verify", WRONG_RESULT, "why"))
    assert prune([old, *LOG[1:3], FAILED, wrong], 1) == (old, wrong)
    assert prune([*LOG[1:3], FAILED, wrong], 1) == (LOG[1],)


def test_times_of_other_cache_states_do_not_compare():
    cold = tuple(
        replace(record(tile), result=Timing((seconds,), "dram_cold"))
        for tile, seconds in ((1, 9.0), (2, 8.0))
    )
    wrong = record(3, result=Failure("run", WRONG_RESULT, "why"))
    assert prune([*LOG[:3], *cold, wrong], 1) == (LOG[1], cold[1])
    groups = comparable([*LOG[:3], *cold, wrong, FAILED, record(9, task="f", result=FAILED.result)])
    assert [(task, state, len(group)) for (task, _, state), group in groups.items()] == [
        ("t", "warm", 5), ("t", "dram_cold", 4), ("f", None, 1),
    ]  # fmt: skip


def test_the_best_of_each_cache_state_is_shown(tmp_path, capsys):
    log = RecordLog(tmp_path / "log.jsonl")
    cold = replace(record(4), result=Timing((8.0,), "dram_cold"))
    other = replace(record(5, 0.5), target=replace(HERE, threads=1))
    log.append([*LOG[:3], cold, other])
    assert main(["records", "best", str(log.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["t", "generic/2", "warm", "1000000.0", "-", "2", "direct:", "as", "written"],
        ["t", "generic/2", "dram_cold", "8000000.0", "-", "1", "direct:", "as", "written"],
        ["t", "generic/1", "warm", "500000.0", "-", "1", "direct:", "as", "written"],
    ]


def test_logs_of_one_name_are_not_distilled_into_one(tmp_path, capsys):
    logs = [RecordLog(tmp_path / folder / "log.jsonl") for folder in "ab"]
    for log in logs:
        log.append(LOG)
    paths = [str(log.path) for log in logs]
    assert main(["records", "distill", *paths, "-o", str(tmp_path / "out")]) == 2
    assert "two logs have one name" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_merging_drops_repetitions_and_may_overwrite_an_input(tmp_path):
    first, second = RecordLog(tmp_path / "a.jsonl"), RecordLog(tmp_path / "b.jsonl")
    first.append(LOG[:3])
    second.append(LOG[2:])
    with second.path.open("a") as file:
        file.write("{torn")
    written = merge([first.path, second.path], second.path)
    assert second.read().records == LOG == written.records
    assert written.warnings[0].startswith(f"{second.path}:7: skipped")
    merge([second.path], first.path, keep=1)
    assert first.read().records == (LOG[1], LOG[3])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_a_log_with_records_of_its_own_is_kept_when_another_takes_its_name(tmp_path, capsys):
    first, second = RecordLog(tmp_path / "a.jsonl"), RecordLog(tmp_path / "b.jsonl")
    first.append(LOG[:3])
    second.append(LOG[2:])
    whole = second.path.read_bytes()
    assert main(["records", "merge", str(first.path), "-o", str(second.path)]) == 0
    assert second.read().records == LOG[:3]
    assert (tmp_path / "b.jsonl.bak").read_bytes() == whole
    assert f"what it was is in {second.path}.bak" in capsys.readouterr().err
    assert main(["records", "prune", str(first.path), "--top", "1", "-o", str(second.path)]) == 0
    assert not (tmp_path / "b.jsonl.bak2").exists()  # it had no record that a.jsonl lacks
    second.append(LOG[4:])
    assert main(["records", "prune", str(first.path), "--top", "1", "-o", str(second.path)]) == 0
    assert f"what it was is in {second.path}.bak2" in capsys.readouterr().out
    assert RecordLog(tmp_path / "b.jsonl.bak2").read().records == (LOG[1], FAILED)


def test_distilling_again_keeps_no_copy(tmp_path):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(LOG)
    for _ in range(2):
        assert main(["records", "distill", str(log.path), "-o", str(tmp_path / "small")]) == 0
    assert [path.name for path in (tmp_path / "small").iterdir()] == ["log.jsonl"]


def test_merging_nothing_writes_an_empty_log(tmp_path):
    (tmp_path / "a.jsonl").touch()
    merge([tmp_path / "a.jsonl"], tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == b""


def test_a_missing_log_is_an_error_and_the_output_stays(tmp_path):
    out = RecordLog(tmp_path / "out.jsonl")
    out.append(LOG)
    with pytest.raises(RecordError, match=r"does not exist.*nowhere"):
        merge([tmp_path / "nowhere.jsonl"], out.path)
    with pytest.raises(RecordError, match="does not exist"):
        read_all([tmp_path / "nowhere.jsonl"])
    assert out.read().records == LOG


def test_statistics_count_trials_and_causes():
    again = replace(record(2, 1.5), phase="final")
    assert stats([*LOG, again])[0].trials == 4
    first, second = stats(LOG)
    assert (first.task, first.trials, first.best_s, first.variant) == ("t", 4, 1.0, "direct")
    assert first.failures == {"compile: LoweringError": 1}
    assert (second.trials, second.best_s, second.failures) == (1, 9.0, {})
    (none,) = stats([FAILED])
    assert (none.best_s, none.variant) == (None, "")


def test_rows_have_all_columns():
    row = row_of(LOG[0])
    assert list(row)[: len(COLUMNS)] == list(COLUMNS)
    assert (row["best_s"], row["decision:i"], row["failure_kind"]) == (3.0, 1, None)
    assert row_of(FAILED)["failure_message"] == "why"


def test_a_table_has_a_column_for_every_decision(tmp_path):
    more = replace(record(1), decisions={"j": 5})
    write_csv([*LOG, more], tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(LOG) + 1
    assert (rows[0]["decision:i"], rows[0]["decision:j"]) == ("1", "")
    assert (rows[-1]["decision:i"], rows[-1]["decision:j"]) == ("", "5")
    with pytest.raises(RecordError, match="cannot be written"):
        write_csv(LOG, tmp_path)


def test_frames_have_a_row_per_record():
    pytest.importorskip("pandas")
    frame = RecordSet(tuple(LOG)).to_pandas()
    assert len(frame) == len(LOG)
    assert frame["median_s"].min() == 1.0
    assert list(RecordSet(()).to_pandas().columns) == list(COLUMNS)


@pytest.mark.parametrize("name", ["", ".", "folder"])
def test_no_file_is_no_log(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(RecordError, match=r"(?i)is a directory"):
        RecordLog(name).replace(LOG)


def test_an_empty_log_is_written_into_a_new_folder(tmp_path):
    RecordLog(tmp_path / "new" / "log.jsonl").replace(())
    assert (tmp_path / "new" / "log.jsonl").read_bytes() == b""
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["log.jsonl"]


def test_pruning_to_no_file_leaves_the_log(tmp_path, capsys):
    log = RecordLog(tmp_path / "log.jsonl")
    log.append(LOG)
    assert main(["records", "prune", str(log.path), "-o", ""]) == 1
    assert log.read().records == LOG


@pytest.mark.parametrize("kind", ["database", "file"])
def test_what_is_added_while_logs_are_merged_stays(kind, tmp_path, monkeypatch):
    out = f"sqlite:///{tmp_path}/out.db" if kind == "database" else tmp_path / "out.jsonl"
    if kind == "database":
        pytest.importorskip("sqlalchemy")
    open_store(out).append([record(1)])
    RecordLog(tmp_path / "log.jsonl").append([record(2)])
    read = merging.read_all

    def slowly(logs):
        found = read(logs)
        open_store(out).append([record(3)])
        return found

    monkeypatch.setattr(merging, "read_all", slowly)
    merge([out, tmp_path / "log.jsonl"], out)
    assert sorted(r.decisions["i"] for r in open_store(out).read().records) == [1, 2, 3]


@pytest.mark.parametrize("command", ["merge", "prune"])
def test_what_is_added_to_another_log_that_is_being_replaced_stays(command, tmp_path, monkeypatch):
    log, out = RecordLog(tmp_path / "log.jsonl"), RecordLog(tmp_path / "out.jsonl")
    log.append(LOG[:2])
    out.append(LOG[:1])
    look = merging.spared

    def slowly(*arguments):
        copy = look(*arguments)
        out.append(LOG[4:])
        return copy

    monkeypatch.setattr(merging, "spared", slowly)
    assert main(["records", command, str(log.path), "-o", str(out.path)]) == 0
    assert out.read().records == (*LOG[:2], *LOG[4:])


def test_statistics_are_of_the_cache_state_that_most_were_timed_in():
    times = [(1, 1.0, "warm"), (2, 2.0, "warm"), (1, 9.0, "dram_cold")]
    log = [record(tile, result=Timing((s,), state)) for tile, s, state in times]
    (found,) = stats([*log[:2], replace(log[2], phase="final", time=3.0)])
    assert found.best_s == 1.0 and found.trials == 2
