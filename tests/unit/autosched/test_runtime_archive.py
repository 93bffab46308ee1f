import zipfile
from pathlib import Path

import numpy as np
import pytest

from autosched.runtime.archive import read_archive, write_archive
from autosched.runtime.errors import ModuleFileError
from autosched.runtime.program import HostStep, Place, Program, Step, StepInfo, TensorSpec
from sketch.target import Target

CONSTANTS = np.arange(200, dtype=np.uint8)
OBJECTS = {"k0": b"code", "driver": b"\x7fELF"}

PAYLOADS = {"top_k.1": b"an ONNX model"}


def make_program() -> Program:
    spec = TensorSpec("x", (2, 3), "float32")
    step = Step(
        "k0", (Place("input", 0), Place("constants", 64), Place("arena", 0)),
        StepInfo("first", ("conv", "relu"), "conv_relu", "2x3", 12.0, "ab", "record"),
    )  # fmt: skip
    evaluation = HostStep(
        "top_k.1",
        ((spec, Place("arena", 0)), (TensorSpec("s", (0,), "object"), Place("host", 0))),
        ((1, spec, Place("arena", 64)),),
        StepInfo("top_k.1", ("sort",), "TopK", "2x3 -> 2x3", schedule="host"),
    )
    target = Target("cpu", "generic", threads=3)
    return Program(
        "net", target, (spec,), ((spec, Place("arena", 64)),), (step, evaluation), 128, 200
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "net.asd"
    write_archive(path, make_program(), CONSTANTS, OBJECTS, PAYLOADS)
    return path


def rewrite(path: Path, name: str, content: bytes | None) -> None:
    """Replace or drop one member."""
    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    members.pop(name)
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        if content is not None:
            archive.writestr(name, content)


def test_what_is_written_is_read(path: Path) -> None:
    program, constants, objects, payloads = read_archive(path)
    assert program == make_program()
    assert payloads == PAYLOADS
    assert np.array_equal(constants, CONSTANTS)
    assert objects == OBJECTS
    assert [p.name for p in path.parent.iterdir()] == ["net.asd"]


def test_a_file_that_is_no_module(tmp_path: Path) -> None:
    other = tmp_path / "other.asd"
    other.write_text("hello")
    with pytest.raises(ModuleFileError, match="no module"):
        read_archive(other)
    with pytest.raises(ModuleFileError, match="cannot read"):
        read_archive(tmp_path / "missing.asd")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(ModuleFileError, match="no module"):
        read_archive(other)


@pytest.mark.parametrize("position", [0.2, 0.5, 0.9])
def test_a_truncated_file(path: Path, position: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * position)])
    with pytest.raises(ModuleFileError, match="damaged"):
        read_archive(path)


def test_flipped_bytes_in_the_constants(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = data.find(bytes(CONSTANTS[100:120]))
    data[start] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(ModuleFileError, match="damaged"):
        read_archive(path)


def test_another_format_version(path: Path) -> None:
    rewrite(path, "module.json", b'{"version": 99}')
    with pytest.raises(ModuleFileError, match=r"module format 99, this release reads 4"):
        read_archive(path)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 1}', b'{"version": 1, "name": 3}'])
def test_a_damaged_plan(path: Path, content: bytes) -> None:
    rewrite(path, "module.json", content)
    with pytest.raises(ModuleFileError):
        read_archive(path)


def test_constants_of_a_wrong_size_or_missing(path: Path) -> None:
    rewrite(path, "constants.bin", b"123")
    with pytest.raises(ModuleFileError, match="has 3 bytes, expected 200"):
        read_archive(path)
    rewrite(path, "constants.bin", None)
    with pytest.raises(ModuleFileError):
        read_archive(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ModuleFileError, match="cannot write"):
        write_archive(tmp_path / "no" / "net.asd", make_program(), CONSTANTS, OBJECTS)
