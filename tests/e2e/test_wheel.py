"""The wheel: pure Python, small, and enough to tune where there is no compiler."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 8_000_000
SESSION = """\
import shutil
import sys
import numpy as np
import autosched as asd

assert not any(map(shutil.which, ("cc", "gcc", "c++", "g++", "clang", "ld", "nvcc")))
net = asd.zoo.build("mlp", image=4)
tuning = asd.tune(net, threads=1, trials=12, budget="20s", log="mlp.jsonl", quiet=True)
assert tuning.result.trials == 12
module = asd.compile(net, threads=1, log="mlp.jsonl")
assert not module.untuned
module.save("mlp.asd")
x = module.random_inputs()
assert np.array_equal(asd.load("mlp.asd").run(x)["logits"], module.run(x)["logits"])
print(module.export_library("mlp").note)
"""


def run(*command: object, **options: Any) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=900, **options
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what is tracked, as from a clone."""
    if shutil.which("git") is None:
        pytest.skip("git lists the files that the wheel is made of")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in names.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("benchmarks/", "tests/", "notebooks/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    try:
        run(*pip, "wheel", "-q", "--no-deps", "-w", folder, ".", cwd=source)
    except AssertionError as error:
        if "Could not find a version" in str(error):
            pytest.skip("the build back end cannot be downloaded")
        raise
    (path,) = folder.iterdir()
    return path


@pytest.mark.slow
def test_it_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"autosched", "sketch", "costmodel", "codegen"}
    assert {"autosched/cli/app.py", "codegen/py.typed"} <= set(names)
    shown = run("git", "ls-files", *sorted(tops), cwd=ROOT).splitlines()
    assert [name for name in shown if (ROOT / name).is_file() and name not in names] == []


def interpreter(version: str) -> str | None:
    """A Python of that version: this one, one on the path, or one that pyenv manages."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    managed = Path(pwd.getpwuid(os.getuid()).pw_dir, ".pyenv/versions")
    candidates = [shutil.which(f"python{version}"), *managed.glob(f"{version}.*/bin/python")]
    for candidate in candidates:
        command = (str(candidate), "-c", "import venv, ctypes")
        if candidate is not None and subprocess.run(command, capture_output=True).returncode == 0:
            return str(candidate)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_an_empty_environment_tunes_compiles_and_runs(
    wheel: Path, tmp_path: Path, version: str
) -> None:
    """With what the distribution depends on and nothing else, and no compiler on the path."""
    found = interpreter(version)
    if found is None:
        pytest.skip(f"there is no Python {version}")
    venv = tmp_path / "venv"
    run(found, "-m", "venv", "--without-pip", venv)
    python = venv / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    try:
        run(*pip, "install", "-q", wheel)
    except AssertionError as error:
        if "Could not find a version" in str(error):
            pytest.skip("the dependencies cannot be downloaded")
        raise
    environment = {"PATH": str(venv / "bin"), "HOME": str(tmp_path)}
    environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    script = tmp_path / "session.py"
    script.write_text(SESSION)
    printed = run(python, script, cwd=tmp_path, env=environment)
    assert "no shared library: none of" in printed
    command = venv / "bin" / "autosched"
    told = run(command, "doctor", cwd=tmp_path, env=environment)
    assert 'pip install "autosched[onnx]"' in told
    assert "mlp" in run(command, "bench", "mlp.asd", cwd=tmp_path, env=environment)
