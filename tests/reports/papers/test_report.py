"""A paper's report as a whole: its files, what it refuses, and that LaTeX typesets it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports.papers import report
from guidebench.reports.papers.files import contents, page
from guidebench.reports.papers.report import PaperReport
from guidebench.results import published
from tests.reports.conftest import Reported, Writer, write_rows
from tests.reports.papers.conftest import Papers

END = 1_000_000
RISES = {0: {END // 2: 0.2, END: 0.9}, 1: {END // 2: 0.4, END: 1.0}}
LAGS = {0: {END // 2: 0.0, END: 0.4}, 1: {END // 2: 0.1, END: 0.6}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = Writer(tmp_path_factory.mktemp("vlm_rb") / "study")
    Papers(writer).add("ours", RISES, method="vlm_rb", backend="scripted", model="sprite")
    Papers(writer).add("theirs", LAGS, method="uer")
    return writer.finish("a_study_&_more")


@pytest.fixture(scope="module")
def ours(study: Path) -> PaperReport:
    return paper_report(study)


def paper_report(study: Path, paper: str = "vlm_rb", **stand_ins: str) -> PaperReport:
    return report.report([results.study(study)], paper, stand_ins, reps=200)


def test_every_number_and_claim_is_in_the_json_with_its_runs(ours: PaperReport) -> None:
    document = json.loads(json.dumps(report.plain(ours), allow_nan=False))
    numbers = [number for table in document["tables"] for number in table["numbers"]]
    assert len(numbers) == len(published.load("vlm_rb")) and len(document["claims"]) == len(published.claims("vlm_rb"))
    (uer_best,) = [n for n in numbers if n["table"] == "7" and n["method"] == "uer" and n["task"] == "8x8"
              and n["metric"] == "best_success_rate" and n["variant"]["learner"] == "dqn"]  # fmt: skip
    assert uer_best["ours"]["estimate"] == pytest.approx(0.5) and uer_best["verdict"] == "inconclusive"
    assert uer_best["runs"] == ["minigrid_doorkey/8x8/uer-theirs/seed-0", "minigrid_doorkey/8x8/uer-theirs/seed-1"]
    (gain,) = [n for n in numbers if n["table"] == "7" and n["metric"] == "gain_percent" and n["task"] == "8x8"
               and n["variant"] == {"baseline": "uer", "learner": "dqn"}]  # fmt: skip
    assert gain["verdict"] == "not comparable" and gain["reasons"] == ["judge sprite, scripted"]
    assert gain["numbers_alone"] == "inconclusive", "two seeds"


def test_figures_are_drawn_where_there_are_runs_and_named_where_not(ours: PaperReport) -> None:
    assert [drawing.name for drawing in ours.figures.drawings] == ["figure-5", "figure-9"]
    assert "vlm_rb ends at 0.95" in ours.figures.drawings[0].alt
    assert "figure 7 (size of the model)" in ours.figures.missing


def test_the_page_escapes_what_came_from_files(add: Callable[..., None], writer: Writer, unrendered: None) -> None:
    add("ours", RISES, method="vlm_rb", backend="scripted", model="<script>alert(1)</script>")
    text = page(paper_report(writer.finish()))
    assert "<script>" not in text and "&lt;script&gt;" in text


@pytest.mark.release
@pytest.mark.waits
def test_every_paper_has_a_page_tables_and_claims_and_compiles_whatever_has_been_run(
    study: Path, preferences: PaperReport, tmp_path: Path, pdflatex: Callable[..., str]
) -> None:
    """The documents of all papers are compiled as one, each from a directory of its own."""
    preambles, bodies = set(), []
    for paper in published.PAPERS:
        files = contents(preferences if paper == "rl_sallm_f" else paper_report(study, paper))
        assert {f"{paper}.html", f"{paper}.tex", f"{paper}.json", f"{paper}-document.tex"} <= set(files)
        assert files[f"{paper}.tex"].count(rb"\begin{tabular}") == len(set(published.load(paper)["table"]))
        (tmp_path / paper).mkdir()
        for name, content in files.items():
            (tmp_path / paper / name).write_bytes(content)
        preamble, body = files[f"{paper}-document.tex"].decode().split("\\begin{document}\n")
        preambles.add(preamble)
        bodies.append(body.removesuffix("\\end{document}\n").replace(r"\input{", rf"\input{{{paper}/"))
        bodies[-1] = bodies[-1].replace("keepaspectratio]{", f"keepaspectratio]{{{paper}/")
    (preamble,) = preambles
    (tmp_path / "papers.tex").write_text(f"{preamble}\\begin{{document}}\n{''.join(bodies)}\\end{{document}}\n")
    log = pdflatex(tmp_path / "papers.tex")
    assert (tmp_path / "papers.pdf").stat().st_size > 50_000 and "Missing character" not in log


@pytest.fixture(scope="module")
def preferences(tmp_path_factory: pytest.TempPathFactory) -> PaperReport:
    """Return the report on studies of two tasks, one with ablations and a raw model, the other with a larger model, and
    of a point maze."""
    writer = Writer(tmp_path_factory.mktemp("preferences") / "study")
    cells = Papers(writer)
    cells.teach("full", (3, 4))
    cells.teach("drawers", (3, 3), task="drawer-open")
    large = {"chat.model": {"value": "gpt-4o", "layer": "command line", "source": ""}}
    cells.teach("large", (4, 4), task="drawer-open", model="gpt-4o", settings=large)
    cells.teach("ablated", (2, 2), ablation="no_self_augmentation")
    cells.teach("raw", (1, 2), method="pebble_llm")
    cells.teach("imitated", (1, 2), ablation="decision_transformer")
    cells.teach("pebble", (4, 4), method="pebble", backend="oracle", model="oracle", parts={"teacher": "oracle"})
    flat = {seed: {500_000: 0.9} for seed in range(2)}
    cells.add("sac", flat, suite="metaworld_pbrl", task="button-press", method="sac")
    cells.add("maze", {seed: {500_000: 0.5} for seed in range(2)}, suite="point_maze", task="open", method="rl_sallm_f")
    return paper_report(writer.finish("preferences"), "rl_sallm_f")


def test_a_paper_on_preferences_is_filled_from_every_log(preferences: PaperReport) -> None:
    document = report.plain(preferences)
    numbers = {
        (number["table"], number["task"], number["method"], number["metric"], *number["variant"].values()): number
        for table in document["tables"]
        for number in table["numbers"]
    }

    def ours(*key: str) -> float:
        return float(numbers[key]["ours"]["estimate"])

    full = "rl_sallm_f"
    assert ours("1", "button-press", full, "label_accuracy_percent") == pytest.approx(87.5)
    assert ours("1", "button-press", full, "label_accuracy_percent", "no_self_augmentation") == 50
    assert ours("1", "button-press", full, "discard_percent") == 20
    assert ours("4", "drawer-open", full, "success_percent") == pytest.approx(80)  # eight of ten episodes
    assert ours("5", "open", full, "test_score") == 50
    assert ours("6", "button-press", full, "label_accuracy_percent", "offline") == pytest.approx(87.5)
    assert ours("7", "all", full, "dollars") == pytest.approx((3.5 + 3) / 2)
    assert numbers["4", "drawer-open", "vlm_rm", "success_percent"]["verdict"] == "not run"
    assert (
        numbers["5", "open", full, "test_score"]["reasons"][-1] == "success in percent; the paper's score has no unit"
    )
    only = numbers["1", "button-press", full, "label_accuracy_percent"]
    assert only["reasons"] == ["MetaWorld v3; the paper used v2", "prompts of our own"] and len(only["runs"]) == 2


def test_the_figures_of_a_paper_on_preferences_are_drawn_from_every_log_and_name_what_is_not_run(
    preferences: PaperReport,
) -> None:
    figures = preferences.figures
    drawings = {drawing.name: drawing for drawing in figures.drawings}
    paths = ("7-button-press", "7-drawer-open")
    curves = ("1b", "1c", "3", "4", "5", "6", "8", "10", "11", "12", "13")
    assert set(drawings) == {f"figure-{name}" for name in (*curves, *paths)} and figures.missing == ()
    assert "as they come: label accuracy 0.00 at the end" in drawings["figure-1b"].alt
    assert "rl_sallm_f ends at 0.90" in drawings["figure-3"].alt and "sac ends at 0.90" in drawings["figure-3"].alt
    assert "rl_sallm_f ends at 0.45" in drawings["figure-10"].alt, "the return of a test's episode is half its success"
    assert "(not run: no double check, no llm labels)" in drawings["figure-4"].caption
    assert "drawer-open" not in drawings["figure-4"].alt, "a panel of the full method alone shows no ablation"
    assert "PEBBLE: correlation 0.96" in drawings["figure-5"].alt  # of 0 1 2 and 0 1 4
    assert "button-press: imagined 9.00, preferred by the teacher 2.00" in drawings["figure-6"].alt
    assert "success percent of gpt-4o 100" in drawings["figure-8"].alt
    assert "(not run: RL-VLM-F)" in drawings["figure-12"].caption
    assert "Decision Transformer ends at 0.35" in drawings["figure-13"].alt


def test_what_a_table_of_ours_holds_is_said_under_it(preferences: PaperReport) -> None:
    stream = io.StringIO()
    report.show(preferences, Console(width=140, file=stream))
    files = contents(preferences)
    note = "Ours is the success rate at the last evaluation of each run, in percent."
    assert note in stream.getvalue() and note in files["rl_sallm_f.html"].decode()
    assert note in files["rl_sallm_f.tex"].decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--paper", "vlm_br"], "vlm_rb"),
        (["--paper", "vlm_rb", "--stand-in", "16x16"], "as in 16x16=6x6"),
        (["--paper", "vlm_rb", "--stand-in", "32x32=8x8"], "the paper has no task '32x32'"),
        (["--paper", "vlm_rb", "--stand-in", "16x16=9x9"], "the studies have no task '9x9'"),
        (["--stand-in", "16x16=8x8"], "--stand-in is allowed only with --paper"),
        (["STUDY", "--paper", "vlm_rb"], "--output DIR"),  # several studies need a place for their report
        (["STUDY"], "bench compare"),
    ],
)
def test_what_is_mistyped_is_named(
    arguments: list[str], message: str, study: Path, report: Callable[..., Reported]
) -> None:
    reported = report(study, *(str(study) if word == "STUDY" else word for word in arguments))
    assert reported.code == 2 and message in reported.err


def test_a_study_of_no_task_of_the_paper_is_told_how_another_may_stand_in(
    add: Callable[..., None], writer: Writer, study: Path, unrendered: None
) -> None:
    add("other", RISES, method="uer", task="5x5")
    other_study = writer.finish("of_5x5")
    (note,) = [note for note in paper_report(other_study).notes if "--stand-in" in note]
    assert note.startswith("nothing could be filled in: the paper has no results on 5x5 (it has 12x12, 16x16, 8x8")
    assert note.endswith("; --stand-in 8x8=5x5 shows one for another")
    assert not any("--stand-in" in note for note in paper_report(other_study, **{"8x8": "5x5"}).notes)
    assert {outcome.verdict for outcome in paper_report(study, "lagea").claims} <= {"not run", "published only"}, (
        "another paper's"
    )
    with pytest.raises(UserError, match="unknown paper"):
        paper_report(study, "nobody")


def test_the_command_prints_tables_claims_and_what_is_missing(
    study: Path, report: Callable[..., Reported], unrendered: None
) -> None:
    reported = report(study, "--paper", "vlm_rb", "--stand-in", "12x12=8x8")
    printed = " ".join(reported.out.split())
    assert "Table 7: Every task and algorithm" in printed and "task 8x8 instead of 12x12" in printed
    assert "Table 6: Training throughput: 9 numbers, not run" in printed
    assert reported.code == 0 and (reported.home / "vlm_rb" / "vlm_rb.html").is_file()


def test_what_runs_recorded_over_training_is_drawn_for_tasks_with_every_curve(
    add: Callable[..., Path], writer: Writer, unrendered: None
) -> None:
    """LaGEA's figures 4 and 6 are drawn from a run with key frames, one without, and one of another task with hidden
    goals."""
    goal = {"suite.goal": {"value": "hidden", "layer": "default", "source": ""}}
    layer = {"guide.keyframes": {"value": "none", "layer": "ablation keyframes=none", "source": ""}}
    place = {"suite": "metaworld_mt10", "task": "drawer-open", "method": "lagea"}
    role = {"kind": "ablation", "name": "keyframes=none", "reference": "full"}
    roots = [
        add("full", RISES, **place, settings=goal),
        add("none", LAGS, **place, settings={**goal, **layer}, matrix=role, variant="x"),
        add("push", RISES, **{**place, "task": "push"}, settings=goal),
    ]
    for number, root in enumerate(roots):
        for seed in (0, 1):
            metrics = {"guide/reward": 0.25 * (number + seed), "guide/bce": 0.5, "guide/failure_cosine": -0.5}
            write_rows(root / f"seed-{seed}", "metrics", [{"step": step, **metrics} for step in (END // 2, END)])
    drawings = {drawing.name: drawing.alt for drawing in paper_report(writer.finish(), "lagea").figures.drawings}
    assert "mean dense reward of a batch (with key frames) 0.125 at the end" in drawings["figure-4"]
    assert "mean dense reward of a batch (without) 0.375 at the end" in drawings["figure-4"]
    assert "success rate (without) 0.5 at the end" in drawings["figure-4"]
    assert {name for name in drawings if name.startswith("figure-6")} == {"figure-6-drawer-open", "figure-6-push"}
    assert "mean cosine (failures) -0.5 at the end" in drawings["figure-6-push"]
    assert "figure-5" not in drawings, "no part of the reward is removed in any run"
