"""What ``import autosched`` does and does not do, in fresh processes."""

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import autosched as asd

HEAVY = ("lightgbm", "llvmlite", "sklearn", "onnx", "onnxruntime", "torch", "sympy", "pandas",
         "scipy", "rich", "cuda")  # fmt: skip
ROOT = Path(asd.__file__).parent.parent


def run_python(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run code with ``paths`` in front of everything else, then the repository."""
    lines = f"import sys; sys.path[:0] = {[str(p) for p in (*paths, ROOT)]!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=False
    )


def test_the_import_is_light() -> None:
    code = f"import autosched; print([m for m in {HEAVY} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_measuring_on_a_cpu_loads_nothing_of_a_gpu() -> None:
    code = (
        "import autosched.measure.zygote_main\n"
        "print([m for m in sys.modules if m.startswith(('cuda', 'codegen.cuda', 'codegen.gpu.'))])"
    )
    assert run_python(code).stdout.strip() == "['codegen.gpu.alignment']"


def test_a_tensor_program_needs_nothing_heavy() -> None:
    code = (
        "import autosched as asd\n"
        "a, k = asd.placeholder((4, 4)), asd.reduce_axis(4)\n"
        "asd.compute((4,), lambda i: asd.sum(asd.exp(a[i, k]), axis=k))\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_all_public_names_exist() -> None:
    for name in dir(asd):
        assert getattr(asd, name) is not None
    assert set(asd.__all__) < set(dir(asd))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        asd.nonsense  # noqa: B018


def test_a_star_import_leaves_the_builtins_alone() -> None:
    names: dict[str, Any] = {}
    exec("from autosched import *", names)
    assert "compute" in names and not names.keys() & vars(builtins).keys() - {"__builtins__"}
    left = set(dir(asd)) - names.keys()
    assert left == {"abs", "compile", "max", "min", "pow", "round", "sum"}


@pytest.mark.parametrize("content", ["VALUE = 1", "raise RuntimeError('old')", "import nothing_so"])
@pytest.mark.parametrize("name", ["sketch", "costmodel", "codegen"])
def test_a_foreign_companion_gives_one_clear_error(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / f"{name}.py").write_text(content)
    result = run_python("import autosched", tmp_path)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: autosched needs its own package '{name}'")
    assert "uninstall the other" in last


def test_a_namespace_stub_is_foreign(tmp_path: Path) -> None:
    code = "import types; sys.modules['codegen'] = types.ModuleType('codegen')\nimport autosched"
    assert "an empty folder of that name" in run_python(code, tmp_path).stderr


def test_the_import_takes_no_time() -> None:
    """CPU seconds, of the best of three; it is a hundredth of a second where nobody disturbs it."""
    code = (
        "import time; began = time.process_time()\n"
        "import autosched; print(time.process_time() - began)"
    )
    assert min(float(run_python(code).stdout) for _ in range(3)) < 0.15
