"""Syntax trees of sources, walked once however many tests look at them."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree, in the order of ``ast.walk``."""
    return tuple(ast.walk(tree))
