"""What users call first says what it takes and what it raises."""

from __future__ import annotations

import ast

CALLED_BY_USERS = ("autosched/api.py", "autosched/task.py", "autosched/runtime/module.py")
MANY = 4


def called_by_users(sources):
    """Public functions and methods of those files, but for overloads."""
    for source in sources:
        if source.path in CALLED_BY_USERS:
            for node in ast.walk(source.tree):
                overloads = any(
                    ast.unparse(item) == "overload" for item in getattr(node, "decorator_list", ())
                )
                if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and not overloads:
                    yield source, node


def test_functions_of_many_parameters_explain_each(package_sources):
    wrong = []
    for source, node in called_by_users(package_sources):
        names = [item.arg for item in (*node.args.args, *node.args.kwonlyargs)]
        names = [name for name in names if name not in ("self", "cls")]
        text = ast.get_docstring(node) or ""
        if len(names) >= MANY:
            explained = "Args:" in text and all(f"    {name}: " in text for name in names)
            wrong += [] if explained else [f"{source.at(node)} {node.name}"]
    assert wrong == []


def test_functions_that_raise_say_so(package_sources):
    wrong = [
        f"{source.at(node)} {node.name}"
        for source, node in called_by_users(package_sources)
        if any(isinstance(item, ast.Raise) for item in ast.walk(node))
        and "raise" not in (ast.get_docstring(node) or "").lower()
    ]
    assert wrong == []
