"""One report of a study whose runs wrote every log, and one of a study that wrote none: what stands where."""

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.reports.sections import preferences
from guidebench.reports.summary import names
from tests.reports.conftest import Reported, Writer, label_row, write_rows
from tests.reports.sections import (
    test_episodes,
    test_imagined,
    test_phases,
    test_preferences,
    test_probes,
    test_rewards,
    test_subgoals,
)

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Report a study in which each section has a task of its own."""
    writer = Writer(tmp_path_factory.mktemp("whole") / "study")
    for module in (test_episodes, test_imagined, test_phases, test_preferences, test_rewards, test_subgoals):
        module.write_cell(writer, task=module.__name__.rpartition("test_")[2])
    for method in ("uer", "vlm_rb"):
        writer.cell(
            f"probes-{method}",
            CURVES,
            steps=200,
            method=method,
            task="probes",
            rows={"probes": {0: test_probes.rows({100: [0, 1, 2, 3, 4, 5]}, {1: 1.0, 3: 0.0})}},
        )
    study, out = writer.finish(), io.StringIO()
    with contextlib.redirect_stdout(out):
        code = cli.main(["report", str(study), "--resamples", "200"])
    return Reported(code, out.getvalue(), "", study / "report")


TEACHING = ("labels beside a scripted teacher", "imagined segments")
CONTENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "episodes": {
        "out": ("episodes of the last evaluation",), "report.html": ('<th scope="col">wall seconds</th>',),
        "table.tex": ("wall seconds",),
    },
    "imagined": {"report.html": ("Imagined segments",), "figures": ("paths-grid-imagined-rl_sallm_f",)},
    "phases": {
        "out": ("phases-grid-phases.png",), "report.html": ("What the draws served", "phases-grid-phases.pdf"),
        "figures": ("phases-grid-phases",),
    },
    "preferences": {
        "out": TEACHING, "report.html": (*TEACHING, "rl_sallm_f · scripted: 8 queries, runs: 2"),
        "table.tex": TEACHING, "figures": ("labels-grid-preferences", "imagined-grid-preferences"),
    },
    "probes": {
        "out": ("probes-grid-probes-uer.png", "probes-grid-probes-vlm_rb.pdf"),
        "report.html": tuple(
            f'alt="Reference episode of grid/probes, 6 moves, 3 of them random. Events: key at 2, door at 3{rest}'
            for rest in ("",)
        ),
        "figures": ("probes-grid-probes-uer", "probes-grid-probes-vlm_rb"),
    },
    "rewards": {
        "out": ("learned reward beside the task's own",), "report.html": ("correlation 0.93 after 200 steps",),
        "figures": ("rewards-grid-rewards", "reward-accuracy-grid-rewards"),
    },
    "subgoals": {
        "out": ("subgoals met at the end of an episode",), "report.html": ('<th scope="col">drawer</th>',),
        "figures": ("subgoals-grid-subgoals",),
    },
}  # fmt: skip


@pytest.mark.parametrize("section", CONTENTS)
def test_terminal_page_latex_and_figures_show_a_section(reported: Reported, section: str) -> None:
    places = dict(CONTENTS[section])
    for name in places.pop("figures", ()):
        assert (reported.home / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (reported.home / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for place, words in places.items():
        text = (
            " ".join(reported.out.split()) if place == "out" else reported.text(place)
        )  # titles of narrow tables wrap
        assert reported.code == 0 and all(word in text for word in words), place


def test_summary_json_has_the_numbers_of_the_sections(reported: Reported) -> None:
    summary = reported.json()
    (episodes,) = summary["episodes"]
    assert episodes["task"] == "grid/episodes" and episodes["rows"][0]["label"] == "uer"
    assert episodes["rows"][0]["means"]["completion"] == {"estimate": 0.625, "low": 0.375, "high": 0.875}
    (learned,) = summary["rewards"]
    assert learned["true"] == [0.0, 0.5, 1.0] and learned["step"] == 200
    assert learned["accuracy_on_unseen_pairs"][-1]["estimate"] == 0.875
    study = results.study(reported.home.parent)
    named = names.brief(study.cells, []).labels
    teaching = preferences.teaching(study.cells, results.noted(study, "labels"), named, 200)
    assert summary["preferences"] == json.loads(json.dumps(preferences.plain(teaching)))
    assert summary["preferences"][0]["label_accuracy"]["estimate"] == pytest.approx(7 / 12)
    assert reported.text().count('alt="Reference episode of grid/probes, 6 moves') == 2, "a drawing per label and task"


def test_a_study_without_any_log_is_reported_without_sections(
    writer: Writer, report: Callable[..., Reported], unrendered: None
) -> None:
    writer.cell("a", CURVES, steps=200)
    reported = report(writer.finish())
    for words in ("Reference episode", "scripted teacher", "learned reward", "subgoals met", "What the draws served"):
        assert reported.code == 0 and words not in reported.out + reported.text()
    assert {path.name for path in reported.home.glob("*.png")} == {"curves-grid-8x8.png"}
    study = results.study(writer.directory)
    assert (
        test_episodes.episodes_of(study) == test_preferences.teaching(study) == test_subgoals.met_in(study, 200) == []
    )
    assert test_phases.spreads(study) == []


def test_what_came_from_files_becomes_neither_markup_nor_mathematics_nor_a_path(
    writer: Writer, report: Callable[..., Reported]
) -> None:
    evil = "../<script>$\\frac{1}$" + "long " * 80
    root = writer.cell("a", CURVES, steps=200, variant=evil)
    named: dict[str, Any] = {"step": 0, "t": 1, "quantity": f"event/{evil}", "value": 1.0}
    write_rows(root / "seed-0", "probes", [*test_probes.rows({100: [0, 1, 2, 3, 4, 5]}), named])
    labels = [label_row(0, 1.0, outcome=evil[:21]), test_preferences.imagined_label_row(1, 1.0, evil[:21], 2.0)]
    write_rows(root / "seed-0", "labels", labels)
    reported = report(writer.finish())
    assert reported.code == 0 and "<script>$" not in reported.text()
    names = [path.name for path in reported.home.glob("probes*")]
    assert len(names) == 2 and all(len(name) < 255 for name in names)
