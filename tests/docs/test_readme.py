"""The README's snippets run, its commands parse, its table is up to date."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What makes the snippets take minutes, and what stands for it here.
SHORTER = {'budget="10m"': "trials=24", "trials=200": "trials=8"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def shortened(snippet: str) -> str:
    for long, short in SHORTER.items():
        snippet = snippet.replace(long, short)
    return snippet


def test_every_long_figure_is_in_the_snippets():
    assert all(long in "".join(blocks("python")) for long in SHORTER)


def test_python_snippets_run(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="the first snippet reads an ONNX file")
    from autosched import zoo
    from autosched.onnx_export import to_onnx

    monkeypatch.chdir(tmp_path)
    small = zoo.build("resnet-18", image=32)
    Path("resnet18.onnx").write_bytes(to_onnx(small.graph).SerializeToString())
    namespace: dict[str, object] = {}
    for snippet in blocks("python"):
        exec(compile(shortened(snippet), "README.md", "exec"), namespace)


def commands() -> list[str]:
    lines = [
        line.split("#")[0].strip() for block in blocks("console") for line in block.split("\n")
    ]
    return [line for line in lines if line.startswith("autosched ")]


@pytest.mark.parametrize("command", commands())
def test_commands_parse(command):
    from autosched.cli.app import make_parser

    assert make_parser().parse_args(shlex.split(command)[1:])


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", README))
    assert named - set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE)) == set()


def test_results_are_those_of_the_benchmarks():
    from benchmarks.readme_table import RESULTS, generate, replaced

    assert replaced(README, generate(RESULTS)) == README
