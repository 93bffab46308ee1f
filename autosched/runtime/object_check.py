"""Whether the machine code of a file can be linked, before a linker sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from autosched.runtime.errors import ModuleFileError

if TYPE_CHECKING:
    from sketch.target.target import Target


def check_objects(objects: Mapping[str, bytes], target: Target) -> frozenset[str]:
    """Check the objects of a module, by name.

    Returns:
        Names that none of them defines: the process must.

    Raises:
        ModuleFileError: one is damaged, or two define one name.
    """
    from codegen.elf.check import check_object
    from codegen.errors import ObjectFileError
    from codegen.llvm.machine import triple_of

    architecture = triple_of(target).split("-")[0]
    defined: Counter[str] = Counter()
    undefined: set[str] = set()
    for name, code in objects.items():
        try:
            found = check_object(code, architecture, f"object {name}")
        except ObjectFileError as error:
            raise ModuleFileError(error.what, error.where, error.hint) from error
        defined.update(found.defined)
        undefined |= found.undefined
    twice = sorted(name for name, count in defined.items() if count > 1)
    if twice:
        raise ModuleFileError(f"{', '.join(twice)[:200]} is defined twice")
    return frozenset(undefined - defined.keys())


def check_resolved(objects: Mapping[str, bytes], target: Target) -> None:
    """Check that objects can be linked into this process.

    Raises:
        ModuleFileError: one is damaged, or needs a function that this process does not have: LLVM
            would end the process.
        TargetError: this machine lacks instructions that the code may use.
    """
    from codegen.llvm.jit import check_host, missing_functions

    check_host(target)
    missing = missing_functions(check_objects(objects, target), target)
    if missing:
        raise ModuleFileError(
            f"its code calls {', '.join(missing)[:200]}, which this process does not have"
        )
