"""Join branches: branches on the same sum, one after another, become one.

    branch ow                                   branch ow
      0..0:   acc[r] += ...                       0..14:  branch ow
      14..28: acc[r] += ...               ->                0..0:   acc[r] += ...
    branch ow                                               14..14: acc[r] += ...
      0..14:  out[ow + r] = acc[r]                        out[ow + r] = acc[r]
      28..28: out[ow + r] = acc[r]  if r < 4      28..28: ...

Nothing is copied: where cases overlap, the narrower ones stay a branch inside.  What one branch
leaves in registers need not meet again before the next.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.affine import Interval
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Branch, Case, LoopNest, Node


def join_branches(nest: LoopNest) -> LoopNest:
    """The nest in which no two branches on one sum follow each other, unless a case spans all."""
    return replace(nest, roots=joined(nest.roots))


def joined(nodes: Nodes) -> Nodes:
    """A sequence of nodes, all inside of it joined."""
    new: list[Node] = []
    for node in nodes:
        both = _both(new[-1], node) if new else None
        if both is None:
            new.append(node)
        else:
            new[-1] = both
    return reused([map_body(node, joined) for node in new], nodes)


def _both(first: Node, second: Node) -> Branch | None:
    """One branch for two; None where they are not on the same sum, or nothing tells them apart."""
    if not isinstance(first, Branch) or not isinstance(second, Branch):
        return None
    if first.index != second.index:
        return None
    spans = _spans([(case.low, case.high) for case in (*first.cases, *second.cases)])
    if len(spans) < 2:
        return None
    cases = [Case(*span, (*_within(first, span), *_within(second, span))) for span in spans]
    return Branch(first.index, tuple(cases))


def _spans(ranges: list[Interval]) -> list[Interval]:
    """The least ranges apart from each other that contain all of some."""
    spans: list[Interval] = []
    for low, high in sorted(ranges):
        if spans and low <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return spans


def _within(branch: Branch, span: Interval) -> Nodes:
    """What a branch does where its index is in a range: in one of its cases, as everywhere."""
    cases = tuple([case for case in branch.cases if span[0] <= case.low <= span[1]])
    if len(cases) == 1:
        return cases[0].body
    return (Branch(branch.index, cases),) if cases else ()
