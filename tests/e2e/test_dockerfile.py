"""The Dockerfile: sound without a builder, and where there is one its image tunes a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from autosched.cli.app import make_parser

ROOT = Path(__file__).parents[2]
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "ENTRYPOINT", "CMD"}


def stages() -> list[list[tuple[str, str]]]:
    """Instructions with their arguments, by stage; lines that are continued are one."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: list[list[tuple[str, str]]] = []
    for line in lines:
        name, _, rest = line.partition(" ")
        assert name in KNOWN, line
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def values(stage: list[tuple[str, str]], name: str) -> list[str]:
    return [rest for instruction, rest in stage if instruction == name]


@cache
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_its_bases_are_pinned_to_a_python_that_we_take() -> None:
    build, final = stages()
    images = {values(stage, "FROM")[0].split()[0] for stage in (build, final)}
    (image,) = images
    version = re.fullmatch(r"python:3\.(\d+)-slim-\w+", image)
    assert version is not None
    classifier = f"Programming Language :: Python :: 3.{version[1]}"
    assert classifier in project()["project"]["classifiers"]


def test_all_that_the_wheel_is_made_of_is_copied() -> None:
    copied = [rest.split()[:-1] for rest in values(stages()[0], "COPY")]
    sources = {name for names in copied for name in names}
    metadata = project()["project"]
    wanted = set(project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    wanted |= {"pyproject.toml", metadata["readme"], *metadata["license-files"]}
    assert sources == wanted and all((ROOT / name).exists() for name in sources)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored and allowed == wanted


def test_the_image_runs_tune_as_an_ordinary_user() -> None:
    final = stages()[1]
    assert values(final, "USER") == ["autosched"]
    names = [name for name, _ in final]
    assert names.index("USER") > max(n for n, name in enumerate(names) if name == "RUN")
    (entry,), (command,) = values(final, "ENTRYPOINT"), values(final, "CMD")
    assert json.loads(entry) == ["autosched"]
    arguments = make_parser().parse_args(json.loads(command))
    assert arguments.model == "resnet-18" and arguments.log == "resnet-18.jsonl"


def test_what_is_installed_leaves_nothing_behind() -> None:
    runs = values(stages()[1], "RUN")
    apt = [run for run in runs if "apt-get install" in run]
    assert all("-y --no-install-recommends" in run and "apt-get update" in run for run in apt)
    assert all("rm -rf /var/lib/apt/lists" in run for run in apt)
    assert any("libgomp1" in run for run in apt)
    assert all("--no-cache-dir" in run for stage in stages() for run in values(stage, "RUN")
               if re.search(r"\bpip (install|wheel)", run))  # fmt: skip


def no_builder() -> str | None:
    """Why no image can be built here."""
    docker = shutil.which("docker")
    if docker is None:
        return "docker is not installed"
    server = subprocess.run([docker, "info"], capture_output=True, text=True, timeout=60)
    return None if server.returncode == 0 else "no docker daemon runs here"


@pytest.mark.slow
def test_the_image_is_built_and_tunes(tmp_path: Path) -> None:
    reason = no_builder()
    if reason is not None:
        pytest.skip(reason)
    tmp_path.chmod(0o777)
    subprocess.run(["docker", "build", "-q", "-t", "autosched-test", "."], cwd=ROOT, check=True)
    command = ["tune", "resnet-18", "--trials", "12", "--log", "resnet-18.jsonl"]
    subprocess.run(
        ["docker", "run", "--rm", "-v", f"{tmp_path}:/data", "autosched-test", *command], check=True
    )
    assert (tmp_path / "resnet-18.jsonl").stat().st_size > 0
