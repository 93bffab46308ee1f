"""Datasets: groups, relative times, failures, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.dataset import FAILURE_OVER_BEST, FAILURE_OVER_WORST, Dataset
from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT
from costmodel.features import Features
from costmodel.model import DraftModel, RandomModel


def features(programs: int, statements: int, fill: float = 0.0) -> Features:
    values = np.full((statements, FEATURE_COUNT, programs), fill, dtype=np.float32)
    return Features(values, tuple(f"s{i}" for i in range(statements)))


@pytest.fixture
def dataset() -> Dataset:
    result = Dataset()
    result.append("a", features(3, 2, 1.0), [2.0, 1.0, None])
    result.append("b", features(2, 1, 2.0), [30.0, 300.0])
    result.append("a", features(1, 3, 3.0), [0.5])
    result.append("c", features(1, 1, 4.0), [None])
    return result


def test_table_keeps_order_and_groups(dataset: Dataset) -> None:
    table = dataset.table()
    assert dataset.tasks == ("a", "b", "c") and len(dataset) == 7
    assert table.groups.tolist() == [0, 0, 0, 1, 1, 0, 2]
    assert table.offsets.tolist() == [0, 2, 4, 6, 7, 8, 11, 12]
    assert table.rows.shape == (12, FEATURE_COUNT)
    assert table.program_of_row().tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 5, 5, 5, 6]


def test_times_are_relative_to_the_best_of_a_task(dataset: Dataset) -> None:
    relative = dataset.table().relative_times()
    assert relative[[0, 1, 5]].tolist() == [4.0, 2.0, 1.0]
    assert relative[[3, 4]].tolist() == [1.0, 10.0]


def test_failures_rank_behind_every_success(dataset: Dataset) -> None:
    relative = dataset.table().relative_times()
    assert relative[2] == max(FAILURE_OVER_BEST, FAILURE_OVER_WORST * 4.0)
    assert relative[6] == FAILURE_OVER_BEST


def test_the_table_grows_with_the_dataset(dataset: Dataset) -> None:
    before = dataset.table()
    assert dataset.table() is before
    dataset.append("b", features(1, 1), [10.0])
    assert len(dataset.table().seconds) == 8
    assert dataset.table().relative_times()[3] == 3.0


def test_recent_programs_are_the_newest_some_before_and_the_best_of_each_task() -> None:
    result = Dataset()
    for task, seconds in (
        ("a", [9.0, None, 1.0, 8.0, 7.0, 6.0]),
        ("b", [5.0, 2.0]),
        ("a", [4.0] * 8),
    ):
        result.append(task, features(len(seconds), 1 + (task == "b")), seconds)
    table = result.table()
    chosen = table.recent(6)
    assert set(chosen.tolist()) >= {2, 7, 13, 14, 15} and 0 in chosen and len(chosen) <= 8
    part = table.take(chosen)
    np.testing.assert_array_equal(part.relative_times(), table.relative_times()[chosen])
    np.testing.assert_array_equal(part.offsets, np.cumsum([0, *np.diff(table.offsets)[chosen]]))
    again = table.take(np.arange(len(table.seconds)))
    np.testing.assert_array_equal(again.rows, table.rows)


def test_rows_of_a_part_of_a_table_are_those_of_its_programs(dataset: Dataset) -> None:
    table, chosen = dataset.table(), np.array([5, 0, 3])
    rows = [table.rows[table.offsets[n] : table.offsets[n + 1]] for n in chosen]
    np.testing.assert_array_equal(table.take(chosen).rows, np.concatenate(rows))


def test_take(dataset: Dataset) -> None:
    part = dataset.take(np.array([5, 3]))
    assert part.tasks == ("a", "b")
    assert part.table().rows[:, 0].tolist() == [3.0, 3.0, 3.0, 2.0]
    assert part.table().seconds.tolist() == [0.5, 30.0]


def test_files(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    dataset.save(path)
    loaded = Dataset.load(path)
    assert loaded.tasks == dataset.tasks
    for name in ("rows", "offsets", "groups", "seconds", "trials"):
        a, b = getattr(loaded.table(), name), getattr(dataset.table(), name)
        np.testing.assert_array_equal(a, b)
    count = np.bincount(dataset.table().groups)[0]
    loaded.append(dataset.tasks[0], features(1, 1), [1.0])
    assert loaded.table().trials[-1] == count
    loaded.append("d", features(1, 1), [1.0])
    assert loaded.tasks[-1] == "d" and len(loaded) == 9


def test_programs_have_numbers_of_their_task() -> None:
    made = Dataset()
    made.append("a", features(2, 1), [1.0, 2.0])
    made.append("b", features(1, 1), [1.0])
    made.append("a", features(2, 1), [3.0, 4.0], [9, 7])
    made.append("a", features(1, 1), [5.0])
    table = made.table()
    assert table.trials.tolist() == [0, 1, 0, 9, 7, 10]
    assert table.first_trials(0, 3).tolist() == [0, 1, 4]
    assert made.take(np.array([4, 2])).table().trials.tolist() == [7, 0]
    with pytest.raises(CostModelError, match="1 trial numbers for 2 programs"):
        made.append("a", features(2, 1), [1.0, 2.0], [3])


def test_an_empty_dataset_can_be_saved(tmp_path: Path) -> None:
    Dataset().save(tmp_path / "empty.npz")
    assert len(Dataset.load(tmp_path / "empty.npz")) == 0


def test_an_error_leaves_the_old_file(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "file.npz", tmp_path / "link.npz"
    file.write_text("old")
    link.symlink_to(file)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez_compressed", fail)
        with pytest.raises(OSError, match="No space"):
            dataset.save(link)
    assert file.read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    dataset.save(link)
    assert link.is_symlink() and len(Dataset.load(file)) == len(dataset)


def test_models_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    for model in (DraftModel(), RandomModel(np.random.default_rng(0))):
        with pytest.raises(CostModelError, match="No space"):
            model.save(path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_wrong_files_are_errors(tmp_path: Path, dataset: Dataset) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(b"nonsense")
    with pytest.raises(CostModelError, match="not a dataset"):
        Dataset.load(path)
    table = dataset.table()
    np.savez(path, version=np.array("0-old"), tasks=np.array(["a"]), rows=table.rows,
             offsets=table.offsets, groups=table.groups, seconds=table.seconds)  # fmt: skip
    with pytest.raises(CostModelError, match="version 0-old"):
        Dataset.load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"seconds": np.ones(2)},
        {"seconds": -np.ones(7)},
        {"offsets": np.arange(3)},
        {"offsets": np.zeros(8, np.int64)},
        {"trials": np.zeros(1, np.int64)},
        {"trials": np.full(7, 0.5)},
        {"groups": np.full(7, -1)},
        {"groups": np.full(7, 9)},
        {"rows": np.zeros((3, 3), np.float32)},
        {"tasks": np.array(["a", "a", "b"])},
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_together_are_errors(
    changed: dict[str, Any], tmp_path: Path, dataset: Dataset
) -> None:
    path = tmp_path / "data.npz"
    dataset.save(path)
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    assert len(content["seconds"]) == 7 and len(content["tasks"]) == 3
    np.savez(path, **{**content, **changed})
    with pytest.raises(CostModelError, match="not a dataset"):
        Dataset.load(path)


@pytest.mark.parametrize("seconds", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("inf")]])
def test_bad_times_are_errors(seconds: list[float]) -> None:
    with pytest.raises(CostModelError):
        Dataset().append("a", features(2, 1), seconds)
