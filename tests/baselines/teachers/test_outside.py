"""A teacher of another package: what it notes of a query is a column that it declares itself."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.commands import cli
from guidebench.harness.plan import matrix
from tests.baselines.guides.test_preference_runs import SMALL
from tests.refusals import check_refused

TEACHER = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from guidebench.baselines.preference.teaching import Verdict
from guidebench.harness.logs import Column, Log, count, share
from guidebench.harness.parts import TeacherPart
from guidebench.harness.registry import register


class Decisive:
    to = None
    wants_snapshots = False

    def label(self, pair, scale, rng):
        apart = float(abs(pair.rewards[1].sum() - pair.rewards[0].sum()))
        return Verdict("labelled", 1.0, is_used=True, notes={"confidence": 1.0 if apart > 1 else 0.5})


@register.teacher("decisive")
@dataclass(frozen=True)
class DecisiveTeacher(TeacherPart):
    \"\"\"Prefers the second segment and says how sure it is.\"\"\"

    backend: ClassVar[str] = "scripted"
    version: ClassVar[int] = 1
    citation: ClassVar[str] = "% a test"
    logs: ClassVar[Mapping[str, Log]] = {
        "labels": Log("a verdict", {"confidence": share("how sure the teacher is", optional=True)})
    }

    def spawn(self, build):
        return Decisive()
"""
SECTION = """
from guidebench.reports.summary.listings import Listing
from guidebench.reports.sections import Section


def load(source):
    return source.rows("labels", "confidence").groupby("cell")["confidence"].mean()


def listings(found):
    return [Listing("How sure the teacher was", ("mean",), [("it", f"{value:.3f}") for value in found])]


SECTIONS = (Section("sureness", "Sureness", 610, load, ("labels",), listings=listings, plain=lambda found: len(found)),)
"""
WORDS = (*(word for word in SMALL if not word.startswith("teacher.")), "teacher=decisive")


def test_what_it_notes_is_logged_and_shown_by_a_section_and_on_the_page_of_its_run(
    plugin: Callable[..., Path], train: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    plugin("decisive_module", TEACHER, {"teacher": "decisive"})
    plugin("decisive_report", SECTION, {"section": "sureness"})
    study = train(*WORDS, packs=[(0,)])
    rows = results.load(study, log="labels")
    assert len(rows) == 10 and set(rows["confidence"]) <= {0.5, 1.0} and rows["preference"].eq(1).all()
    (cell,) = results.study(study).cells
    assert cell.logs["labels"].columns["confidence"].meaning == "how sure the teacher is"
    assert cli.main(["report", str(study), "--resamples", "100"]) == 0
    content = json.loads((study / "report" / "summary.json").read_text())
    assert content["sureness"] == 1 and content["preferences"][0]["queries"] == 10
    (run,) = study.glob("*/*/*/seed-0")
    assert cli.main(["report", str(run)]) == 0
    assert ">confidence</th>" in (run / "report" / "run.html").read_text()
    assert "How sure the teacher was" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            '"first": Column(str, "its word", optional=True)',
            r"teacher 'decisive' declares the log 'labels' with the column 'first' \(text on one line, of at most "
            r"10,000 characters, optional\), and guide 'preference' declares it differently \(a whole number of at "
            r"least 0, optional\); rename the column, or declare it identically",
        ),
        (
            '"confidence": share("how sure")',
            r"teacher 'decisive' declares the log 'labels' with other columns \(confidence\) than guide 'preference' "
            r"does .*declare the added columns as optional",
        ),
    ],
)
def test_a_declaration_that_contradicts_the_guide_s_is_refused_with_the_plan(
    plugin: Callable[..., Path], declared: str, message: str
) -> None:
    declaration = '"confidence": share("how sure the teacher is", optional=True)'
    assert declaration in TEACHER
    plugin("decisive_module", TEACHER.replace(declaration, declared), {"teacher": "decisive"})
    check_refused(message, matrix.plan, ["profile=smoke", *WORDS])


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (
            "mood",
            "in the log 'labels' has the column 'mood', which no part of the cell declares; declare it in the `logs` "
            "of the part that writes it, as optional",
        ),
        ("truth", "a teacher notes truth of a query, which the guide itself writes in the log 'labels'; give"),
    ],
)
def test_a_note_that_is_not_declared_or_not_the_teacher_s_to_tell_ends_the_run(
    plugin: Callable[..., Path], train: Callable[..., Path], note: str, message: str
) -> None:
    plugin("decisive_module", TEACHER.replace('notes={"confidence"', f'notes={{"{note}"'), {"teacher": "decisive"})
    check_refused(message, train, *WORDS, packs=[(0,)])
