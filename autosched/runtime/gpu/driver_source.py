"""C source that runs a program with the CUDA driver API alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from autosched.runtime.memory_plan import align
from autosched.runtime.native_plan import kernel_loops
from autosched.runtime.program import Argument, ExecutionPlan, Moving, Place, Step
from codegen.cuda.kernel import CudaKernel
from codegen.gpu.alignment import DEVICE_ALIGNMENT

_SEGMENTS: Final = {"arena": 0, "constants": 1}
_FIRST_INPUT: Final = len(_SEGMENTS)

_DECLARATIONS: Final = """\
typedef struct {name}_context {name}_context;

/* Loads code and constants from the files beside this one, all in `folder`, and takes memory on
   CUDA device number `device`, in its primary context; the caller's own stays current.  Everything
   returns {upper}_OK, the driver's CUresult, {upper}_NO_FILE, {upper}_OUT_OF_MEMORY or
   {upper}_NULL_POINTER. */
int {name}_init({name}_context **context, const char *folder, int device);

/* Computes the outputs from arrays in CPU memory, one pointer a tensor, in the order below. */
int {name}_run({name}_context *context, const void *const *inputs, void *const *outputs);

/* The same with device addresses (CUdeviceptr) of the inputs, in a CUstream of the caller's; sets
   those of the outputs, which stay as they are until the next call.  Does not wait.  Inputs whose
   addresses are no multiples of {alignment} are copied first. */
int {name}_submit({name}_context *context, const uint64_t *inputs, uint64_t *outputs, void *stream);

/* Gives everything back. */
void {name}_free({name}_context *context);"""

_HEAD: Final = """\
#include "{name}.h"
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) do {{ int status_ = (int)(call); if (status_) return status_; }} while (0)

/* Iteration i of a loop finds a value at offset + stride * (i % period) in its segment, the first
   one elsewhere where first_segment is not -1.  Segments: arena, constants, inputs. */
typedef struct {{
    int segment;
    int64_t offset, stride, period;
    int first_segment;
    int64_t first_offset;
}} place;
typedef struct {{ int function; unsigned grid, block; int count; const place *places; }} launch;
typedef struct {{ int first, count, trips; }} loop;
typedef struct {{ int module; const char *symbol; unsigned shared_bytes; }} function;
"""

_BODY: Final = """\
struct {name}_context {{
    CUdevice device;
    CUcontext cuda;
    CUstream stream;
    CUmodule modules[MODULES + 1];
    CUfunction functions[FUNCTIONS + 1];
    CUdeviceptr memory, constants;
}};

/* Make the program's context current, and afterwards the caller's again. */
static int enter({name}_context *c) {{ return (int)cuCtxPushCurrent(c->cuda); }}

static int leave(int status) {{
    CUcontext left;
    int popped = (int)cuCtxPopCurrent(&left);
    return status ? status : popped;
}}

static CUdeviceptr start({name}_context *c, const CUdeviceptr *inputs, int segment) {{
    return segment == 0 ? c->memory : segment == 1 ? c->constants : inputs[segment - 2];
}}

static CUdeviceptr at({name}_context *c, const CUdeviceptr *inputs, const place *p, int64_t i) {{
    if (p->first_segment >= 0) {{
        if (i == 0) return start(c, inputs, p->first_segment) + p->first_offset;
        i -= 1;
    }}
    if (p->period) i %= p->period;
    return start(c, inputs, p->segment) + p->offset + p->stride * i;
}}

static int execute({name}_context *c, const CUdeviceptr *inputs, CUstream stream) {{
    for (int l = 0; l < LOOPS; ++l)
        for (int64_t i = 0; i < loops[l].trips; ++i)
            for (int n = loops[l].first; n < loops[l].first + loops[l].count; ++n) {{
                const launch *k = &launches[n];
                CUdeviceptr addresses[PLACES + 1] = {{0}};
                void *parameters[PLACES + 1] = {{0}};
                for (int a = 0; a < k->count; ++a) {{
                    addresses[a] = at(c, inputs, &k->places[a], i);
                    parameters[a] = &addresses[a];
                }}
                CHECK(cuLaunchKernel(c->functions[k->function], k->grid, 1, 1, k->block, 1, 1,
                                     functions[k->function].shared_bytes, stream, parameters,
                                     NULL));
            }}
    return {upper}_OK;
}}

static int read_file(const char *folder, const char *name, char **bytes, size_t *size) {{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);
    if (!path) return {upper}_OUT_OF_MEMORY;
    snprintf(path, length, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    free(path);
    if (!file) return {upper}_NO_FILE;
    long end = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    rewind(file);
    *bytes = end < 0 ? NULL : malloc((size_t)end + 1);
    int status = end < 0 ? {upper}_NO_FILE : *bytes ? {upper}_OK : {upper}_OUT_OF_MEMORY;
    if (!status && fread(*bytes, 1, (size_t)end, file) != (size_t)end) {{
        free(*bytes);
        status = {upper}_NO_FILE;
    }}
    fclose(file);
    *size = (size_t)end;
    return status;
}}

static int load({name}_context *c, const char *folder) {{
    char *bytes = NULL;
    size_t size = 0;
    CHECK(cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING));
    for (int m = 0; m < MODULES; ++m) {{
        CHECK(read_file(folder, modules[m], &bytes, &size));
        int status = (int)cuModuleLoadData(&c->modules[m], bytes);
        free(bytes);
        CHECK(status);
    }}
    for (int f = 0; f < FUNCTIONS; ++f) {{
        CHECK(cuModuleGetFunction(&c->functions[f], c->modules[functions[f].module],
                                  functions[f].symbol));
        if (functions[f].shared_bytes)
            CHECK(cuFuncSetAttribute(c->functions[f],
                                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     (int)functions[f].shared_bytes));
    }}
    CHECK(cuMemAlloc(&c->memory, MEMORY_BYTES));
    CHECK(cuMemAlloc(&c->constants, {upper}_CONSTANTS_BYTES + 1));
    CHECK(read_file(folder, constants_file, &bytes, &size));
    int status = size != {upper}_CONSTANTS_BYTES ? {upper}_NO_FILE : {upper}_OK;
    if (!status && size)
        status = (int)cuMemcpyHtoDAsync(c->constants, bytes, size, c->stream);
    if (!status) status = (int)cuStreamSynchronize(c->stream); /* no other stream waits for it */
    free(bytes);
    return status;
}}

int {name}_init({name}_context **context, const char *folder, int device) {{
    if (!context || !folder) return {upper}_NULL_POINTER;
    {name}_context *c = calloc(1, sizeof *c);
    *context = NULL;
    if (!c) return {upper}_OUT_OF_MEMORY;
    int status = (int)cuInit(0);
    if (!status) status = (int)cuDeviceGet(&c->device, device);
    if (!status) status = (int)cuDevicePrimaryCtxRetain(&c->cuda, c->device);
    if (!status) status = enter(c);
    if (!status) status = leave(load(c, folder));
    if (status)
        {name}_free(c);
    else
        *context = c;
    return status;
}}

static int run({name}_context *c, const void *const *inputs, void *const *outputs) {{
    CUdeviceptr given[{upper}_INPUTS + 1] = {{0}};
    for (int n = 0; n < {upper}_INPUTS; ++n) {{
        given[n] = c->memory + input_offsets[n];
        if (input_bytes[n])
            CHECK(cuMemcpyHtoDAsync(given[n], inputs[n], input_bytes[n], c->stream));
    }}
    CHECK(execute(c, given, c->stream));
    for (int n = 0; n < {upper}_OUTPUTS; ++n) {{
        if (output_bytes[n])
            CHECK(cuMemcpyDtoHAsync(outputs[n], at(c, given, &output_places[n], 0),
                                    output_bytes[n], c->stream));
    }}
    return (int)cuStreamSynchronize(c->stream);
}}

int {name}_run({name}_context *c, const void *const *inputs, void *const *outputs) {{
    if (!c || !inputs || !outputs) return {upper}_NULL_POINTER;
    for (int n = 0; n < {upper}_OUTPUTS; ++n)
        if (output_bytes[n] && !outputs[n]) return {upper}_NULL_POINTER;
    for (int n = 0; n < {upper}_INPUTS; ++n)
        if (input_bytes[n] && !inputs[n]) return {upper}_NULL_POINTER;
    CHECK(enter(c));
    return leave(run(c, inputs, outputs));
}}

static int submit({name}_context *c, const uint64_t *inputs, uint64_t *outputs, CUstream stream) {{
    CUdeviceptr given[{upper}_INPUTS + 1] = {{0}};
    for (int n = 0; n < {upper}_INPUTS; ++n) {{
        given[n] = (CUdeviceptr)inputs[n];
        if (given[n] % {alignment} == 0) continue;
        given[n] = c->memory + input_offsets[n];
        if (input_bytes[n])
            CHECK(cuMemcpyDtoDAsync(given[n], (CUdeviceptr)inputs[n], input_bytes[n], stream));
    }}
    CHECK(execute(c, given, stream));
    for (int n = 0; n < {upper}_OUTPUTS; ++n)
        outputs[n] = (uint64_t)at(c, given, &output_places[n], 0);
    return {upper}_OK;
}}

int {name}_submit({name}_context *c, const uint64_t *inputs, uint64_t *outputs, void *stream) {{
    if (!c || !inputs || !outputs) return {upper}_NULL_POINTER;
    CHECK(enter(c));
    return leave(submit(c, inputs, outputs, (CUstream)stream));
}}

static void give_back({name}_context *c) {{
    if (c->stream) cuStreamSynchronize(c->stream);
    if (c->memory) cuMemFree(c->memory);
    if (c->constants) cuMemFree(c->constants);
    for (int m = 0; m < MODULES; ++m)
        if (c->modules[m]) cuModuleUnload(c->modules[m]);
    if (c->stream) cuStreamDestroy(c->stream);
}}

void {name}_free({name}_context *c) {{
    if (!c) return;
    if (c->cuda && !enter(c)) {{
        give_back(c);
        leave({upper}_OK);
    }}
    if (c->cuda) cuDevicePrimaryCtxRelease(c->device);
    free(c);
}}
"""


def declarations(name: str) -> str:
    """The functions whose names begin with ``name``, for its header."""
    return _DECLARATIONS.format(name=name, upper=name.upper(), alignment=DEVICE_ALIGNMENT)


def source_text(
    program: ExecutionPlan, kernels: dict[str, CudaKernel], name: str, files: dict[str, str]
) -> str:
    """The C file.

    Args:
        program: what to run; all steps are kernels.
        kernels: by symbol.
        name: prefix of the functions; their header is ``NAME.h``.
        files: the file of each kernel's code by symbol, and that of the constants by "".
    """
    tables = _Tables(program, kernels)
    used = list(kernels)
    functions = [
        f"{{{number}, {_text(launch.symbol)}, {launch.shared_bytes}u}}"
        for number, kernel in enumerate(kernels.values())
        for launch in kernel.source.launches
    ]
    offsets, memory_bytes = _input_offsets(program)
    outputs = [tables.place(place) for _, place in program.outputs]
    parts = [
        _HEAD.format(name=name),
        f"#define MODULES {len(used)}\n#define FUNCTIONS {len(functions)}",
        f"#define LOOPS {len(tables.loops)}\n#define PLACES {tables.most_places}",
        f"#define MEMORY_BYTES {memory_bytes + 1}",
        f"static const char *const constants_file = {_text(files[''])};",
        _table("char *const modules", [_text(files[symbol]) for symbol in used]),
        _table("function functions", functions),
        *tables.places,
        _table("launch launches", tables.launches),
        _table("loop loops", tables.loops),
        _table("size_t input_offsets", map(str, offsets)),
        _table("size_t input_bytes", [str(spec.size_bytes) for spec in program.inputs]),
        _table("place output_places", outputs),
        _table("size_t output_bytes", [str(spec.size_bytes) for spec, _ in program.outputs]),
        "",
        _BODY.format(name=name, upper=name.upper(), alignment=DEVICE_ALIGNMENT),
    ]
    return "\n".join(parts)


class _Tables:
    """The launches of a program as C tables."""

    def __init__(self, program: ExecutionPlan, kernels: dict[str, CudaKernel]) -> None:
        self._kernels = kernels
        self._numbers: dict[str, int] = {}
        for kernel in kernels.values():
            for launch in kernel.source.launches:
                self._numbers[launch.symbol] = len(self._numbers)
        self.places: list[str] = []
        self.launches: list[str] = []
        self.loops: list[str] = []
        self.most_places = 1
        for loop in kernel_loops(program):
            first = len(self.launches)
            for step in program.steps[loop.first : loop.first + loop.count]:
                assert isinstance(step, Step)
                self._add(step)
            self.loops.append(f"{{{first}, {len(self.launches) - first}, {loop.trips}}}")

    def _add(self, step: Step) -> None:
        kernel = self._kernels[step.symbol]
        names = [a.name for a in kernel.arguments] + [name for name, _ in kernel.workspaces]
        arguments = dict(zip(names, step.arguments, strict=True))
        for launch in kernel.source.launches:
            places = [self.place(arguments[buffer]) for buffer in launch.buffers]
            table = f"places_{len(self.launches)}"
            self.places.append(_table(f"place {table}", places))
            self.most_places = max(self.most_places, len(places))
            number = self._numbers[launch.symbol]
            row = (number, f"{launch.grid}u", f"{launch.block}u", len(places), table)
            self.launches.append(f"{{{', '.join(map(str, row))}}}")

    def place(self, argument: Argument) -> str:
        """The initialiser of a ``place``."""
        if not isinstance(argument, Moving):
            return f"{{{_segment(argument)}, {_offset(argument)}, 0, 0, -1, 0}}"
        offset, first = _offset(argument.place) + argument.start, argument.first
        before = "-1, 0" if first is None else f"{_segment(first)}, {_offset(first)}"
        moving = f"{offset}, {argument.stride}, {argument.period}"
        return f"{{{_segment(argument.place)}, {moving}, {before}}}"


def _segment(place: Place) -> int:
    return _FIRST_INPUT + place.offset if place.segment == "input" else _SEGMENTS[place.segment]


def _offset(place: Place) -> int:
    """Bytes from the start of its segment; each input is a segment of its own."""
    return 0 if place.segment == "input" else place.offset


def _input_offsets(program: ExecutionPlan) -> tuple[list[int], int]:
    """Where inputs of CPU memory are copied to, after the arena, and the end of all."""
    offsets, end = [], align(program.arena_bytes, DEVICE_ALIGNMENT)
    for spec in program.inputs:
        offsets.append(end)
        end += align(spec.size_bytes, DEVICE_ALIGNMENT)
    return offsets, end


def _table(name: str, rows: Iterable[str]) -> str:
    """A C array; C has no empty ones."""
    given: Sequence[str] = list(rows)
    zero = "0" if name.startswith(("size_t", "char")) else "{0}"
    lines = ",\n    ".join(given or [zero])
    return f"static const {name}[] = {{\n    {lines}\n}};"


def _text(value: str) -> str:
    return json.dumps(value)
