"""The C++ header of an exported library: an object that takes its memory and gives it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosched.runtime.c_header import C_TYPES, parameter_names
from autosched.runtime.program import ExecutionPlan, TensorSpec

_TEXT: Final = """\
/* {name}.h for C++11 and later. */
#ifndef {upper}_HPP
#define {upper}_HPP

#include "{file}"

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifndef AUTOSCHED_ERROR
#define AUTOSCHED_ERROR
namespace autosched {{

/* A function of a library returned code(), which is not OK. */
class error : public std::runtime_error {{
public:
    error(const std::string &what, int code)
        : std::runtime_error(what + ": code " + std::to_string(code)), code_(code) {{}}
    int code() const noexcept {{ return code_; }}

private:
    int code_;
}};

}}
#endif

namespace autosched {{

/* The outputs of a call, row-major, dense. */
struct {name}_outputs {{
{members}
}};

/* The network, with memory of its own for intermediate results.  Each thread that calls has an
   object of its own; a copy has memory of its own, too. */
class {name}_network {{
public:
    /* Throws std::bad_alloc where memory ran out, std::logic_error where the library is not the one
       that this header was written with. */
    {name}_network() : context_(make()) {{}}
    {name}_network(const {name}_network &) : {name}_network() {{}}
    {name}_network({name}_network &&other) noexcept : context_(other.context_) {{
        other.context_ = nullptr;
    }}
    {name}_network &operator=({name}_network other) noexcept {{
        std::swap(context_, other.context_);
        return *this;
    }}
    ~{name}_network() {{ {name}_destroy(context_); }}

    /* Reads and writes as many elements as {file} says. */
    void run({pointers}) {{
        const void *const inputs[] = {{{read}}};
        void *const outputs[] = {{{written}}};
        const int code = {name}_run_in(context_, inputs, outputs);
        if (code != {upper}_OK) throw error("{name}", code);
    }}

    /* The same with vectors; throws std::invalid_argument where one has another size. */
    {name}_outputs operator()({vectors}) {{
{checks}
        {name}_outputs outputs{{
{results}
        }};
        run({passed});
        return outputs;
    }}

private:
    static void *make() {{
        if ({name}_abi() != {upper}_ABI || {name}_signature() != {upper}_SIGNATURE)
            throw std::logic_error("{name}: the library is not the one of this header");
        void *const context = {name}_create();
        if (context == nullptr) throw std::bad_alloc();
        return context;
    }}
    static void expect(std::size_t found, std::size_t wanted, const char *input) {{
        if (found != wanted)
            throw std::invalid_argument(
                std::string("{name}: input ") + input + " has " + std::to_string(found) +
                " elements, expected " + std::to_string(wanted));
    }}

    void *context_;
}};

}}
#endif /* {upper}_HPP */
"""


def cpp_header_text(program: ExecutionPlan, name: str, header: str) -> str:
    """The header.

    Args:
        program: what was exported.
        name: prefix of the C functions.
        header: file name of the C header beside it.
    """
    outputs = tuple(spec for spec, _ in program.outputs)
    sources, results = parameter_names("in", program.inputs), parameter_names("out", outputs)
    types = [C_TYPES[spec.dtype] for spec in program.inputs]
    kinds = [C_TYPES[spec.dtype] for spec in outputs]
    upper = name.upper()
    return _TEXT.format(
        name=name,
        upper=upper,
        file=header,
        members=_lines([f"std::vector<{t}> {n};" for t, n in zip(kinds, results, strict=True)], 4),
        pointers=_pointers(program.inputs, outputs),
        read=", ".join(sources) or "nullptr",
        written=", ".join(results),
        vectors=", ".join(
            f"const std::vector<{t}> &{n}" for t, n in zip(types, sources, strict=True)
        ),
        checks=_lines(
            [
                f"expect({n}.size(), {upper}_INPUT_{k}_ELEMENTS, {upper}_INPUT_{k}_NAME);"
                for k, n in enumerate(sources)
            ],
            8,
        ),
        results=_lines(
            [f"std::vector<{t}>({upper}_OUTPUT_{k}_ELEMENTS)," for k, t in enumerate(kinds)], 12
        ),
        passed=", ".join(
            [*(f"{n}.data()" for n in sources), *(f"outputs.{n}.data()" for n in results)]
        ),
    )


def _pointers(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    read = (f"const {C_TYPES[s.dtype]} *" for s in inputs)
    written = (f"{C_TYPES[s.dtype]} *" for s in outputs)
    names = (*parameter_names("in", inputs), *parameter_names("out", outputs))
    return ", ".join(kind + n for kind, n in zip((*read, *written), names, strict=True))


def _lines(lines: Sequence[str], indent: int) -> str:
    return "\n".join(" " * indent + line for line in lines)
