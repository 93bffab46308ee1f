"""Without NVRTC one sentence says what to install."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from autosched.cli.app import main
from codegen.cuda.nvrtc import missing_compiler

SENTENCE = 'NVRTC is not installed: pip install "autosched[cuda]"'


@pytest.fixture(params=[ImportError, RuntimeError, OSError])
def without_nvrtc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise request.param("Failure finding libnvrtc.so.13: searched in " + "/a/folder, " * 20)

    package, module = ModuleType("cuda.bindings"), ModuleType("cuda.bindings.nvrtc")
    module.nvrtcVersion = fail  # type: ignore[attr-defined]
    package.nvrtc = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", module)


@pytest.mark.usefixtures("without_nvrtc")
def test_one_sentence_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert missing_compiler() == missing_compiler("sm_90") == SENTENCE
    words = ["--workload", "GMM", "--args", "batch=1,n=8,m=8,k=8", "--target", "cuda:h200"]
    assert main(["compile", *words, "-o", "unused"]) == 1
    said = capsys.readouterr().err
    assert said.count("NVRTC") == 1 and said.count("pip install") == 1 and "searched" not in said
