"""Machine code that walks all trees of a forest for sixteen statements at a time.

A vector has a set of leaves for each statement.  Every condition of a tree is looked at, whatever
the ones before it said, so that nothing branches on a statement.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from costmodel.machine_code import MachineCode, machine_code

LANES: Final = 16
LEAVES: Final = 16

# Rows of ``values`` are features, ``pitch`` bytes apart; of ``sums`` there are 8 bytes a statement.
_TEXT: Final = """
declare <16 x i16> @llvm.cttz.v16i16(<16 x i16>, i1)
declare <16 x double> @llvm.masked.gather.v16f64.v16p0(
    <16 x ptr>, i32, <16 x i1>, <16 x double>)
define void @walk(ptr %values, i64 %pitch, i64 %blocks, i64 %trees, i64 %nodes,
                  ptr %features, ptr %limits, ptr %left_over, ptr %leaves, ptr %sums) {
entry:
  br label %block
block:
  %b = phi i64 [ 0, %entry ], [ %b.next, %block.end ]
  %at = getelementptr <16 x float>, ptr %values, i64 %b
  br label %tree
tree:
  %t = phi i64 [ 0, %block ], [ %t.next, %tree.end ]
  %sum = phi <16 x double> [ zeroinitializer, %block ], [ %sum.next, %tree.end ]
  %first = mul i64 %t, %nodes
  br label %node
node:
  %n = phi i64 [ 0, %tree ], [ %n.next, %node ]
  %left = phi <16 x i16> [ ALL_LEAVES, %tree ], [ %left.next, %node ]
  %k = add i64 %first, %n
  %feature.at = getelementptr i64, ptr %features, i64 %k
  %feature = load i64, ptr %feature.at
  %row = mul i64 %feature, %pitch
  %asked.at = getelementptr i8, ptr %at, i64 %row
  %asked = load <16 x float>, ptr %asked.at, align 4
  %limit.at = getelementptr float, ptr %limits, i64 %k
  %limit = load float, ptr %limit.at
  %limit.0 = insertelement <16 x float> poison, float %limit, i64 0
  %limit.all = shufflevector <16 x float> %limit.0, <16 x float> poison, <16 x i32> zeroinitializer
  %holds = fcmp ole <16 x float> %asked, %limit.all
  %rest.at = getelementptr i16, ptr %left_over, i64 %k
  %rest = load i16, ptr %rest.at
  %rest.0 = insertelement <16 x i16> poison, i16 %rest, i64 0
  %rest.all = shufflevector <16 x i16> %rest.0, <16 x i16> poison, <16 x i32> zeroinitializer
  %kept = select <16 x i1> %holds, <16 x i16> ALL_LEAVES, <16 x i16> %rest.all
  %left.next = and <16 x i16> %left, %kept
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, %nodes
  br i1 %n.more, label %node, label %tree.end
tree.end:
  %lowest = call <16 x i16> @llvm.cttz.v16i16(<16 x i16> %left.next, i1 false)
  %leaf = zext <16 x i16> %lowest to <16 x i64>
  %own = getelementptr [16 x double], ptr %leaves, i64 %t
  %leaf.at = getelementptr double, ptr %own, <16 x i64> %leaf
  %value = call <16 x double> @llvm.masked.gather.v16f64.v16p0(
      <16 x ptr> %leaf.at, i32 8, <16 x i1> ALL_LANES, <16 x double> poison)
  %sum.next = fadd <16 x double> %sum, %value
  %t.next = add i64 %t, 1
  %t.more = icmp ult i64 %t.next, %trees
  br i1 %t.more, label %tree, label %block.end
block.end:
  %sum.at = getelementptr <16 x double>, ptr %sums, i64 %b
  store <16 x double> %sum.next, ptr %sum.at, align 8
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %blocks
  br i1 %b.more, label %block, label %done
done:
  ret void
}
"""


@cache
def walk() -> MachineCode:
    """The machine code, made once in a process."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = [pointer, *[number] * 4, *[pointer] * 5]
    text = _TEXT.replace("ALL_LEAVES", _all("i16 -1")).replace("ALL_LANES", _all("i1 true"))
    return machine_code(text, "walk", kinds, optimised=True)


def _all(lane: str) -> str:
    return f"<{', '.join([lane] * LANES)}>"
