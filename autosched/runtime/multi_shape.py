"""``MultiShapeModule``: a network that is compiled for several shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from autosched.runtime.errors import AssemblyError, ExportError, InputError
from autosched.runtime.module import PROFILE_RUNS, Module

if TYPE_CHECKING:
    from autosched.runtime.benchmark import Benchmark
    from autosched.runtime.bound import BoundModule
    from autosched.runtime.explanation import Explanation
    from autosched.runtime.export import ExportedLibrary
    from autosched.runtime.gpu.export import ExportedSource
    from autosched.runtime.profiler import Profile
    from autosched.runtime.program import TensorSpec
    from autosched.runtime.untuned import Untuned

Shapes = tuple[tuple[int, ...], ...]


class MultiShapeModule(Module):
    """A network for several shapes of its inputs, such as batch sizes.

    Every call looks at the shapes of its inputs and runs the module that was compiled for them;
    other shapes are an error.  What is said without inputs (``inputs``, ``program``, ``benchmark``
    without inputs) is said of the first module.
    """

    def __init__(self, modules: Sequence[Module]) -> None:
        """``modules``: of one network, with different shapes.

        Raises:
            AssemblyError: names, dtypes or targets differ, or two have the same shapes.
        """
        first = modules[0]
        super().__init__(
            first.program, first.constants, first._loaded, first.objects, first.payloads
        )
        self._modules = tuple(modules)
        for module in modules:
            if _interface(module) != _interface(first):
                raise AssemblyError(
                    "their inputs, outputs or targets differ in more than shapes",
                    f"{first!r} and {module!r}",
                    "compile one network for several shapes",
                )
        self._by_shapes = {_shapes(module.inputs): module for module in modules}
        if len(self._by_shapes) < len(modules):
            raise AssemblyError("two networks have the same shapes of inputs", first.name)

    @property
    def modules(self) -> tuple[Module, ...]:
        return self._modules

    @property
    def untuned(self) -> tuple[Untuned, ...]:
        return tuple(task for module in self._modules for task in module.untuned)

    def module_for(self, inputs: Mapping[str, Any]) -> Module:
        """The module for the shapes of these arrays.

        Raises:
            InputError: none was compiled for them.
        """
        names = [spec.name for spec in self.inputs]
        if not isinstance(inputs, Mapping) or any(name not in inputs for name in names):
            return self._modules[0]  # which says what is wrong
        shapes = tuple(tuple(getattr(inputs[name], "shape", ())) for name in names)
        found = self._by_shapes.get(shapes)
        if found is None:
            raise InputError(
                f"no code for {_text(names, shapes)}", f"module {self.name}",
                f"it was compiled for {'; '.join(_text(names, s) for s in self._by_shapes)}",
            )  # fmt: skip
        return found

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, NDArray[Any]] | None = None
    ) -> dict[str, NDArray[Any]]:
        return self.module_for(inputs).run(inputs, out)

    def bind(
        self, inputs: Mapping[str, Any], out: Mapping[str, NDArray[Any]] | None = None
    ) -> BoundModule:
        return self.module_for(inputs).bind(inputs, out)

    def run_on_device(self, inputs: Mapping[str, Any], stream: int | None = None) -> dict[str, Any]:
        return self.module_for(inputs).run_on_device(inputs, stream)

    def benchmark(
        self, inputs: Mapping[str, Any] | None = None, repeats: int = 50, warmup: int = 5
    ) -> Benchmark:
        return self._chosen(inputs).benchmark(inputs, repeats, warmup)

    def profile(
        self,
        inputs: Mapping[str, Any] | None = None,
        repeats: int = PROFILE_RUNS,
        counters: bool = False,
    ) -> Profile:
        return self._chosen(inputs).profile(inputs, repeats, counters)

    def explain(
        self, inputs: Mapping[str, Any] | None = None, repeats: int = PROFILE_RUNS
    ) -> Explanation:
        return self._chosen(inputs).explain(inputs, repeats)

    def pin_threads(self, cores: Sequence[int] | None = None) -> None:
        for module in self._modules:
            module.pin_threads(cores)

    def export_library(
        self, path: str | Path, name: str | None = None
    ) -> ExportedLibrary | ExportedSource:
        """Raises ExportError: a library has one set of shapes."""
        raise ExportError(
            f"a library has one set of shapes, the module has {len(self._modules)}",
            str(path),
            "export each of module.modules",
        )

    def summary(self) -> str:
        """One table for each set of shapes."""
        parts = ((_text_of(module), module.summary()) for module in self._modules)
        return "\n\n".join(f"{shapes}\n{table}" for shapes, table in parts)

    def __repr__(self) -> str:
        inputs = "; ".join(_text_of(module) for module in self._modules)
        return f"MultiShapeModule({self.name}: {inputs})"

    def _repr_html_(self) -> str:
        return "".join(module._repr_html_() for module in self._modules)

    def _reported(self, inputs: Mapping[str, Any] | None) -> Sequence[Module]:
        return self._modules if inputs is None else (self.module_for(inputs),)

    def _chosen(self, inputs: Mapping[str, Any] | None) -> Module:
        return self._modules[0] if inputs is None else self.module_for(inputs)


def _interface(module: Module) -> object:
    """All that modules of one network have in common."""
    sides = ((spec.name, spec.dtype) for spec in (*module.inputs, *module.outputs))
    return tuple(sides), len(module.inputs), module.target


def _shapes(specs: Sequence[TensorSpec]) -> Shapes:
    return tuple(spec.shape for spec in specs)


def _text(names: Sequence[str], shapes: Shapes) -> str:
    return ", ".join(f"{n}={list(s)}" for n, s in zip(names, shapes, strict=True))


def _text_of(module: Module) -> str:
    return _text([spec.name for spec in module.inputs], _shapes(module.inputs))
