"""Saved modules: what is written is read; whatever else is refused, before any of it is linked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autosched as asd
from autosched.cli.app import main
from autosched.runtime import user_key
from autosched.runtime.archive import read_archive, write_archive
from autosched.runtime.errors import ModuleFileError, UntrustedModuleError
from autosched.runtime.module import Module
from autosched.system.user_warnings import AutoschedWarning
from tests.support.archive_mutations import damaged_bytes, damaged_plan
from tests.support.archives import change_plan, members_of, small_module, write_sealed

ROOT = Path(__file__).parents[4]
FUZZ = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def module() -> Module:
    return small_module()


@pytest.fixture
def path(tmp_path: Path, module: Module) -> Path:
    path = tmp_path / "net.asd"
    module.save(path)
    return path


def test_what_is_written_is_read(path: Path, module: Module) -> None:
    ((program, constants, objects, payloads),) = read_archive(path)
    assert program == module.program and payloads == {} and objects == module.objects
    assert np.array_equal(constants, module.constants)
    assert [p.name for p in path.parent.iterdir()] == ["net.asd"]
    inputs = module.random_inputs()
    np.testing.assert_array_equal(asd.load(path).run(inputs)["C"], module.run(inputs)["C"])


def test_what_is_written_later_is_the_same(
    path: Path, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    now = time.gmtime(time.time() + 10_000)
    monkeypatch.setattr(time, "localtime", lambda *_: now)
    module.save(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_module(tmp_path: Path) -> None:
    other = tmp_path / "other.asd"
    other.write_text("hello")
    with pytest.raises(ModuleFileError, match="no module"):
        read_archive(other)
    with pytest.raises(ModuleFileError) as missing:
        read_archive(tmp_path / "missing.asd")
    absent = "cannot read the module: No such file or directory"
    assert str(missing.value) == f"{absent} | {tmp_path}/missing.asd"
    with pytest.raises(ModuleFileError) as folder:
        read_archive(tmp_path)
    assert str(folder.value) == f"this is no regular file | {tmp_path}"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(ModuleFileError, match="no module"):
        read_archive(other)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.asd")
    with pytest.raises(ModuleFileError, match="no regular file"):
        read_archive(tmp_path / "pipe.asd")


def test_several_threads_may_save_to_one_path(tmp_path: Path, module: Module) -> None:
    with ThreadPoolExecutor(8) as pool:
        saved = [pool.submit(module.save, tmp_path / "net.asd") for _ in range(40)]
    assert [future.exception() for future in saved] == [None] * 40
    assert [p.name for p in tmp_path.iterdir()] == ["net.asd"]
    assert read_archive(tmp_path / "net.asd")[0][0] == module.program


def test_a_place_that_cannot_be_written(tmp_path: Path, module: Module) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModuleFileError, match=r"cannot write .*net\.asd \| choose another file"):
        write_archive(tmp_path / "file" / "net.asd", [module.contents])


def test_a_folder_that_is_missing_is_made(tmp_path: Path, module: Module) -> None:
    module.save(tmp_path / "new" / "er" / "net.asd")
    assert asd.load(tmp_path / "new" / "er" / "net.asd").name == module.name


@pytest.mark.parametrize("version", [6, 99, None, True, "7"])
def test_another_format_version(path: Path, version: object) -> None:
    change_plan(path, lambda plan: plan.update(version=version))
    with pytest.raises(ModuleFileError, match=rf"module format {version!r}, this release reads 7"):
        read_archive(path)


def test_a_module_of_a_release_without_manifests(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("module.json", '{"version": 2}')
    with pytest.raises(ModuleFileError, match="module format 2, this release reads 7"):
        read_archive(path)


def test_every_byte_that_changes_is_noticed(path: Path, module: Module) -> None:
    """Of every member, and of the zip around them: refused, or the same module."""
    data, inputs = path.read_bytes(), module.random_inputs()
    expected = module.run(inputs)["C"]

    @FUZZ
    @given(seed=st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        path.write_bytes(damaged_bytes(data, random.Random(seed)))
        for trusted in (False, True):
            try:
                found = asd.load(path, trusted, shared=bool(seed % 2)).run(inputs)["C"]
            except ModuleFileError as error:
                assert str(path) in str(error)
            else:
                np.testing.assert_array_equal(found, expected)

    check()


def test_a_sealed_plan_with_a_wrong_value_is_refused_or_runs(path: Path) -> None:
    members = members_of(path)
    plan = json.loads(members["module.json"])

    @FUZZ
    @given(seed=st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        wrong = json.dumps(damaged_plan(plan, random.Random(seed))).encode()
        write_sealed(path, members | {"module.json": wrong})
        try:
            loaded = asd.load(path)
            loaded.run(loaded.random_inputs())
        except asd.AutoschedError as error:
            assert str(error)

    check()


def test_a_damaged_object_never_ends_the_process(path: Path) -> None:
    """In another process: a linker that is misled does not raise, it aborts."""
    command = [sys.executable, "-m", "tests.support.archive_mutations", str(path), "0", "300"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    refused = int(done.stdout.split()[1])
    assert 100 < refused < 300


def set_place(step: int, argument: int, place: list[Any], **changes: int) -> Callable[[Any], None]:
    def change(plan: Any) -> None:
        plan.update(changes)
        plan["steps"][step]["arguments"][argument] = place

    return change


@pytest.mark.parametrize(
    "change, message",
    [
        (set_place(0, 0, ["arena", 1 << 40]), r"bytes 1099511627776 to .* in segment 'arena'"),
        (set_place(0, 0, ["arena", -64]), "-64 is negative"),
        (set_place(0, 0, ["arena", 1 << 62]), "no whole number"),
        (set_place(0, 0, ["input", 1]), "input 1 of 1"),
        (set_place(0, 0, ["input", True]), "True is no whole number"),
        (set_place(0, 0, ["heap", 0]), "no segment 'heap'"),
        (set_place(0, 0, ["host", 0]), "a kernel reads an array of the host"),
        (set_place(0, 1, ["constants", 64]), "in segment 'constants'"),
        (set_place(0, -1, ["arena", 4], arena_bytes=64), "not aligned to 64"),
        (lambda plan: plan["steps"][0]["arguments"].pop(), "arguments with"),
        (lambda plan: plan["steps"][0].update(symbol="system"), "no code 'system'"),
        (lambda plan: plan["steps"][0].update(sizes=["1"] * 4), "'1' is no whole number"),
        (lambda plan: plan.pop("arena_bytes"), "'arena_bytes' is missing"),
        (lambda plan: plan["outputs"][0][0].update(shape=[4]), "in segment 'output'"),
        (set_place(0, 2, ["output", 1]), "output 1 lies elsewhere"),
        (lambda plan: plan["outputs"][0].__setitem__(1, ["arena", 0]), "output 0 lies elsewhere"),
        (lambda plan: plan.update(arena_bytes=1.5), "1.5 is no whole number"),
        (lambda plan: plan.update(constants_bytes=1 << 20), "expected 1048576"),
        (lambda plan: plan.update(loops=[[0, 2, 1]]), "there are 1 steps"),
        (lambda plan: plan.update(loops=[[0, 1, 1 << 40]]), "kernels in one run"),
        (lambda plan: plan.update(loops=[[0, 1, 2], [0, 1, 2]]), "overlap"),
        (lambda plan: plan.update(steps={}), "is no list"),
        (lambda plan: plan.update(name=3), "3 is no text"),
        (lambda plan: plan.update(inputs=plan["inputs"] * 2), "two of one name"),
        (lambda plan: plan["inputs"][0].update(dtype="float33"), "no element type 'float33'"),
        (lambda plan: plan["inputs"][0].update(dtype="i4,i4"), "no element type 'i4,i4'"),
        (lambda plan: plan["inputs"][0].update(shape=[1] * 65), "a shape of"),
        (lambda plan: plan["inputs"][0].update(shape=[2, 2]), "segment 'input'"),
        (lambda plan: plan["outputs"][0][0].update(shape=[1 << 40] * 2), "a shape of"),
        (lambda plan: plan["target"].update(kind="cuda"), "files that make no kernel"),
        (lambda plan: plan["target"].update(threads=0), "threads is 0"),
        (lambda plan: plan["target"].update(threads=1 << 20), "threads is 1048576"),
        (lambda plan: plan["steps"][0]["info"].update(flops=float("nan")), "NaN is no number"),
    ],
)
def test_a_sealed_plan_that_does_not_fit_itself(
    path: Path, change: Callable[[Any], None], message: str
) -> None:
    change_plan(path, change)
    with pytest.raises(ModuleFileError, match=message):
        read_archive(path)


def test_members_that_are_not_those_that_were_written(path: Path) -> None:
    members = members_of(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.txt", "more")
    with pytest.raises(ModuleFileError, match="not those that were written"):
        read_archive(path)
    members.pop("constants.bin")
    write_sealed(path, members)
    with pytest.raises(ModuleFileError, match=r"constants\.bin"):
        read_archive(path)


def test_a_zip_bomb_is_refused_before_it_is_opened(path: Path) -> None:
    members = members_of(path) | {"host/bomb.onnx": bytes(1 << 26)}
    write_sealed(path, members, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ModuleFileError, match="is compressed"):
        read_archive(path)


def test_code_that_calls_what_is_not_there(path: Path) -> None:
    """LLVM would end the process."""
    members = members_of(path)
    name = "objects/run_plan.o"
    members[name] = members[name].replace(b"clock_gettime", b"clock_getting")
    write_sealed(path, members)
    with pytest.raises(ModuleFileError, match="clock_getting, which this process does not have"):
        asd.load(path)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another user's home, or another machine."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(Path, "home", lambda: home)
    return home


def test_a_module_from_elsewhere_must_be_trusted(
    path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        UntrustedModuleError, match=r"not signed with the key of this user.*trusted=True"
    ):
        asd.load(path)
    module = asd.load(path, trusted=True)
    assert main(["summary", str(path)]) == 1
    assert "--trusted" in capsys.readouterr().err
    assert main(["summary", str(path), "--trusted"]) == 0
    assert main(["compile", str(path), "--save", str(path.with_name("mine.asd"))]) == 1
    module.save(path)  # by this user now
    assert asd.load(path).name == "exp_product"
    key = elsewhere / ".local/share/autosched/module.key"
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32


def test_a_home_that_cannot_be_written_is_a_warning_with_its_reason(
    path: Path, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/proc/no-home"))
    with pytest.warns(
        AutoschedWarning, match=r"no key can be kept \(/proc/no-home.*: No such file"
    ):
        module.save(path)
    assert asd.load(path).name == module.name


@pytest.mark.parametrize("spoil", ["mode", "link", "short", "folder", "home", "empty"])
def test_a_key_that_is_no_secret_signs_nothing(
    path: Path, module: Module, elsewhere: Path, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.save(path)
    key = elsewhere / ".local/share/autosched/module.key"
    if spoil == "mode":
        key.chmod(0o644)
    elif spoil == "link":
        key.rename(key.with_name("other"))
        key.symlink_to("other")
    elif spoil == "short":
        key.write_bytes(b"short")
    elif spoil == "folder":
        key.unlink()
        key.mkdir()
    elif spoil == "home":
        monkeypatch.setattr(user_key, "key_file", lambda: None)
    else:
        monkeypatch.chdir(elsewhere)  # where the key lies that must not be taken
        monkeypatch.setattr(Path, "home", lambda: Path(""))
    with pytest.warns(
        AutoschedWarning, match=r"no key can be kept \(.*known to this process alone"
    ):
        module.save(path)
    assert asd.load(path).name == module.name
    monkeypatch.setattr(user_key, "_UNKEPT", bytes(32))  # another process
    with pytest.raises(UntrustedModuleError, match="not signed with the key of this user"):
        asd.load(path)
    assert asd.load(path, trusted=True).name == module.name


def test_what_a_foreign_file_says_of_its_key_is_not_told(path: Path, elsewhere: Path) -> None:
    members = members_of(path)
    with zipfile.ZipFile(path) as archive:
        sealed = json.loads(archive.read("manifest.json"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps({**sealed, "kept": False}))
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(UntrustedModuleError, match="is not signed with the key") as error:
        asd.load(path)
    assert "process" not in str(error.value)


def test_a_signature_is_of_the_content(path: Path) -> None:
    """The signature of one module under the members of another."""
    with zipfile.ZipFile(path) as archive:
        sealed = json.loads(archive.read("manifest.json"))
    members = members_of(path)
    members["module.json"] += b" "
    write_sealed(path, members)
    with zipfile.ZipFile(path) as archive:
        other = json.loads(archive.read("manifest.json"))
    other["signature"] = sealed["signature"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(other))
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(UntrustedModuleError):
        asd.load(path)
