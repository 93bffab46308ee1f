"""Where models are written, and what is said where they cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.adapted import AdaptedModel
from costmodel.errors import CostModelError
from costmodel.gbdt import GradientBoostedModel
from costmodel.model_file import read_model, write_model


def test_a_folder_that_takes_no_other_file_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_text("old")
    inode = path.stat().st_ino
    monkeypatch.setattr(os, "access", lambda *_: False)
    write_model(path, "new")
    assert path.read_text() == "new" and path.stat().st_ino == inode
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "."])
def test_what_names_no_file_is_one_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="the model cannot be written: "):
        write_model(tmp_path / name, b"model")


@pytest.mark.parametrize("load", [GradientBoostedModel.load, AdaptedModel.load, read_model])
def test_a_model_that_is_not_there_is_named_once(
    load: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(CostModelError) as raised:
        load(tmp_path / "model.json")
    absent = "the model cannot be read: No such file or directory"
    assert str(raised.value) == f"{absent} | {tmp_path}/model.json"
