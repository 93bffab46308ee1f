"""Snippets of README and docs/ run and print what the pages say; commands parse, links lead on."""

from __future__ import annotations

import ast
import os
import pwd
import re
import shutil
import subprocess
from inspect import Parameter, signature
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.lowering import LOWERINGS
from tests.support.onnx_sessions import reference_session
from tests.support.pages import PAGES, ROOT, Block, Page, arguments, run
from tests.support.small_graphs import Net

# What makes snippets take minutes, and what stands for it here.
SHORTER = {
    'budget="10m"': "trials=4",
    "trials=200": "trials=4",
    "trials=64": "trials=4",
    '"squeezenet-1.1"': '"mlp"',
}

# Pages whose snippets a test of its own runs.
CHECKED_BELOW = ("add-an-operator", "deploy", "fleet")

# Pages whose snippets tune or compile several times; in every run only their imports are looked up.
LONG = (
    "coming-from", "cost-models", "diagnose", "faq", "search-policies", "serving", "stores", "tune",
)  # fmt: skip

OURS = ("autosched", "sketch", "costmodel", "codegen")

# By language, what compiles its example on the page about deployment, and the name of its file.
EXAMPLES = {"c": ("cc", "main.c"), "cpp": ("c++", "main.cpp"), "rust": ("rustc", "main.rs")}

every_page = pytest.mark.parametrize("page", [Page(path) for path in PAGES], ids=str)


@pytest.fixture(scope="module")
def onnx_model() -> bytes:
    pytest.importorskip("onnx", reason="snippets read an ONNX file")
    from autosched.onnx.export import to_onnx

    net = Net((1, 3, 16, 16), "data")
    first = net.unary(net.norm(net.conv(net.x, 8)))
    last = net.unary(net.then(BinaryOp("add"), net.norm(net.conv(first, 8)), first))
    return bytes(to_onnx(net.finish({"logits": last})).SerializeToString())


@pytest.fixture
def folder(tmp_path, monkeypatch, onnx_model):
    monkeypatch.chdir(tmp_path)
    Path("resnet18.onnx").write_bytes(onnx_model)
    return tmp_path


def same(expected: str, printed: str) -> bool:
    """Whether lines agree but for blanks at their ends; a line "..." stands for any lines."""
    parts = [
        re.escape(part.strip("\n")) for part in re.split(r"^\.\.\.$", tidy(expected), flags=re.M)
    ]
    return re.fullmatch(r"\n(?:.*\n)*?".join(parts).strip("\n"), tidy(printed)) is not None


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def rewrite(page: Page, outputs: list[tuple[Block, str]]) -> None:
    text = page.text
    for block, printed in reversed(outputs):
        text = text[: block.start] + tidy(printed) + "\n" + text[block.end :]
    page.path.write_text(text, encoding="utf-8")


def marked(page):
    return pytest.param(page, marks=pytest.mark.slow) if page.path.stem in LONG else page


@pytest.mark.parametrize(
    "page",
    [marked(page) for page in map(Page, PAGES) if page.path.stem not in CHECKED_BELOW],
    ids=str,
)
def test_snippets_run_and_print_what_the_page_says(page, folder, request):
    check_snippets(page, folder, request)


def check_snippets(page, folder, request):
    """The names that a page's snippets define; they print what the page says."""
    names: dict = {}
    outputs = list(run(page, SHORTER, torch=False, namespace=names))
    wrong = [(block, printed) for block, printed in outputs if not same(block.text, printed)]
    if wrong and request.config.getoption("--update-golden"):
        rewrite(page, wrong)
        return names
    for block, printed in wrong:
        assert tidy(block.text) == tidy(printed), (
            "if that is right, run pytest with --update-golden"
        )
    for test in names_in_suites(names):
        test(**{"tmp_path": folder} if "tmp_path" in signature(test).parameters else {})
    return names


@every_page
def test_what_snippets_import_exists(page):
    """Also ``asd.name``, and arguments by name of what is called so or was imported."""
    known = {}
    for block in page.blocks:
        if block.language != "python" or block.needs_torch:
            continue
        tree = ast.parse(block.text)
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), str(page.path), "exec"), known)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_asd(node.value):
                assert hasattr(asd, node.attr), node.attr
            if isinstance(node, ast.Call):
                called = known.get(getattr(node.func, "id", None))
                if isinstance(node.func, ast.Attribute) and is_asd(node.func.value):
                    called = getattr(asd, node.func.attr)
                check_arguments(called, {word.arg for word in node.keywords} - {None})


def is_asd(node):
    return isinstance(node, ast.Name) and node.id == "asd"


def check_arguments(called, names):
    """Whether a function or class of ours takes arguments of these names."""
    if getattr(called, "__module__", "").partition(".")[0] not in OURS:
        return
    taken = signature(called).parameters
    if all(p.kind is not Parameter.VAR_KEYWORD for p in taken.values()):
        assert names <= taken.keys(), called


def names_in_suites(names):
    """The methods that pytest would run of the classes that a page derives from suites."""
    suites = [value() for name, value in names.items() if name.startswith("Test")]
    assert all(type(suite).mro()[1].__module__.startswith("autosched.testing") for suite in suites)
    return [getattr(suite, name) for suite in suites for name in dir(suite) if "test_" in name]


def test_the_page_on_import_lists_all_operators_with_kernels():
    from autosched.onnx.importer.table import IMPORTERS

    text = Page(ROOT / "docs" / "import.md").text
    (listed,) = re.findall(r"^ONNX operators with kernels.*?\n\n((?:> .*\n)+)", text, flags=re.M)
    assert re.findall(r"[\w.]+", listed) == sorted(IMPORTERS)


def test_the_operator_of_the_how_to_runs_in_a_network(folder, request, monkeypatch):
    """The lines that the page adds to tables are added, and a model with the operator is run."""
    from autosched.onnx.export import to_onnx
    from autosched.onnx.export.table import FORMS
    from autosched.onnx.importer.table import IMPORTERS

    page = Page(ROOT / "docs" / "add-an-operator.md")
    names = check_snippets(page, folder, request)
    tables = {"LOWERINGS": LOWERINGS, "IMPORTERS": IMPORTERS, "FORMS": FORMS}
    added = 0
    for text in (block.text for block in page.blocks if block.language == "diff"):
        table = tables[re.search(r"^ (\w+):", text, flags=re.M)[1]]
        for line in re.findall(r"^\+ +(.*)$", text, flags=re.M):
            ((key, value),) = eval("{" + line + "}", names).items()
            monkeypatch.setitem(table, key, value)
            added += 1
    assert added == 3
    onnx, rng = names["onnx"], np.random.default_rng(0)
    kinds = {"x": (4, 6, 8), "y": (4, 6)}
    infos = [onnx.helper.make_tensor_value_info(n, 1, shape) for n, shape in kinds.items()]
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["r"]), *nodes_of(names, "r", "y")],
        "g", infos[:1], infos[1:],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("example", 1)]
    model = onnx.helper.make_model(body, opset_imports=opsets, ir_version=9)
    x = rng.standard_normal(kinds["x"], dtype=np.float32)
    network = asd.from_onnx(model)
    found = asd.compile(network, threads=1).run({"x": x})["y"]
    expected = np.sqrt((np.maximum(x, 0) ** 2).mean(axis=-1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    (theirs,) = reference_session(to_onnx(network.graph).SerializeToString()).run(["y"], {"x": x})
    np.testing.assert_allclose(theirs, expected, rtol=1e-5)


def nodes_of(names, source, result):
    """The node that the page imports, with other values."""
    node = names["onnx"].NodeProto()
    node.CopyFrom(names["node"])
    node.input[0], node.output[0] = source, result
    return [node]


@pytest.mark.usefixtures("torchlib")
@pytest.mark.parametrize(
    "page",
    [
        # the page on import makes the same calls
        pytest.param(page, marks=[pytest.mark.slow] * (page.path.stem != "import"))
        for page in map(Page, PAGES)
        if any(block.needs_torch for block in page.blocks)
    ],
    ids=str,
)
def test_snippets_with_torch_run(page, folder):
    pytest.importorskip("torch", reason="the snippets import modules from PyTorch")
    pytest.importorskip("onnxscript", reason="PyTorch exports through onnxscript")
    for block, printed in run(page, SHORTER, torch=True):
        assert same(block.text, printed)


@pytest.mark.slow
def test_the_page_on_fleets_measures_on_a_cluster_of_this_machine(folder, request):
    pytest.importorskip("ray", reason="the extra ray is not installed")
    assert check_snippets(Page(ROOT / "docs" / "fleet.md"), folder, request)


def test_the_programs_fit_the_header_and_run(folder, request):
    page = Page(ROOT / "docs" / "deploy.md")
    assert check_snippets(page, folder, request)
    (program,) = [block.text for block in page.blocks if block.language == "c"]
    used = set(re.findall(r"\bmlp_\w+|\bMLP_\w+", program))
    header = Path("build/mlp.h").read_text(encoding="utf-8")
    assert len(used) > 3
    assert [name for name in used if not re.search(rf"\b{name}\b", header)] == []
    printed = {}
    for language, (compiler, file) in EXAMPLES.items():
        (example,) = [block.text for block in page.blocks if block.language == language]
        if works(compiler):
            printed[language] = compiled_and_run(example, compiler, file)
    assert (
        printed.items()
        <= {
            "c": "",
            "cpp": "10 logits\nmlp: input data has 3 elements, expected 64\n",
            "rust": "10 logits\n",
        }.items()
    )
    left = sorted(EXAMPLES.keys() - printed)
    if left:
        pytest.skip(f"no compiler for the examples in {', '.join(left)}")


def compilers_environment():
    """With the home of the user, where rustc finds itself; tests have another one."""
    return {**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir}


def works(compiler):
    """Whether a compiler is installed, not only a name that would download one."""
    if shutil.which(compiler) is None:
        return False
    asked = subprocess.run(
        [compiler, "--version"], capture_output=True, env=compilers_environment()
    )
    return asked.returncode == 0


def compiled_and_run(program, compiler, file):
    """What an example prints, compiled with the command in its first comment."""
    Path("build", file).write_text(program, encoding="utf-8")
    command = re.search(rf"{re.escape(compiler)} (.*?)( \*/)?$", program, flags=re.M)[1].split()
    environment = compilers_environment()
    subprocess.run([compiler, *command, "-o", "main"], cwd="build", check=True, env=environment)
    done = subprocess.run(["build/main"], timeout=60, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_long_figure_is_in_a_snippet():
    snippets = "".join(
        block.text for path in PAGES for block in Page(path).blocks if block.language == "python"
    )
    assert [long for long in SHORTER if long not in snippets] == []


@every_page
def test_commands_parse(page):
    from autosched.cli.app import make_parser

    for command in page.commands:
        assert make_parser().parse_args(arguments(command))


@every_page
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)`", page.text))
    for block in page.blocks:
        if block.language == "console":
            named |= set(re.findall(r"\bmake ([a-z][a-z-]*)", block.text))
    assert named - set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE)) == set()


def test_the_makefile_distils_logs_into_another_folder():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.findall(r"records distill (\S+) -o (\S+)", makefile)
    assert found and all(Path(logs).parent != Path(folder) for logs, folder in found)


@every_page
def test_links_lead_to_files(page):
    missing = [link for link in page.links if not (page.path.parent / link).exists()]
    assert missing == []


def test_every_page_is_linked_from_the_readme():
    linked = {(ROOT / link).resolve() for link in Page(ROOT / "README.md").links}
    assert [path.name for path in PAGES[1:] if path not in linked] == []


def test_results_are_those_of_the_benchmarks():
    from benchmarks.readme_table import PAGE, README, RESULTS, generate, generate_page, replaced

    for file, content in ((README, generate(RESULTS)), (PAGE, generate_page(RESULTS))):
        text = file.read_text()
        assert replaced(text, content) == text
