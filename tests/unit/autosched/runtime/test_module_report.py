"""``Module.report``: one page of where the time goes, also in a notebook."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import autosched as asd
from autosched.runtime.explanation import Machine
from autosched.runtime.module import Module
from autosched.system.errors import MissingPackageError, OptionError
from tests.support.report_logs import MARKUP, fake_library

MACHINE = Machine(1e11, 1e10, 1_000_000, threads=1)


@pytest.fixture(scope="module")
def whole() -> Module:
    networks = [asd.zoo.build("mlp", image=4, batch=batch) for batch in (1, 2)]
    return asd.compile(networks, threads=1, effort="none")


@pytest.fixture
def module(whole: Module, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Draws nothing, and measures no machine."""
    fake_library(monkeypatch)
    for part in whole.modules:
        monkeypatch.setattr(type(part._loaded), "machine", lambda _: MACHINE)
    return whole


def test_a_page_has_what_the_module_takes_and_where(module: Module, tmp_path: Path) -> None:
    one = module.modules[0]
    page = one.report(tmp_path / "page.html", repeats=3)
    assert page.path == tmp_path / "page.html" and page.path.read_text() == page.text
    titles = re.findall(r"<h2 id=\"([\w-]+)\">", page.text)
    assert titles == ["overview", "operators", "roofline", "machine"]
    assert page.text.count("<figure") == 2
    for step in one.program.steps:
        assert page.text.count(f'<td class="left">{step.info.task[:8]}</td>') >= 2
    assert "median" in page.text and "model only" in page.text and "100 GFLOP/s" in page.text


def test_shapes_have_their_own_sections(module: Module) -> None:
    page = module.report(repeats=2)
    assert page.path is None
    assert [f'id="roofline-{n}"' in page.text for n in (0, 1, 2)] == [True, True, False]
    second = module.modules[1]
    one = module.report(inputs=second.random_inputs(), repeats=2)
    assert str(second.inputs[0]) in one.text and str(module.inputs[0]) not in one.text


def test_a_notebook_shows_the_page_in_a_frame(module: Module) -> None:
    page = module.modules[0].report(repeats=1)
    html = page._repr_html_()
    assert html.startswith("<iframe") and 'sandbox="allow-scripts"' in html
    (source,) = re.findall(r'srcdoc="([^"]*)"', html)
    assert unescape(source) == page.text
    assert repr(page) == f"ReportPage({len(page.text) / 1e6:.1f} MB)"


def test_operators_of_one_kind_are_told_apart(module: Module) -> None:
    page = module.modules[0].report(repeats=1)
    operators = [step.info.op for step in module.modules[0].program.steps]
    repeated = {op for op in operators if operators.count(op) > 1}
    assert repeated
    for op in repeated:
        assert [f">{op} {n}</th>" in page.text for n in (1, 2)] == [True, True]


def test_where_it_cannot_be_written_is_an_error(module: Module, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the report cannot be written"):
        module.report(tmp_path, repeats=1)


def test_names_of_a_network_are_text(module: Module) -> None:
    net = asd.zoo.build("mlp", image=2)
    other = asd.compile(type(net)(MARKUP, net.graph), threads=1, effort="none")
    text = other.report(repeats=1).text
    assert MARKUP not in text and f"Module report: {MARKUP}" in unescape(text)


def test_without_the_package_it_says_what_to_install(
    module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str, purpose: str, install: str) -> None:
        raise MissingPackageError(f"the package {package!r} is not installed", purpose, install)

    monkeypatch.setattr("autosched.page.file.require", missing)
    with pytest.raises(MissingPackageError, match="vl_convert"):
        module.report(repeats=1)
