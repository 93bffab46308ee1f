"""Nothing below ``sketch/operators`` may know operators by name; no hidden state anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.syntax import nodes

OPERATOR = re.compile(
    r"(?:^|[_\W])(?:conv\w*|matmul|gemm|sgemm|dense|linear|winograd|depthwise|softmax|attention|"
    r"(?:\w+_)?pool(?:2d)?|batch_norm|layer_norm|stencil)(?:$|[_\W\d])",
    re.IGNORECASE,
)
STRING_TESTS = ("startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch")
MUTATORS = (
    *("add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse"),
    *("setdefault", "sort", "update"),
)
MUTABLE_CALLS = ("list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque")


def below_operators(sources):
    return [
        s
        for s in sources
        if s.package in ("sketch", "costmodel", "codegen")
        and not s.path.startswith("sketch/operators/")
    ]


def compared_strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals that something is compared with, matched against or looked up by."""
    for node in nodes(tree):
        parts: list[ast.AST | None] = []
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case ast.MatchValue():
                parts = [node.value]
            case ast.Dict():
                parts = list(node.keys)
            case ast.Subscript():
                parts = [node.slice]
            case ast.Call(func=ast.Attribute(attr=name)) if name in STRING_TESTS:
                parts = list(node.args)
        for part in filter(None, parts):
            for leaf in ast.walk(part):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf


def test_no_operator_is_recognised_by_its_name(package_sources):
    found = [
        f"{source.at(leaf)} tests {leaf.value!r}"
        for source in below_operators(package_sources)
        for leaf in compared_strings(source.tree)
        if OPERATOR.search(leaf.value)
    ]
    assert found == []


def finds_operator(line: str) -> bool:
    return any(OPERATOR.search(leaf.value) for leaf in compared_strings(ast.parse(line)))


def test_the_check_finds_operator_names_and_nothing_else():
    for line in ('x == "conv2d"', 'n.startswith("conv")', 'x in ("dense", 1)', 't["max_pool"]'):
        assert finds_operator(line), line
    for line in ('x == "constant"', 'x == "spooled"', 'raise Error("no conv2d here")'):
        assert not finds_operator(line), line


def test_stages_carry_no_tags(package_sources):
    found = [
        source.at(node)
        for source in below_operators(package_sources)
        for node in nodes(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in ("tag", "tags", "op_type")
    ]
    assert found == []


def reads_environment(node: ast.AST) -> bool:
    """``os.getenv``, ``os.environ[...]``, ``os.environ.get(...)``, ``... in os.environ``.

    Handing the whole environment on to a child process is not reading it.
    """
    match node:
        case ast.Attribute(attr="getenv") | ast.alias(name="getenv"):
            return True
        case ast.Subscript(value=ast.Attribute(attr="environ"), ctx=ast.Load()):
            return True
        case ast.Attribute(value=ast.Attribute(attr="environ"), attr="get" | "pop" | "items"):
            return True
        case ast.Compare(comparators=[ast.Attribute(attr="environ")]):
            return True
    return False


def test_no_environment_variable_changes_behaviour(package_sources):
    found = [
        source.at(node)
        for source in package_sources
        for node in nodes(source.tree)
        if reads_environment(node)
    ]
    assert found == []


def mutable_globals(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign):
            targets, value = [node.target], node.value
        if is_mutable(value):
            names |= {t.id for t in targets if isinstance(t, ast.Name)}
    return names - {"__all__"}


def is_mutable(value: ast.expr | None) -> bool:
    match value:
        case ast.List() | ast.Dict() | ast.Set() | ast.ListComp() | ast.DictComp() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in MUTABLE_CALLS
    return False


def mutations(tree: ast.Module, names: set[str]) -> Iterator[ast.AST]:
    for node in nodes(tree):
        match node:
            case ast.Global():
                yield node
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                if name in names:
                    yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name in names and method in MUTATORS:
                    yield node
            case ast.AugAssign(target=ast.Name(id=name)):
                if name in names:
                    yield node


# A process has one team of OpenMP threads, and so one thread that owns it.
ONE_PER_PROCESS = ("autosched/runtime/team_pool.py",)


def test_no_global_is_changed_at_run_time(package_sources):
    """Tables may be dictionaries; nobody registers anything in them."""
    found = [
        source.at(node)
        for source in package_sources
        if source.path not in ONE_PER_PROCESS
        for node in mutations(source.tree, mutable_globals(source.tree))
    ]
    assert found == []


def test_nothing_registers_itself(package_sources):
    found = [
        f"{source.at(node)} {node.name}"
        for source in package_sources
        for node in nodes(source.tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (
            node.name in ("register", "_register")
            or any("register" in ast.unparse(d) for d in node.decorator_list)
        )
    ]
    assert found == []
