"""The run page in a browser, of a run that the harness made and of one whose every text is hostile."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from guidebench.harness.commands import cli
from guidebench.reports.rendering import inline
from guidebench.reports.runs import page, record
from tests.reports.conftest import edit
from tests.reports.runs.conftest import EVIL
from tests.reports.runs.test_episodes import write_logged_episode, write_question
from tests.results import animations

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
pytestmark = pytest.mark.waits


def write_page(run: Path) -> Path:
    assert cli.main(["report", str(run)]) == 0
    return run / "report" / "run.html"


@pytest.fixture(scope="session")
def clean(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "run.html"
    assert cli.main(["report", str(next(trained.glob("*/*/*/seed-0"))), "--output", str(file.parent)]) == 0
    return file


@pytest.fixture
def hostile(run: Path) -> Path:
    """Return a run whose every text contains markup."""
    text = json.loads(json.dumps(EVIL))
    edit(run / "run.json", status="failed", error=f"Traceback\n{text}", provenance={text: {text: text}})
    settings = {text: {"value": text, "layer": text, "source": text}, "replay.threshold": {"value": 0.5}}
    edit(run.parent / "cell.json", settings=settings, model=EVIL[:30], variant=EVIL[:30], profile="<b>quick</b>")
    edit(run.parents[3] / "study.json", study=text, command=[text])
    judgement = {"asked": 1, "applied": 2, "ordinal": 0, "failure": EVIL[:20]}
    for log, row in (("metrics", {"step": 1, "<img src=x onerror=alert(1)>": 0.5}), ("judgements", judgement)):
        (run / f"{log}.jsonl").write_text(json.dumps(row) + "\n")
    (run / "evaluations.parquet").unlink()
    (run.parents[3] / "logs" / f"{run.parent.name}-0.log").write_text(EVIL[:-1] + "</pre></script>\n")
    about = next((run / "frames").glob("*.json"))
    clips = json.loads(about.read_text())["clips"]
    clips[0]["events"] = [text]
    edit(about, judge=text, suite=text, unjudged=text, clips=clips)
    (run / "videos" / "first.mp4").rename(run / "videos" / "a\"b'<script>.mp4")
    return run


def test_a_run_is_shown_with_curves_episodes_calls_time_and_configuration(clean: Path, browser: Open, axe) -> None:
    page_ = browser(clean)
    assert page_.inner_text("h1").endswith("· sprite · smoke, seed 0")
    assert page_.locator("h2").all_inner_texts() == [
        "Identity", "Learning curves", "Reference episode", "Metrics", "Episodes", "Model calls", "Judgements",
        "Time and cost", "Configuration", "Provenance", "Log",
    ]  # fmt: skip
    page_.wait_for_selector("figure.chart .plot[data-drawn] svg")
    assert " at " in str(page_.locator("figure.chart .drawing").first.get_attribute("aria-label"))
    assert re.search(r"score [01]\.00", page_.locator(".strips figcaption").first.inner_text())
    assert page_.evaluate("[...document.querySelectorAll('.strips img')].every((image) => image.naturalWidth > 0)")
    assert page_.evaluate("document.querySelector('video').error") is None
    page_.wait_for_function("document.querySelector('video').duration > 0")
    assert "no answer (timeout)" in page_.locator("details.call summary").first.inner_text()
    call = page_.locator("details.call").nth(2)
    call.locator("summary").click()
    assert "because <script>alert(1)</script>" in call.locator("pre").last.inner_text()
    assert call.locator("img").count() == 1
    axe(page_)
    for plot in page_.locator("figure.chart .plot").all():
        plot.scroll_into_view_if_needed()
    page_.wait_for_function("document.querySelectorAll('.plot:not([data-drawn])').length === 0")
    table = page_.locator("table", has_text="Every setting")
    table.get_by_role("button", name="Setting").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names, key=str.lower) and table.locator("th[aria-sort=ascending]").count() == 1


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 375)])
def test_the_page_can_be_read_light_and_dark_and_at_phone_width(
    clean: Path, browser: Open, axe, scheme: str, width: int
) -> None:
    page_ = browser(clean, width=width, color_scheme=scheme)
    page_.wait_for_selector(".plot[data-drawn]")
    page_.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert page_.evaluate("document.documentElement.scrollWidth") <= width
    axe(page_)


def test_nothing_of_a_hostile_run_becomes_markup_or_script(hostile: Path, browser: Open, axe) -> None:
    page_ = browser(write_page(hostile), width=375)
    page_.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page_.wait_for_selector(".plot[data-drawn]")
    scripts = page_.locator("script:not([type])").all_text_contents()
    assert inline.script(*page.SCRIPTS) in scripts
    assert all("alert(1)" not in text for text in scripts) and page_.locator("img[src=x]").count() == 0
    assert page_.evaluate("document.documentElement.scrollWidth") <= 375
    text = page_.inner_text("main")
    assert text.count("<script>alert(1)</script>") >= 10 and "␛[31m\\u{202e}\\u{d800}" in text
    assert "There are no evaluations to show." in text and not set(text) & {"\x1b", "\u202e"}
    axe(page_)


def test_frames_of_a_log_and_what_models_were_shown_stand_with_what_was_said(run: Path, browser: Open, axe) -> None:
    write_logged_episode(
        run, told=[{"log": "feedback", "name": "fix", "text": EVIL}, {"log": "f", "name": EVIL[:40], "text": "x"}]
    )
    message = {"role": "user", "parts": [{"text": f"Where? {EVIL}"}, {"file": "image.png"}]}
    write_question(
        run, messages=[message], told=[{"name": "instruction", "text": EVIL}, {"name": EVIL[:40], "text": "x" * 900}]
    )
    page_ = browser(write_page(run), width=375)
    assert {"Episodes of training", "What models were shown"} <= {*page_.locator("h2").all_inner_texts()}
    logged_episode, question = page_.locator(".logged"), page_.locator("details.asked")
    assert logged_episode.locator("figcaption").inner_text().split("\n") == ["Step 17", "weight 4.25"]
    assert question.locator("summary").first.inner_text() == "Episode 10, role planner, asked at step 5,500"
    for part in (logged_episode, question):
        assert part.locator("img").evaluate("(image) => image.naturalWidth") == 8
        assert "<script>alert(1)</script>" in part.locator("dd").first.inner_text()
        assert part.locator("script").count() == 0
    question.locator("details summary").click()
    assert "Where? <script>alert(1)</script>" in question.locator("pre").inner_text()
    for width in (375, 1280):
        page_.set_viewport_size({"width": width, "height": 900})
        picture, text = logged_episode.locator("figure").bounding_box(), logged_episode.locator("dl").bounding_box()
        assert picture and text and page_.locator("img[src=x]").count() == 0
        assert (text["x"] > picture["x"] + picture["width"]) == (width > 375), "beside on a wide page, below on a phone"
        assert page_.evaluate("document.documentElement.scrollWidth") <= width
        axe(page_)


def declare(run: Path, log: str, meaning: str, **columns: dict[str, Any]) -> None:
    """Declare a log and its columns in a run's cell.json."""
    declared = json.loads((run.parent / "cell.json").read_text())["logs"]
    edit(run.parent / "cell.json", logs={**declared, log: {"meaning": meaning, "columns": columns}})


def heads(page_: Page, log: str) -> list[str]:
    table = page_.locator("table", has=page_.locator("caption", has_text=f"Log {log}"))
    names: list[str] = table.locator("th[scope=col]").all_text_contents()
    return names


def test_a_page_says_how_to_draw_what_a_log_holds_and_its_table_leaves_out_snapshots(run: Path, browser: Open) -> None:
    row = {"step": 1, "episode": 2, "role": "planner", "asked": "{}", "snapshot": "QUJD"}
    for log, example in (("questions", row), ("moments", {"step": 1, "episode": 2, "frame": 3, "snapshot": "QUJD"})):
        kinds = {name: {"kind": type(value).__name__, "meaning": "m"} for name, value in example.items()}
        declare(run, log, f"a row of {log}", **kinds)
        (run / f"{log}.jsonl").write_text(json.dumps(example) + "\n")
    page_ = browser(write_page(run))
    assert "None are drawn yet; bench eval RUN --frames draws them" in page_.inner_text("main")
    assert heads(page_, "questions") == ["step", "episode", "role", "asked"]
    assert heads(page_, "moments") == ["step", "episode", "frame"]
    write_question(run)
    assert "None are drawn yet" not in browser(write_page(run)).inner_text("main")


def test_values_of_wrong_types_cost_their_own_part_alone(run: Path) -> None:
    timing = {"step": 600, "seconds": 2.0, "seeds": "none", "evaluation_seconds": [1], "clips": {"a": 1}}
    (run / "timings.jsonl").write_text(json.dumps(timing) + "\n")
    rows = (run / "probes.jsonl").read_text()
    twice = [{"step": 600, "t": 0, "quantity": name, "value": 1.0} for name in ("reward", "true_reward", "reward")]
    (run / "probes.jsonl").write_text(rows + "".join(json.dumps(row) + "\n" for row in twice))
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": "x"}\n{"step": 2, "loss": 0.5, "step ": 1e999}\n')
    judged = [{"asked": 1, "applied": 2, "more": value, "events": 1} for value in ("a", [1], None, 1e300)]
    (run / "judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in judged))
    edit(run / "run.json", provenance={"a": json.loads("[" * 900 + "]" * 900)})
    text = page.render(record.read(run))
    assert "Where the time went" not in text and "4 clips judged" in text and "Learned reward" not in text


def test_the_study_and_its_runs_link_to_each_other_once_they_are_written(run: Path, browser: Open) -> None:
    study = run.parents[3]
    assert "Report of the study" not in write_page(run).read_text()
    assert cli.main(["report", str(study), "--resamples", "200"]) == 0
    link = re.search(r'<a href="([^"]*run\.html)">', (study / "report" / "report.html").read_text())
    assert link is not None and (study / "report" / link[1]).resolve() == (run / "report" / "run.html").resolve()
    home = re.search(r'<a href="([^"]*report\.html)">Report of the study', write_page(run).read_text())
    assert home is not None and (run / "report" / home[1]).resolve() == (study / "report" / "report.html").resolve()


@pytest.mark.parametrize(("place", "says"), [("seed-5", "has not begun"), ("../../..", "has no study.json")])
def test_what_is_no_run_or_has_not_begun_is_refused_in_a_line(run: Path, capsys, place: str, says: str) -> None:
    (run.parents[3] / "study.json").unlink()
    assert cli.main(["report", str((run.parent / place).resolve())]) == 2 and says in capsys.readouterr().err


def test_a_log_that_no_record_declares_is_shown_as_rows_and_can_be_downloaded(
    run: Path, browser: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"step": n, "place": f"<b>{n}</b>", "=x": 0.5} for n in range(120)]
    for name, text in (
        ("waypoints", "".join(json.dumps(row) + "\n" for row in rows)),
        ("nested", '{"a": [1], "b": {"c": "<script>alert(1)</script>"}}\n'),
        ("labels", '{"step": 1, "who": "another guide"}\n'),
        ("No log", "no row"),
        ("metrics", "no\nJSON\n"),
    ):
        (run / f"{name}.jsonl").write_text(text)
    page_ = browser(write_page(run))
    headings = page_.locator("h2").all_inner_texts()
    assert {"Log waypoints", "Log nested", "Log labels", "Learning curves"} < set(headings)
    assert "Metrics" not in headings and not any("No log" in heading for heading in headings)
    wrong = "metrics.jsonl, row 1: not JSON"  # is said at the top
    assert wrong in page_.locator(".notes").inner_text() and wrong in capsys.readouterr().out
    assert page_.locator("h2:text-is('Log waypoints') + p").inner_text() == (
        "No record says what these rows are. 120 rows; the first and the last 50 are shown and 20 left out."
    )
    text = page_.content()
    assert "<b>119</b>" in text.replace("&lt;", "<").replace("&gt;", ">") and "<b>119</b>" not in text
    link = page_.locator("a[download='waypoints.jsonl']").get_attribute("href") or ""
    assert [json.loads(line) for line in base64.b64decode(link.partition("base64,")[2]).splitlines()] == rows


def test_a_log_that_a_part_declared_is_shown_with_what_its_rows_are(run: Path) -> None:
    place = {"kind": "float", "meaning": "place", "optional": True}
    declare(run, "waypoints", "a place <b>to go", step={"kind": "int", "meaning": "step"}, x=place)
    (run / "waypoints.jsonl").write_text('{"step": 1, "x": 0.25}\n{"step": 2}\n')
    text = page.render(record.read(run))
    assert "Each row: a place &lt;b&gt;to go. 2 rows." in text and text == page.render(record.read(run)), (
        "twice the same"
    )
    (run / "waypoints.jsonl").write_text('{"step": 1, "x": "a"}\n')
    record_ = record.read(run)
    assert "waypoints" not in record_.rows and any("column 'x': 'a'" in note for note in record_.notes)


def test_logs_that_are_too_large_together_are_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "zz.jsonl").write_text('{"a": 1}\n' * 100)
    sizes = sum(path.stat().st_size for path in [*run.glob("*.jsonl"), *run.glob("*.parquet")])
    monkeypatch.setattr(record, "ALL_ROWS", sizes - 1)
    record_ = record.read(run)
    assert "zz" not in record_.rows and "judgements" in record_.rows
    assert any(note.startswith("zz is left out: the logs of the run have more than") for note in record_.notes)


def test_videos_of_the_final_policy_play_and_their_words_stay_texts(run: Path, browser: Open, axe) -> None:
    assert "bench eval RUN --gallery</code> draws them" in write_page(run).read_text()
    evil = animations.episode(4, words=[{"step": 2, "text": EVIL[:53]}])
    animations.write(
        run, evil, suite=EVIL[:30], unjudged=EVIL[:25], undrawn=[{"episode": 5, "reason": f"no OpenGL {EVIL[:25]}"}]
    )
    page_ = browser(write_page(run))
    assert "Videos of the final policy" in page_.locator("h2").all_inner_texts()
    assert page_.evaluate("document.querySelector('.gallery img').decode().then(() => true)")
    main_text = page_.locator("main").inner_text()
    assert (
        f"1 of 32 episodes of an evaluation of the final policy on new layouts of {EVIL[:30]}/8x8, seed 0" in main_text
    )
    assert "20 of its 32 episodes succeeded" in main_text and "so what is shown here is no rate" in main_text
    assert f"Not every clip has a score: {EVIL[:25]}" in main_text
    page_.locator(".gallery summary", has_text="What was said").click()
    assert page_.locator(".gallery li").inner_text() == f"Step 2: {EVIL[:53]}"
    assert page_.locator("p.notes").inner_text().startswith("Episode 5 is not drawn: no OpenGL <script>")
    axe(page_)


def test_an_animation_can_be_stopped_and_moves_only_for_readers_who_want_it(run: Path, browser: Open, axe) -> None:
    animations.write(run, animations.episode(4))
    file = write_page(run)
    page_ = browser(file)
    figure = page_.locator("figure.animation")
    assert figure.locator("img").is_visible() and not figure.locator("canvas").is_visible()
    figure.get_by_role("button", name="Stop: Animation of episode 4: failure after 9 steps").focus()
    page_.keyboard.press("Enter")
    figure.locator("canvas").wait_for()
    assert not figure.locator("img").is_visible()
    still = browser(file, reduced_motion="reduce")
    figure = still.locator("figure.animation")
    figure.locator("canvas").wait_for()
    assert not figure.locator("img").is_visible()
    assert figure.locator("canvas").evaluate("each => [each.width, each.height]") == [8, 6]
    axe(still)
    figure.get_by_role("button", name="Play: ").press("Space")
    figure.locator("img").wait_for()
    assert not figure.locator("canvas").is_visible()
