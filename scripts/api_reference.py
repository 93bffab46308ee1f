"""Write the API reference as HTML, from docstrings: ``python scripts/api_reference.py FOLDER``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, get_type_hints

import pdoc.doc
import pdoc.render

# What users import, and what they implement or construct when they extend the search.
PUBLIC: Final = (
    "autosched",
    "autosched.api",
    "autosched.collect.run",
    "autosched.collect.sources",
    "autosched.compilation.network",
    "autosched.system.errors",
    "autosched.system.user_warnings",
    "autosched.tuning.objectives",
    "autosched.inference_session",
    "autosched.network_source",
    "autosched.onnx_backend",
    "autosched.plots",
    "autosched.tuning.options",
    "autosched.research",
    "autosched.study",
    "autosched.task",
    "autosched.tasks.candidate",
    "autosched.testing",
    "autosched.testing.cost_model",
    "autosched.testing.policy",
    "autosched.testing.rule",
    "autosched.testing.runner",
    "autosched.testing.variant",
    "autosched.torch_frontend",
    "autosched.tuning.result",
    "autosched.tuning.job",
    "autosched.tuning.networks",
    "autosched.workloads",
    "autosched.zoo",
    "autosched.fleet.errors",
    "autosched.graph.builder",
    "autosched.graph.errors",
    "autosched.graph.ir",
    "autosched.graph.ops.base",
    "autosched.graph.ops.lowering",
    "autosched.measure.errors",
    "autosched.measure.inputs",
    "autosched.measure.protocol",
    "autosched.measure.replay",
    "autosched.measure.result",
    "autosched.measure.simulated",
    "autosched.onnx.importer.site",
    "autosched.records.best",
    "autosched.records.errors",
    "autosched.records.identity",
    "autosched.records.log",
    "autosched.records.merge",
    "autosched.records.reading",
    "autosched.records.record",
    "autosched.records.stats",
    "autosched.records.store",
    "autosched.report.callbacks",
    "autosched.report.comparison",
    "autosched.report.events",
    "autosched.runtime.explanation",
    "autosched.runtime.benchmark",
    "autosched.runtime.errors",
    "autosched.runtime.export",
    "autosched.runtime.module",
    "autosched.runtime.profiler",
    "autosched.search.measured",
    "autosched.search.models",
    "autosched.search.options",
    "autosched.search.policy",
    "autosched.search.recall",
    "autosched.search.sampling",
    "autosched.search.scorer",
    "autosched.search.space",
    "autosched.workloads.definition",
    "codegen.backend",
    "codegen.cuda.build",
    "codegen.errors",
    "codegen.cuda.nvrtc",
    "codegen.gpu.errors",
    "codegen.gpu.missing",
    "codegen.gpu.protocol",
    "codegen.host",
    "costmodel.dataset",
    "costmodel.errors",
    "costmodel.extract",
    "costmodel.evaluation",
    "costmodel.feature_table",
    "costmodel.extra_feature",
    "costmodel.features",
    "costmodel.gbdt_options",
    "costmodel.gbdt",
    "costmodel.metrics",
    "costmodel.model",
    "costmodel.sklearn_model",
    "sketch.analysis.access",
    "sketch.dag.dag",
    "sketch.schedule.decision",
    "sketch.errors",
    "sketch.lang.expr",
    "sketch.population.feasible",
    "sketch.lang.functions",
    "sketch.target.gpu_card",
    "sketch.target.gpu_targets",
    "sketch.oracle.expected",
    "sketch.oracle.interpret",
    "sketch.nest.loopnest",
    "sketch.lower",
    "sketch.nest.printer",
    "sketch.population.population",
    "sketch.schedule.loop",
    "sketch.schedule.program",
    "sketch.lang.reducers",
    "sketch.oracle.reference",
    "sketch.rules.backend",
    "sketch.rules.generate",
    "sketch.rules.rule",
    "sketch.schedule.sketch",
    "sketch.schedule.stage",
    "sketch.schedule.steps",
    "sketch.target.target",
    "sketch.target.units",
    "sketch.lang.tensor",
)


def build(folder: Path, modules: Sequence[str] = PUBLIC) -> Path:
    """Write one page a module, an index and a search index into ``folder``; returns the index.

    Raises:
        RuntimeError: a module cannot be imported.
    """
    pdoc.render.configure(docformat="google", footer_text="autosched", show_source=False)
    pages = {name: pdoc.doc.Module.from_name(name) for name in modules}
    for page in pages.values():
        _resolve_fields(page.obj)
    for name, page in pages.items():
        _write(folder / f"{name.replace('.', '/')}.html", pdoc.render.html_module(page, pages))
    _write(folder / "search.js", pdoc.render.search_index(pages))
    return _write(folder / "index.html", pdoc.render.html_index(pages))


def _resolve_fields(module: ModuleType) -> None:
    """Types instead of their names in the constructors of named tuples: pdoc cannot look them up,
    as these functions belong to no module.
    """
    for item in vars(module).values():
        if isinstance(item, type) and issubclass(item, tuple) and hasattr(item, "_fields"):
            item.__new__.__annotations__.update(get_type_hints(item))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pages go")
    print(build(parser.parse_args().folder))


if __name__ == "__main__":
    main()
