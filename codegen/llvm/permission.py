"""Permission to use tile registers, which Linux gives to processes that ask for it.

Without it the first instruction on them ends the process.  A kernel that has such instructions asks
by itself, once: so it need not matter who runs it (this library, a process that measures, a program
that is linked with an exported library).  Before that, a target has the features of the registers
only where a process of ours was given the permission.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Final

from llvmlite.binding import FeatureMap

# arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) of Linux on x86-64; 0 is success
_CALL: Final = 158
_REQUEST: Final = 0x1023
_TILE_DATA: Final = 18

PERMISSION_SYMBOL: Final = "tiles_permitted"
PERMISSION_TEXT: Final = f"""
declare i64 @syscall(i64, ...)

@tiles_asked = internal global i32 0, align 4

define internal void @{PERMISSION_SYMBOL}() nounwind noinline {{
  %asked = load atomic i32, ptr @tiles_asked monotonic, align 4
  %again = icmp ne i32 %asked, 0
  br i1 %again, label %done, label %ask
ask:
  %code = call i64 (i64, ...) @syscall(i64 {_CALL}, i64 {_REQUEST}, i64 {_TILE_DATA})
  store atomic i32 1, ptr @tiles_asked monotonic, align 4
  br label %done
done:
  ret void
}}
"""


@cache
def tiles_permitted() -> bool:
    """Whether this process may use tile registers; it asks for that."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    request = ctypes.CDLL(None, use_errno=True).syscall
    request.restype = ctypes.c_long
    return (
        int(request(ctypes.c_long(_CALL), ctypes.c_long(_REQUEST), ctypes.c_long(_TILE_DATA))) == 0
    )


def usable_features(found: FeatureMap) -> FeatureMap:
    """The features of this processor that a process can use; those that ``found`` names."""
    if found.get("amx-tile") and not tiles_permitted():
        for name in found:
            found[name] = found[name] and not name.startswith("amx-")
    return found
