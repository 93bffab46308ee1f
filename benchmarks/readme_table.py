"""Regenerates the results in README.md and docs/results.md from the files in benchmarks/results.

``python -m benchmarks.readme_table`` writes; with ``--check`` it fails if that changed anything.
The README has the networks of one machine; the page has all tables of all machines.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.rows import SLOW

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = "<!-- results: begin (written by benchmarks/readme_table.py) -->"
END = "<!-- results: end -->"
RIVALS = ("openvino", "openvino_bf16", "onnxruntime", "onednn", "torch_inductor", "torch_eager")
LABELS = {
    "openvino": "OpenVINO",
    "openvino_bf16": "OpenVINO bf16",
    "onnxruntime": "onnxruntime",
    "onednn": "oneDNN packed",
    "torch_inductor": "torch inductor",
    "torch_eager": "torch eager",
}

LEGEND = (
    "- **bold**: the fastest of a row. Compare times of one row only: tables were measured on",
    "  different days.",
    "- *ratio*: fastest rival / autosched, and the lower end of its bootstrap 90 % interval over",
    "  interleaved rounds.",
    "- *of FMA peak*: operations of the definition over time, relative to a loop of multiply-adds.",
    "  Winograd's algorithm needs fewer operations, so it may exceed 100 %.",
    "- *to tuned*: latency without any trial / latency of the tuned network, in the same rounds.",
)
LEGEND_OF_PAGE = (
    *LEGEND,
    "- *constant*: the second matrix is weights, packed ahead of time; *inputs*: both are inputs.",
    "- *renamed*: the same program under other names: nothing is recognised by its name.",
)

NOTHING = "Run `make bench` to measure on your machine."

Json = dict[str, Any]
Lines = list[str]


def read(results: Path, name: str) -> Json | None:
    """The content of one result file, if there is one."""
    file = results / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def read_all(results: Path, name: str) -> Iterator[Json]:
    """The content of a result file, then those of ``NAME.MACHINE.json``: of other machines."""
    for file in (results / f"{name}.json", *sorted(results.glob(f"{name}.*.json"))):
        if file.exists():
            yield json.loads(file.read_text())


def comparison_table(rows: Sequence[Json]) -> Iterator[str]:
    """Milliseconds of all contenders and the ratio, as Markdown."""
    rivals = [r for r in RIVALS if any(r in row["rivals_ms"] for row in rows)]
    shares = [row.get("peak_share") for row in rows]
    of_peak = ["of FMA peak"] if any(share is not None for share in shares) else []
    head = ["", "threads", "autosched", *(LABELS[r] for r in rivals), "ratio (low)", *of_peak]
    yield _line(head)
    yield _line(["---", *["---:"] * (len(head) - 1)])
    for row, share in zip(rows, shares, strict=True):
        yield _line(
            [
                row["name"].replace("_", " "),
                str(row["threads"]),
                *_times(row, rivals),
                f"{row['ratio']:.2f} ({row['ratio_low']:.2f})" if "ratio" in row else "",
                *("" if share is None else f"{share:.0%}" for _ in of_peak),
            ]
        )


def untuned_table(rows: Sequence[Json]) -> Iterator[str]:
    """Networks without a log: what compiling takes, and what tuning would still win."""
    rivals = [r for r in RIVALS if any(r in row["rivals_ms"] for row in rows)]
    names = (LABELS[r] for r in rivals)
    head = ["", "threads", "compiled in s", "autosched", *names, "ratio (low)", "to tuned"]
    yield _line(head)
    yield _line(["---", *["---:"] * (len(head) - 1)])
    for row in rows:
        tuned = row.get("ratio_to_tuned")
        yield _line(
            [
                row["name"],
                str(row["threads"]),
                f"{row['compile_s']:.1f}",
                *_times(row, rivals),
                f"{row['ratio']:.2f} ({row['ratio_low']:.2f})" if "ratio" in row else "",
                "" if tuned is None else f"{tuned:.2f}",
            ]
        )


def layouts_table(rows: Sequence[Json]) -> Iterator[str]:
    """Convolutions in two layouts of our own."""
    yield _line(["", "channels last", "blocks of channels", "last / blocks"])
    yield _line(["---", "---:", "---:", "---:"])
    for row in rows:
        times = (_ms(row["last_ms"]), _ms(row["blocked_ms"]))
        yield _line([row["name"].replace("_", " "), *times, f"{row['ratio']:.2f}"])


def few_trials_table(rows: Sequence[Json]) -> Iterator[str]:
    """Tasks after few trials, and after many; the last line is the geometric mean."""
    header = ["", "many trials", "few / many", "of each seed", "seconds for few", "for many"]
    yield _line(header)
    yield _line(["---", *["---:"] * (len(header) - 1)])
    for row in rows:
        ratios = ", ".join(f"{ratio:.2f}" for ratio in row["ratios"])
        times = (f"{max(row['few_s']):.1f}", f"{row['many_s']:.0f}")
        yield _line([row["name"], _ms(row["many_ms"]), f"{row['ratio']:.3f}", ratios, *times])
    seeds = zip(*(row["ratios"] for row in rows), strict=True)
    means = ", ".join(f"{geometric_mean(seed):.3f}" for seed in seeds)
    mean = geometric_mean(row["ratio"] for row in rows)
    yield _line(["geometric mean", "", f"{mean:.3f}", means, "", ""])


def disturbed_table(rows: Sequence[Json]) -> Iterator[str]:
    """What was chosen beside a busy process, next to what was chosen without; the last line is the
    geometric mean.
    """
    yield _line(["", "seed", "alone", "disturbed", "disturbed / alone", "told"])
    yield _line(["---", *["---:"] * 5])
    *runs, whole = rows
    for row in runs:
        if row.get("failed"):
            yield _line([row["name"], str(row["seed"]), "", "", "failed", ""])
            continue
        times = (_ms(row["alone_ms"]), _ms(row["ours_ms"]), f"{row['slower']:.3f}")
        yield _line([row["name"], str(row["seed"]), *times, "yes" if row["told"] else "no"])
    told = f"{whole['runs_told']} of {whole['runs']}"
    yield _line(["geometric mean", "", "", "", f"{whole['slower']:.3f}", told])


def time_to_quality_table(rows: Sequence[Json]) -> Iterator[str]:
    """Latency after short runs over that of a long one; a line for all seeds of a network."""
    yield _line(["", "seconds", "short / long", "of each seed", "long"])
    yield _line(["---", *["---:"] * 4])
    for (name, seconds), runs in groupby(rows, lambda row: (row["name"], row["seconds"])):
        known = [(row["of_known"]["end"], row["latency_ms"]["known"]) for row in runs]
        ratios = [ratio for ratio, _ in known]
        each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        long = _ms(geometric_mean(ms for _, ms in known))
        yield _line([name, f"{seconds:g}", f"{geometric_mean(ratios):.3f}", each, long])


def modules_table(rows: Sequence[Json]) -> Iterator[str]:
    """Small modules: a line for each kind, one for all, and those that are slow."""
    yield _line(["", "modules", "ratio", "at least as fast", f"below {SLOW:g}"])
    yield _line(["---", *["---:"] * 4])
    kinds = {kind: list(of_kind) for kind, of_kind in groupby(rows, lambda row: row["kind"])}
    for kind, of_kind in {**kinds, "all": rows}.items():
        ratios = [row["ratio"] for row in of_kind]
        fast, slow = sum(r >= 1 for r in ratios), sum(r < SLOW for r in ratios)
        mean = f"{geometric_mean(ratios):.2f}"
        yield _line([kind, str(len(ratios)), mean, str(fast), str(slow)])
    slow_ones = sorted((row["ratio"], row["name"].replace("_", " ")) for row in rows)
    named = [f"{name} {ratio:.2f}" for ratio, name in slow_ones if ratio < SLOW]
    yield ""
    yield f"Below {SLOW:g}: {', '.join(named) or 'none'}."


def environment(content: Json) -> str:
    """One sentence: machine and versions."""
    machine, versions = content["machine"], content["versions"]
    names = [f"{n} {v}" for n, v in versions.items() if v != "not installed" and n != "autosched"]
    return f"{machine['cpu']}, {machine['cores']} cores; {', '.join(names)}."


def figures(results: Path) -> Iterator[str]:
    """Single figures about tuning itself."""
    compile_time = read(results, "compile_time")
    if compile_time is not None:
        yield (
            f"- A typical candidate compiles in {compile_time['rows'][-1]['ours_ms']:.0f} ms "
            f"({compile_time['machine']['cpu']})."
        )
    search = read(results, "search")
    if search is not None:
        rates = [row["candidates_per_s"] for row in search["rows"] if "candidates_per_s" in row]
        yield (
            f"- Features, prediction and evolution: {min(rates):,.0f} scored candidates per second "
            "on one core, cold start included."
        )
        last = search["rows"][-1]
        if last.get("median_trials") is not None:
            yield (
                f"- The evolutionary search needs {_counted(last['median_trials'])} (median) to be "
                "as good as 128 random ones."
            )
    rate = read(results, "tuning_rate")
    if rate is not None:
        runs = [
            f"{row['trials_per_s']:.1f} ({row['search_share']:.0%}) in a run of {row['trials']:,}"
            for row in rate["rows"]
        ]
        yield (
            "- Trials per second while tuning ResNet-18's convolutions, and the part of the time "
            f"that search and learning take: {', '.join(runs)} ({rate['machine']['cpu']})."
        )
    yield from correctness(results)


def correctness(results: Path) -> Iterator[str]:
    """What ONNX's own cases and random ones say."""
    nodes = read(results, "onnx_nodes")
    if nodes is not None:
        total = nodes["rows"][-1]
        yield (
            f"- {total['passed']:,} of ONNX's {total['cases']:,} node test cases pass "
            f"({total['native']:,} in kernels, {total['host']:,} with the help of host operators), "
            f"{total['wrong']} are wrong; the others are refused by name."
        )
    campaign = read(results, "campaign")
    if campaign is not None:
        yield _campaign(campaign["rows"])


def _campaign(rows: Sequence[Json]) -> str:
    """One line: how many cases of which parts, and how many failed."""
    parts = ", ".join(f"{row['cases']:,} {row['title']}" for row in rows)
    failed = sum(len(row["failures"]) for row in rows)
    counts: dict[str, int] = {}
    for row in rows:
        counts |= row["counts"]
    faults = f"{counts.get('kills', 0):,} kills and {counts.get('interrupts', 0):,} interrupts"
    return (
        f"- [Random cases](docs/campaign.md) against independent judges: {parts}, among them "
        f"{faults}; {failed:,} of them failed."
    )


_NETWORKS = (
    ("networks", "Networks, float32", comparison_table),
    (
        "no_log",
        "The same networks without any tuning, with schedules of the release where it has some",
        untuned_table,
    ),
)
_TABLES = (
    *_NETWORKS,
    ("model_alone", "The same networks, all schedules by the draft model, float32", untuned_table),
    ("quick", "The same networks after at most 8 trials of each operator, float32", untuned_table),
    ("wild", "Networks of torchvision and transformers, float32", comparison_table),
    ("published", "Trained models that packages publish, nothing tuned", untuned_table),
    ("modules", "Small modules of PyTorch, nothing tuned, float32", modules_table),
    ("quantised", "Quantised networks (QDQ files of onnxruntime's quantiser)", comparison_table),
    ("bf16", "Networks in bfloat16", comparison_table),
    ("narrow_weights", "One token of GPT-2 with weights of 4 bits", comparison_table),
    ("ops", "Single operators, float32", comparison_table),
    ("layers", "Layers of few channels, or limited by memory, float32", comparison_table),
    ("attention", "Attention of 12 heads of 64, float32", comparison_table),
    ("int8", "Products and convolutions of 8-bit integers", comparison_table),
    ("layouts", "Convolutions as they are written, in two layouts", layouts_table),
    ("time_to_quality", "After 60 and 180 seconds, over 30 minutes", time_to_quality_table),
    ("few_trials", "Tasks after 64 trials and after 1,000, from nothing", few_trials_table),
    ("disturbed", "Convolutions tuned while another process works", disturbed_table),
)


def generate(results: Path) -> str:
    """What stands between the markers of the README: the networks of one machine, and figures."""
    lines: list[str] = []
    for name, title, table in _NETWORKS:
        for content in islice(read_all(results, name), 1):
            lines += _section(f"**{title}**, milliseconds", table, content)
    lines += figures(results)
    return "\n".join((*LEGEND, "", *lines)) if lines else NOTHING


def generate_page(results: Path) -> str:
    """What stands between the markers of the page: all tables of all machines."""
    lines: list[str] = []
    for name, title, table in _TABLES:
        contents = list(read_all(results, name))
        lines += [f"## {title}", ""] if contents else []
        for content in contents:
            cpu = content["machine"]["cpu"]
            unit = "geometric means of the ratio" if table is modules_table else "milliseconds"
            lines += _section(f"{cpu}, {unit}", table, content)
    return "\n".join((*LEGEND_OF_PAGE, "", *lines)).rstrip() if lines else NOTHING


def _section(head: str, table: Callable[[Sequence[Json]], Iterator[str]], content: Json) -> Lines:
    """One table of one machine."""
    better = "" if table is modules_table else " (smaller is better)"
    return [f"{head}{better}:", "", *table(content["rows"]), "", environment(content), ""]


def replaced(readme: str, content: str) -> str:
    """``readme``, or the page, with what is between its markers replaced.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN!r} ... {END!r}")
    return f"{before}{BEGIN}\n{content}\n{END}{after}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _times(row: Json, rivals: Sequence[str]) -> Iterator[str]:
    """Our time and those of the rivals; the shortest is bold."""
    times = [row["ours_ms"], *(row["rivals_ms"].get(rival) for rival in rivals)]
    fastest = min(time for time in times if time is not None)
    return (f"**{_ms(time)}**" if time == fastest else _ms(time) for time in times)


def _ms(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _counted(trials: float) -> str:
    return f"{trials:g} {'trial' if trials == 1 else 'trials'}"


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Regenerate the results in README and docs.")
    parser.add_argument("--check", action="store_true", help="fail if a page is out of date")
    arguments = parser.parse_args()
    for file, content in ((README, generate(RESULTS)), (PAGE, generate_page(RESULTS))):
        old = file.read_text()
        new = replaced(old, content)
        if not arguments.check:
            file.write_text(new)
        elif new != old:
            sys.exit(f"{file.name} is out of date: run python -m benchmarks.readme_table")


if __name__ == "__main__":
    main()
