"""The C header of an exported library, and what its tensors are called in C."""

from __future__ import annotations

import hashlib
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from autosched.runtime.program import ExecutionPlan, TensorSpec
from autosched.system.element_types import element_bytes
from codegen.denormals import Denormals
from codegen.entry import ABI_VERSION, BUSY, NOT_INITIALIZED, NULL_POINTER, OK, OUT_OF_MEMORY

# Types of elements that C has no name for are passed as their bits.
C_TYPES: Final = {
    "float32": "float", "float64": "double", "float16": "uint16_t", "bfloat16": "uint16_t",
    "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t",
}  # fmt: skip

_TENSOR_TYPE: Final = """\
#ifndef AUTOSCHED_TENSOR
#define AUTOSCHED_TENSOR
typedef struct {
    const char *name;
    const char *dtype;    /* NumPy's name: "float32", ... */
    int rank;
    const int64_t *shape; /* row-major, dense */
    size_t bytes;
} autosched_tensor;
#endif"""

_CODES: Final = {
    "OK": OK,
    "NOT_INITIALIZED": NOT_INITIALIZED,
    "OUT_OF_MEMORY": OUT_OF_MEMORY,
    "BUSY": BUSY,
    "NULL_POINTER": NULL_POINTER,
}
# Positive numbers are the driver's.
_DEVICE_CODES: Final = {"OK": 0, "NO_FILE": -1, "OUT_OF_MEMORY": -2, "NULL_POINTER": -3}

_FUNCTIONS: Final = """\
/* Takes memory for intermediate results.  Call it once, before everything else; another call does
   nothing.  Returns {upper}_OK or {upper}_OUT_OF_MEMORY. */
int {name}_init(void);

/* Computes the outputs.  `inputs` and `outputs` hold one pointer a tensor, in the order below, each
   to {upper}_INPUT_n_BYTES or {upper}_OUTPUT_n_BYTES bytes, aligned as their type; outputs must not
   overlap inputs or each other.  One call at a time: another thread gets {upper}_BUSY meanwhile.
   Returns {upper}_OK, {upper}_NOT_INITIALIZED, {upper}_BUSY or {upper}_NULL_POINTER. */
int {name}_run(const void *const *inputs, void *const *outputs);

/* Gives the memory back; {name}_init takes it again.  Not while {name}_run runs. */
void {name}_free(void);

/* For calls at the same time, without {name}_init: a context is memory for the intermediate results
   of one call.  {name}_create gives one, or NULL where memory ran out; {name}_run_in is {name}_run
   with it, one call of a context at a time; {name}_destroy gives it back. */
void *{name}_create(void);
int {name}_run_in(void *context, const void *const *inputs, void *const *outputs);
void {name}_destroy(void *context);

/* {upper}_ABI and {upper}_SIGNATURE as the library has them.  A program that loads the library when
   it runs compares them with those of its header: the version of these functions, and a hash of the
   names, types and shapes of all inputs and outputs. */
int {name}_abi(void);
uint64_t {name}_signature(void);"""


_DENORMALS: Final[Mapping[Denormals, str]] = {
    "flush": "Denormal numbers count as 0 while it runs; threads get their own state back.",
    "keep": "Denormal numbers are kept; they are slow on many processors.",
}


def identifier(text: str) -> str:
    """``text`` as a C identifier."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text)
    return name if name and not name[0].isdigit() else f"_{name}"


def interface_signature(program: ExecutionPlan) -> int:
    """A hash of the names, dtypes and shapes of all inputs and outputs, uint64."""
    sides = (program.inputs, tuple(spec for spec, _ in program.outputs))
    facts = [[[s.name, s.dtype, list(s.shape)] for s in specs] for specs in sides]
    return int.from_bytes(hashlib.sha256(json.dumps(facts).encode()).digest()[:8], "big")


def header_text(program: ExecutionPlan, name: str, version: str) -> str:
    """The header.

    Args:
        program: what was exported; all its steps are kernels.
        name: prefix of the functions.
        version: of autosched.
    """
    upper = name.upper()
    outputs = tuple(spec for spec, _ in program.outputs)
    target = program.target
    parts = [
        f"/* {_comment(program.name)}, compiled by autosched {version} for {target.arch}.\n"
        f"   Needs a processor with:\n   {_features(target.features)}.\n"
        f"   {_link_hint(target.threads)}\n   {_DENORMALS[program.denormals]} */",
        *_opening(upper),
        f"#define {upper}_ABI {ABI_VERSION}\n"
        f"#define {upper}_SIGNATURE UINT64_C({interface_signature(program):#018x})",
        _defines(program, upper, _CODES),
        _FUNCTIONS.format(name=name, upper=upper) + "\n",
        *_tensors(program, upper),
        _typed_call(name, program.inputs, outputs),
        _closing(upper),
    ]
    return "\n".join(part for part in parts if part)


def device_header_text(program: ExecutionPlan, name: str, version: str, declarations: str) -> str:
    """The header of C source for a GPU.

    Args:
        program: what was exported; all its steps are kernels.
        name: prefix of the functions.
        version: of autosched.
        declarations: of the functions.
    """
    upper = name.upper()
    parts = [
        f"/* {_comment(program.name)}, compiled by autosched {version} for {program.target.arch}.\n"
        f"   Compile {name}.c with the header of the CUDA driver API, and link with -lcuda. */",
        *_opening(upper),
        _defines(program, upper, _DEVICE_CODES),
        f"{declarations}\n",
        *_tensors(program, upper),
        _closing(upper),
    ]
    return "\n".join(part for part in parts if part)


def _opening(upper: str) -> tuple[str, str]:
    return (
        f"#ifndef {upper}_H\n#define {upper}_H\n\n#include <stddef.h>\n#include <stdint.h>\n",
        f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{_TENSOR_TYPE}\n',
    )


def _closing(upper: str) -> str:
    return f"#ifdef __cplusplus\n}}\n#endif\n#endif /* {upper}_H */\n"


def _tensors(program: ExecutionPlan, upper: str) -> list[str]:
    """What the inputs and outputs are."""
    outputs = tuple(spec for spec, _ in program.outputs)
    return [
        *(_tensor(f"{upper}_INPUT_{n}", spec) for n, spec in enumerate(program.inputs)),
        *(_tensor(f"{upper}_OUTPUT_{n}", spec) for n, spec in enumerate(outputs)),
        _table(f"{upper}_INPUT", program.inputs),
        _table(f"{upper}_OUTPUT", outputs),
    ]


def _defines(program: ExecutionPlan, upper: str, codes: Mapping[str, int]) -> str:
    numbers = {
        "INPUTS": len(program.inputs),
        "OUTPUTS": len(program.outputs),
        "THREADS": program.target.threads,
        "ARENA_BYTES": program.arena_bytes,
        "CONSTANTS_BYTES": program.constants_bytes,
    }
    lines = [f"#define {upper}_{key} {value}" for key, value in numbers.items()]
    members = [f"    {upper}_{code} = {number}" for code, number in codes.items()]
    return "\n".join([*lines, "", "enum {", ",\n".join(members), "};", ""])


def _tensor(prefix: str, spec: TensorSpec) -> str:
    count = math.prod(spec.shape)
    # C has no empty arrays: a scalar's shape is a table whose entry is not read (rank 0).
    shape = ", ".join(map(str, spec.shape or (1,)))
    return "\n".join([
        f"/* {_comment(str(spec))} */",
        f"#define {prefix}_NAME {_string(spec.name)}",
        f"#define {prefix}_DTYPE {_string(spec.dtype)}",
        f"#define {prefix}_TYPE {C_TYPES[spec.dtype]}",
        f"#define {prefix}_RANK {len(spec.shape)}",
        f"#define {prefix}_ELEMENTS {count}",
        f"#define {prefix}_BYTES {count * element_bytes(spec.dtype)}",
        f"static const int64_t {prefix}_SHAPE[] = {{{shape}}};",
        "",
    ])  # fmt: skip


def _table(prefix: str, specs: Sequence[TensorSpec]) -> str:
    if not specs:
        return ""
    rows = [
        f"    {{{prefix}_{n}_NAME, {prefix}_{n}_DTYPE, {prefix}_{n}_RANK, {prefix}_{n}_SHAPE, "
        f"{prefix}_{n}_BYTES}}"
        for n in range(len(specs))
    ]
    return f"static const autosched_tensor {prefix}_TABLE[] = {{\n" + ",\n".join(rows) + "\n};\n"


def _typed_call(name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """A function with one typed parameter a tensor, around ``NAME_run``."""
    sources = parameter_names("in", inputs)
    results = parameter_names("out", outputs)
    given = [f"const {C_TYPES[s.dtype]} *{p}" for s, p in zip(inputs, sources, strict=True)]
    given += [f"{C_TYPES[s.dtype]} *{p}" for s, p in zip(outputs, results, strict=True)]
    return "\n".join([
        f"/* The same as {name}_run, with types. */",
        f"static inline int {name}_call(",
        "    " + (",\n    ".join(given) or "void"),
        ") {",
        f"    const void *const inputs[] = {{{', '.join(sources) or 'NULL'}}};",
        f"    void *const outputs[] = {{{', '.join(results) or 'NULL'}}};",
        f"    return {name}_run(inputs, outputs);",
        "}\n",
    ])  # fmt: skip


def parameter_names(prefix: str, specs: Sequence[TensorSpec]) -> list[str]:
    """``in_data``; numbers are appended to all where two names are one in C."""
    names = [f"{prefix}_{identifier(spec.name)}" for spec in specs]
    distinct = len(set(names)) == len(names)
    return names if distinct else [f"{name}_{n}" for n, name in enumerate(names)]


def _features(features: str) -> str:
    names = [part[1:] for part in features.split(",") if part.startswith("+")]
    return "\n   ".join(textwrap.wrap(" ".join(names), 90)) or "nothing special"


def _link_hint(threads: int) -> str:
    if threads == 1:
        return "One thread; link with -lm."
    return f"{threads} threads; link with -lgomp -lm."


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def _string(text: str) -> str:
    """A C string literal of the text's UTF-8."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'
