"""The README's table comes from the JSON files, whatever of them is there."""

from __future__ import annotations

import json

import pytest

from benchmarks.readme_table import BEGIN, END, generate, generate_page, replaced

ENVIRONMENT = {
    "machine": {"cpu": "Test CPU", "cores": 2},
    "versions": {"python": "3.11.7", "torch": "not installed"},
}
ROW = {
    "name": "resnet-18",
    "threads": 2,
    "ours_ms": 7.126,
    "rivals_ms": {"openvino": 9.5, "torch_eager": 20.0},
    "ratio": 1.333,
    "ratio_low": 1.291,
    "peak_share": 0.81,
}


def test_without_results_it_says_how_to_get_them(tmp_path):
    assert "make bench" in generate(tmp_path)
    assert "make bench" in generate_page(tmp_path)


def test_a_row(tmp_path):
    (tmp_path / "networks.json").write_text(json.dumps({**ENVIRONMENT, "rows": [ROW]}))
    text = generate(tmp_path)
    assert "| resnet-18 | 2 | **7.13** | 9.50 | 20.00 | 1.33 (1.29) | 81% |" in text
    assert "Test CPU, 2 cores; python 3.11.7." in text


def test_the_fastest_of_a_row_is_bold(tmp_path):
    slow = {**ROW, "ours_ms": 11.0}
    (tmp_path / "networks.json").write_text(json.dumps({**ENVIRONMENT, "rows": [slow]}))
    assert "| resnet-18 | 2 | 11.00 | **9.50** | 20.00 |" in generate(tmp_path)


def test_a_table_of_the_page_names_its_machine(tmp_path):
    (tmp_path / "networks.json").write_text(json.dumps({**ENVIRONMENT, "rows": [ROW]}))
    assert "\nTest CPU, milliseconds (smaller is better):\n" in generate_page(tmp_path)


def test_without_a_peak_there_is_no_column_of_it(tmp_path):
    row = {name: value for name, value in ROW.items() if name != "peak_share"}
    (tmp_path / "quantised.json").write_text(json.dumps({**ENVIRONMENT, "rows": [row]}))
    text = generate_page(tmp_path)
    assert "| resnet-18 | 2 | **7.13** | 9.50 | 20.00 | 1.33 (1.29) |\n" in text
    assert "of FMA peak |" not in text


def test_other_machines_follow_on_the_page(tmp_path):
    other = {**ENVIRONMENT, "machine": {"cpu": "Other CPU", "cores": 4}, "rows": [ROW]}
    (tmp_path / "networks.other.json").write_text(json.dumps(other))
    (tmp_path / "networks.json").write_text(json.dumps({**ENVIRONMENT, "rows": [ROW]}))
    text = generate_page(tmp_path)
    assert text.count("## Networks, float32") == 1
    assert text.index("Test CPU") < text.index("Other CPU")
    assert "Other CPU" not in generate(tmp_path)


def test_a_row_without_tuning(tmp_path):
    row = {**ROW, "compile_s": 3.25, "ratio_to_tuned": 1.118}
    (tmp_path / "no_log.json").write_text(json.dumps({**ENVIRONMENT, "rows": [row]}))
    text = generate(tmp_path)
    assert "| resnet-18 | 2 | 3.2 | **7.13** | 9.50 | 20.00 | 1.33 (1.29) | 1.12 |" in text


def test_figures(tmp_path):
    rows = [
        {"candidates_per_s": 31234.5},
        {"candidates_per_s": 25000.0},
        {"median_trials": 33.0},
    ]
    (tmp_path / "search.json").write_text(json.dumps({**ENVIRONMENT, "rows": rows}))
    rates = [
        {"trials_per_s": 14.25, "search_share": 0.184, "trials": 256},
        {"trials_per_s": 21.31, "search_share": 0.12, "trials": 1024},
    ]
    (tmp_path / "tuning_rate.json").write_text(json.dumps({**ENVIRONMENT, "rows": rates}))
    nodes = {"cases": 1884, "passed": 1832, "native": 1065, "host": 767, "wrong": 0}
    (tmp_path / "onnx_nodes.json").write_text(json.dumps({**ENVIRONMENT, "rows": [{}, nodes]}))
    text = generate(tmp_path)
    assert "25,000 scored candidates per second" in text
    assert "needs 33 trials" in text
    assert "14.2 (18%) in a run of 256, 21.3 (12%) in a run of 1,024 (Test CPU)" in text
    assert "1,832 of ONNX's 1,884 node test cases pass" in text


def test_only_what_is_between_the_markers_changes():
    readme = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replaced(readme, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="no '<!-- results: begin"):
        replaced("nothing here", "new")


def test_the_campaign_has_a_line(tmp_path):
    counts = {"kills": 1200, "interrupts": 2000}
    rows = [
        {"title": "tensor programs", "cases": 20480, "failures": [], "counts": {}},
        {"title": "killed sessions", "cases": 90, "failures": [{"seed": 1}], "counts": counts},
    ]
    (tmp_path / "campaign.json").write_text(json.dumps({"rows": rows}))
    text = generate(tmp_path)
    assert "20,480 tensor programs, 90 killed sessions" in text
    assert "1,200 kills and 2,000 interrupts; 1 of them failed" in text


def test_a_row_of_layouts(tmp_path):
    row = {"name": "conv1x1_56_64_64_s1", "last_ms": 0.0521, "blocked_ms": 0.0533, "ratio": 0.9775}
    (tmp_path / "layouts.json").write_text(json.dumps({**ENVIRONMENT, "rows": [row]}))
    assert "| conv1x1 56 64 64 s1 | 0.052 | 0.053 | 0.98 |" in generate_page(tmp_path)


def test_runs_of_a_network_and_length_are_one_line(tmp_path):
    def run(name, seconds, ratio):
        latencies = {"end": 2.0 * ratio, "known": 2.0}
        return {"name": name, "seconds": seconds, "of_known": {"end": ratio}} | {
            "latency_ms": latencies
        }

    rows = [run("net", 60.0, 1.1), run("net", 60.0, 1.0), run("net", 180.0, 1.02)]
    (tmp_path / "time_to_quality.json").write_text(json.dumps({**ENVIRONMENT, "rows": rows}))
    page = generate_page(tmp_path)
    assert "| net | 60 | 1.049 | 1.100, 1.000 | 2.00 |" in page
    assert "| net | 180 | 1.020 | 1.020 | 2.00 |" in page


def test_rows_of_few_trials_and_their_mean(tmp_path):
    row = {"name": "net conv.1", "many_ms": 0.2, "many_s": 31.2, "few_s": [1.9, 2.04]}
    rows = [row | {"ratio": 1.05, "ratios": [1.1, 1.0]}, row | {"ratio": 1.0, "ratios": [1.0, 1.0]}]
    (tmp_path / "few_trials.json").write_text(json.dumps({**ENVIRONMENT, "rows": rows}))
    page = generate_page(tmp_path)
    assert "| net conv.1 | 0.200 | 1.050 | 1.10, 1.00 | 2.0 | 31 |" in page
    assert "| geometric mean |  | 1.025 | 1.049, 1.000 |  |  |" in page


def test_rows_of_disturbed_runs_and_their_mean(tmp_path):
    row = {"name": "conv.1", "seed": 1, "alone_ms": 0.9, "ours_ms": 0.99, "slower": 1.1}
    whole = {"name": "disturbed", "slower": 1.1, "runs": 2, "runs_told": 1}
    failed = {"name": "conv.2", "seed": 0, "failed": True}
    rows = [row | {"told": ["slow"]}, row | {"told": []}, failed, whole]
    (tmp_path / "disturbed.json").write_text(json.dumps({**ENVIRONMENT, "rows": rows}))
    page = generate_page(tmp_path)
    assert "| conv.1 | 1 | 0.900 | 0.990 | 1.100 | yes |" in page
    assert "| conv.1 | 1 | 0.900 | 0.990 | 1.100 | no |" in page
    assert "| conv.2 | 0 |  |  | failed |  |" in page
    assert "| geometric mean |  |  |  | 1.100 | 1 of 2 |" in page


def test_small_modules_by_kind(tmp_path):
    rows = [
        {"name": "exp", "kind": "functions", "ratio": 2.0},
        {"name": "cum_sum", "kind": "scans", "ratio": 0.5},
        {"name": "sort", "kind": "scans", "ratio": 0.95},
    ]
    (tmp_path / "modules.json").write_text(json.dumps({**ENVIRONMENT, "rows": rows}))
    text = generate_page(tmp_path)
    assert "| functions | 1 | 2.00 | 1 | 0 |" in text
    assert "| scans | 2 | 0.69 | 0 | 1 |" in text
    assert "| all | 3 | 0.98 | 1 | 1 |" in text
    assert "Below 0.9: cum sum 0.50." in text
