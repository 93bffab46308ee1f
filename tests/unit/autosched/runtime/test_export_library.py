"""Native libraries: object, header and shared library, run from C and through ctypes."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.compilation.network import network_contents
from autosched.runtime import linker
from autosched.runtime.c_header import header_text, identifier
from autosched.runtime.errors import ExportError
from autosched.runtime.export import check_exportable, export_program
from autosched.runtime.linker import link_command, link_shared
from autosched.runtime.module import Module
from autosched.runtime.program import ExecutionPlan, HostStep, Place, StepInfo, TensorSpec
from autosched.zoo import build
from codegen.elf.read import read_object
from codegen.host import cpu_target
from codegen.llvm.machine import foreign_machine
from sketch.target.target import Target

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc)")

CPP_COMPILER = shutil.which("c++") or shutil.which("g++")
needs_cpp = pytest.mark.skipif(CPP_COMPILER is None, reason="no C++ compiler (c++, g++)")

ROWS, COLUMNS = 192, 160
MAIN = """\
#include <stdio.h>
#include <string.h>
#include "LIB.h"

static float a[LIB_INPUT_0_ELEMENTS];
static float c[LIB_OUTPUT_0_ELEMENTS];

int main(int argc, char **argv) {
    FILE *file;
    if (argc != 3 || strcmp(LIB_INPUT_TABLE[0].name, "A") || LIB_INPUT_TABLE[0].shape[0] != 192)
        return 10;
    if (LIB_OUTPUT_TABLE[0].bytes != sizeof c || LIB_OUTPUT_0_RANK != 2) return 11;
    if (LIB_call(a, c) != LIB_NOT_INITIALIZED) return 12;
    if (LIB_init() != LIB_OK || LIB_init() != LIB_OK) return 13;
    if (LIB_call(NULL, c) != LIB_NULL_POINTER || LIB_run(NULL, NULL) != LIB_NULL_POINTER) return 14;
    file = fopen(argv[1], "rb");
    if (!file || fread(a, 1, sizeof a, file) != sizeof a) return 15;
    fclose(file);
    for (int n = 0; n < 3; ++n) {
        memset(c, 0, sizeof c);
        if (LIB_call(a, c) != LIB_OK) return 16;
    }
    LIB_free();
    if (LIB_call(a, c) != LIB_NOT_INITIALIZED) return 17;
    file = fopen(argv[2], "wb");
    if (!file || fwrite(c, 1, sizeof c, file) != sizeof c) return 18;
    return fclose(file);
}
"""

CPP_MAIN = """\
#include <fstream>
#include <thread>
#include "product.hpp"

using autosched::product_network;

int main() {
    std::vector<float> a(PRODUCT_INPUT_0_ELEMENTS), c(PRODUCT_OUTPUT_0_ELEMENTS);
    std::ifstream("a.bin", std::ios::binary)
        .read(reinterpret_cast<char *>(a.data()), PRODUCT_INPUT_0_BYTES);
    if (product_call(a.data(), c.data()) != PRODUCT_NOT_INITIALIZED) return 1;
    {
        product_network network;
        std::vector<product_network> copies(2, network);
        { product_network moved(std::move(copies[1])), other; copies[1] = moved; other = moved; }
        std::vector<float> others[2];
        std::thread threads[2];
        for (int n = 0; n < 2; ++n)
            threads[n] = std::thread([&, n] {
                for (int k = 0; k < 200; ++k) others[n] = copies[n](a).out_C;
            });
        for (auto &thread : threads) thread.join();
        network.run(a.data(), c.data());
        if (others[0] != c || others[1] != c) return 2;
        try {
            network(std::vector<float>(3));
            return 3;
        } catch (const std::invalid_argument &error) {
            if (std::string(error.what()).find("input A has 3 elements") == std::string::npos)
                return 4;
        }
        try {
            network.run(nullptr, c.data());
            return 5;
        } catch (const autosched::error &error) {
            if (error.code() != PRODUCT_NULL_POINTER) return 6;
        }
    }
    if (product_run_in(nullptr, nullptr, nullptr) != PRODUCT_NULL_POINTER) return 7;
    if (product_call(a.data(), c.data()) != PRODUCT_NOT_INITIALIZED) return 8;
    std::ofstream("c.bin", std::ios::binary)
        .write(reinterpret_cast<const char *>(c.data()), PRODUCT_OUTPUT_0_BYTES);
}
"""


def matmul(threads: int) -> Module:
    a = asd.placeholder((ROWS, 64), name="A")
    b = asd.placeholder((64, COLUMNS), name="B", constant=True)
    k = asd.reduce_axis(64)
    c = asd.compute((ROWS, COLUMNS), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    task = asd.Task(asd.ComputeDAG([c]), target=asd.Target("cpu", threads=threads))
    weights = np.random.default_rng(0).standard_normal((64, COLUMNS), dtype=np.float32)
    return task.module({"B": weights})


@pytest.fixture(scope="module", params=[1, 2])
def module(request: pytest.FixtureRequest) -> Module:
    return matmul(request.param)


A = np.random.default_rng(1).standard_normal((ROWS, 64), dtype=np.float32)


def uses_openmp(path: Path) -> bool:
    return any(name.startswith(("GOMP_", "omp_")) for name in read_object(path.read_bytes()).names)


@needs_compiler
def test_a_c_program_computes_what_run_does(module: Module, tmp_path: Path) -> None:
    exported = module.export_library(tmp_path / "lib" / "product")
    assert exported.name == "product" and exported.object_file.name == "product.o"
    threaded = module.target.threads > 1
    assert uses_openmp(exported.object_file) == threaded
    text = MAIN.replace("LIB_run", "product_run").replace("LIB.h", "product.h")
    for function in ("call", "init", "free"):
        text = text.replace(f"LIB_{function}(", f"product_{function}(")
    main = tmp_path / "main.c"
    main.write_text(text.replace("LIB", "PRODUCT"))
    assert COMPILER is not None
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{exported.header.parent}"]
    libraries = ["-lgomp"] if threaded else []
    command = [COMPILER, *flags, str(main), str(exported.object_file), "-o", str(tmp_path / "main")]
    subprocess.run([*command, *libraries], check=True)
    A.tofile(tmp_path / "a.bin")
    done = subprocess.run([tmp_path / "main", tmp_path / "a.bin", tmp_path / "c.bin"], env={})
    assert done.returncode == 0
    found = np.fromfile(tmp_path / "c.bin", np.float32).reshape(ROWS, COLUMNS)
    np.testing.assert_array_equal(found, module.run({"A": A})["C"])


@needs_compiler
def test_the_shared_library_computes_what_run_does(module: Module, tmp_path: Path) -> None:
    exported = module.export_library(tmp_path / "net.v2.so", name="my net")
    assert exported.shared_library == tmp_path / "net.v2.so", exported.note
    assert "net.v2.h: " in str(exported) and "linked by" in str(exported)
    library = ctypes.CDLL(str(exported.shared_library))
    found = np.zeros((ROWS, COLUMNS), np.float32)
    inputs, outputs = (ctypes.c_void_p * 1)(A.ctypes.data), (ctypes.c_void_p * 1)(found.ctypes.data)
    assert library.my_net_run(inputs, outputs) == 1
    assert library.my_net_init() == 0
    assert library.my_net_run(inputs, outputs) == 0
    np.testing.assert_array_equal(found, module.run({"A": A})["C"])
    library.my_net_free()
    library.my_net_signature.restype = ctypes.c_uint64
    text = exported.header.read_text()
    assert f"#define MY_NET_SIGNATURE UINT64_C({library.my_net_signature():#018x})" in text
    assert f"#define MY_NET_ABI {library.my_net_abi()}\n" in text


@needs_cpp
def test_a_cpp_program_computes_what_run_does(module: Module, tmp_path: Path) -> None:
    exported = module.export_library(tmp_path / "product")
    (tmp_path / "main.cpp").write_text(CPP_MAIN)
    assert CPP_COMPILER is not None
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]
    libraries = ["-lgomp"] if module.target.threads > 1 else []
    command = [CPP_COMPILER, *flags, "main.cpp", exported.object_file.name, "-o", "main"]
    subprocess.run([*command, *libraries], check=True, cwd=tmp_path)
    A.tofile(tmp_path / "a.bin")
    done = subprocess.run([tmp_path / "main"], cwd=tmp_path, env={}, timeout=60)
    assert done.returncode == 0
    found = np.fromfile(tmp_path / "c.bin", np.float32).reshape(ROWS, COLUMNS)
    np.testing.assert_array_equal(found, module.run({"A": A})["C"])


@needs_cpp
def test_a_library_with_other_shapes_is_noticed_when_it_is_loaded(tmp_path: Path) -> None:
    """The header of one network, the library of another of the same name."""
    matmul(1).export_library(tmp_path / "product")
    other = asd.compile(build("mlp", image=4), threads=1, effort="none")
    object_file = other.export_library(tmp_path / "other", name="product").object_file
    main = '#include "product.hpp"\nint main() { autosched::product_network network; }\n'
    (tmp_path / "main.cpp").write_text(main)
    assert CPP_COMPILER is not None
    command = [CPP_COMPILER, "-std=c++11", "-pthread", "main.cpp", object_file.name, "-o", "main"]
    subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.returncode != 0 and "not the one of this header" in done.stderr


@needs_compiler
def test_two_libraries_fit_in_one_program(tmp_path: Path) -> None:
    module = matmul(1)
    files = [module.export_library(tmp_path / name).object_file for name in ("one", "two")]
    main = tmp_path / "main.c"
    main.write_text('#include "one.h"\n#include "two.h"\n'
                    "int main(void) { return one_init() + two_init(); }\n")  # fmt: skip
    assert COMPILER is not None
    command = [COMPILER, main, *files, "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_without_a_linker_object_and_header_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linker.shutil, "which", lambda _: None)
    stale = tmp_path / "product.so"
    stale.touch()
    exported = matmul(1).export_library(tmp_path / "product")
    assert exported.shared_library is None and not stale.exists()
    assert exported.object_file.stat().st_size > 64 * COLUMNS * 4
    assert "none of cc, gcc, clang" in str(exported)


def test_a_linker_that_fails_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_text("no object")
    result = link_shared(tmp_path / "x.o", tmp_path / "x.so", needs_openmp=False)
    assert not result.written and result.note.startswith("no shared library: ")
    assert "-l:libgomp.so.1" in link_command("ld", tmp_path, tmp_path, needs_openmp=True)


@pytest.mark.parametrize(("code", "reason"), [(None, "is not installed"), (1, "no libgomp")])
def test_code_for_another_machine_needs_a_compiler_for_it(
    code: int | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message says what is missing, and how to go on with what was written."""
    compiler, asked = "vax-linux-gnu-gcc", []

    def run(command: Sequence[str], **_: Any) -> Any:
        asked.append(command[0])
        return SimpleNamespace(returncode=code, stderr="\nno libgomp\nfailed")

    there = None if code is None else f"/bin/{compiler}"
    monkeypatch.setattr(linker.shutil, "which", {compiler: there}.get)
    monkeypatch.setattr(linker.subprocess, "run", run)
    files = tmp_path / "m.o", tmp_path / "m.so"
    result = link_shared(*files, needs_openmp=True, machine="vax")
    assert not result.written and asked == [compiler] * (code is not None)
    assert result.note.startswith(f"no shared library: m.o is for vax, and {compiler}")
    assert reason in result.note and "object and headers are complete" in result.note
    assert result.note.endswith("cc -shared -o m.so m.o -Wl,-z,defs -lgomp -lm")


def test_a_compiler_for_another_machine_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linker.shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(linker.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    result = link_shared(tmp_path / "m.o", tmp_path / "m.so", False, "vax")
    assert result == linker.LinkResult(True, "linked by vax-linux-gnu-gcc")


def test_code_for_another_machine_is_written(tmp_path: Path) -> None:
    target = cpu_target("cpu-neon", 2)
    assert foreign_machine(target) in ("aarch64", "")
    assert foreign_machine(cpu_target("cpu", 2)) == ""
    program, constants, objects, _ = network_contents(build("mlp"), target)
    exported = export_program(program, constants, objects, tmp_path / "mlp")
    merged = read_object(exported.object_file.read_bytes())
    assert merged.machine == 183
    assert any(s.content.nbytes == program.constants_bytes for s in merged.sections)
    assert "neon" in exported.header.read_text()


def make_program(**changes: Any) -> ExecutionPlan:
    x = TensorSpec('da"ta', (1, 3), "float32")
    y = TensorSpec("y", (), "bfloat16")
    values: dict[str, Any] = {
        "name": "net */", "target": Target("cpu", "generic", features="+sse3,+avx", threads=3),
        "inputs": (x, replace(x, name="da_ta")), "outputs": ((y, Place("arena", 0)),),
        "steps": (), "arena_bytes": 64, "constants_bytes": 0,
    }  # fmt: skip
    return ExecutionPlan(**(values | changes))


def test_the_header_documents_names_shapes_and_types() -> None:
    text = header_text(make_program(), "net", "1.2")
    assert "net * /, compiled by autosched 1.2" in text and "sse3 avx" in text
    assert '#define NET_INPUT_0_NAME "da\\042ta"' in text
    assert "const float *in_da_ta_0,\n    const float *in_da_ta_1,\n    uint16_t *out_y" in text
    assert "#define NET_OUTPUT_0_RANK 0" in text and "#define NET_OUTPUT_0_BYTES 2" in text
    assert "#define NET_THREADS 3" in text and "-lgomp" in text
    x = TensorSpec("x.1", (1,), "float32")
    alike = (x, replace(x, name="x/1"), replace(x, name="x_1_0"))
    text = header_text(make_program(inputs=alike), "net", "1.2")
    assert all(f"*in_x_1_{end}," in text for end in ("0", "1", "0_2"))
    assert identifier("3-net.v2") == "_3_net_v2" and identifier("") == "_"


def test_what_cannot_run_without_python_is_refused_by_name() -> None:
    info = StepInfo("top_k.1", ("sort",), "TopK", schedule="host")
    with pytest.raises(ExportError, match=r"1 operators run on the host.*TopK \(sort\)"):
        check_exportable(make_program(steps=(HostStep("p", (), (), info),)))
    with pytest.raises(ExportError, match=r"constants have 3\.00 GB"):
        whole = make_program(constants_bytes=3 * 10**9)
        export_program(whole, np.zeros(0, np.uint8), {}, Path("net"))
    with pytest.raises(ExportError, match=r"no type for s: object\[1\]"):
        check_exportable(make_program(inputs=(TensorSpec("s", (1,), "object"),)))


@pytest.mark.parametrize("folder", ["there", "there/", "new/", "new/deep/"])
def test_a_folder_takes_files_named_after_the_model(folder: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    module = asd.workloads.get("GMM").task(1, 4, 4, 4).module(check=False)
    library = module.export_library(f"{tmp_path}/{folder}")
    assert library.object_file == tmp_path / folder / "GMM_1_4_4_4.o"
    assert library.header.exists() and library.name == "GMM_1_4_4_4"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == []


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExportError, match="names no file"):
        matmul(1).export_library("")
    with pytest.raises(ExportError, match="cannot write the library"):
        matmul(1).export_library(tmp_path / "file" / "net")
    for name in ('a"b', "a\nb"):
        with pytest.raises(ExportError, match="no header can include this name"):
            matmul(1).export_library(tmp_path / name)
    assert not list(tmp_path.glob("a*"))


def test_names_of_files_need_not_be_utf_8(tmp_path: Path) -> None:
    library = matmul(1).export_library(tmp_path / os.fsdecode(b"m\xfc"))
    assert b'#include "m\xfc.h"' in library.cpp_header.read_bytes()


@pytest.mark.parametrize("suffix", [".h", ".hpp"])
def test_a_full_disk_leaves_the_old_library(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it: half a header, or an object and the header of another one, serves nobody."""
    matmul(1).export_library(tmp_path / "net")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    whole = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if (suffix == ".hpp") != (b"namespace" in data):
            return whole(path, data)
        whole(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ExportError, match="cannot write the library: No space left"):
        matmul(2).export_library(tmp_path / "net")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
