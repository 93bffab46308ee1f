"""The pages of the API reference: which modules it has, and a page for each."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
    "autosched.onnx.export.terms",
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


def write_reference(folder: Path, modules: Sequence[str] = PUBLIC) -> None:
    """Write one page a module and an index of them, as MyST Markdown for Sphinx's autodoc.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = ["# API reference", "The modules that users import, and those that extensions use."]
    for package in dict.fromkeys(name.partition(".")[0] for name in modules):
        mine = sorted(name for name in modules if name.partition(".")[0] == package)
        rows = [f"| [`{name}`]({name}.md) | {_summary(name)} |" for name in mine]
        index += [f"## {package}", "\n".join(["| module | |", "| --- | --- |", *rows])]
        index.append("\n".join(["```{toctree}", ":hidden:", *mine, "```"]))
    (folder / "index.md").write_text("\n\n".join(index) + "\n", encoding="utf-8")
    for name in modules:
        text = f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def _summary(module: str) -> str:
    """The first line of its docstring, as Markdown."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {module}", name=module)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").split("\n")[0].replace("|", "\\|")
