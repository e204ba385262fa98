"""A page for each suite: what this project has measured on it, made from the studies in results/measured.

Curves, scores, differences and verdicts are computed from the runs as `bench report` computes them. The README.md in a
study's folder has the sentence of its finding, its commands, and what else there is to say.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from docs.generated.markdown import code, table, text
from guidebench import results
from guidebench.harness.claims import claim_score, key_of
from guidebench.harness.grouping import grouped
from guidebench.reports.rendering import tables
from guidebench.reports.rendering.figures import PALETTE
from guidebench.reports.sections import claims as claims_section
from guidebench.reports.summary import claims, judges, scoring, summaries
from guidebench.reports.summary.claims import ClaimedStudy
from guidebench.reports.summary.rows import ReportRow
from guidebench.reports.summary.summaries import Summary
from guidebench.results import StudyRecord
from guidebench.results.claims import claimed_rows
from guidebench.results.rows import EVALUATIONS

ROOT = Path(__file__).parents[2]
HOME = ROOT / "results" / "measured"
RESAMPLES = 2_000
"""Resamples of the intervals of scores."""
WIDTH, HEIGHT, MARGIN, LEGEND = 640, 260, 46, 17
"""Size of a picture of curves, its margins, and the height of a line of its legend, in pixels."""
DASHES = ("none", "6 3", "2 3")
READING = (
    "Made from the runs in `results/measured`; brackets hold 95 % intervals. p is that of the exact permutation test "
    "of the runs, unpaired; of rows beside their baseline after Holm's correction "
    "([how](../reports.md#intervals-and-marks)). Studies with claims come first: what they test was written down "
    "before they ran."
)
CAVEAT = "Hand-written models answer in this study: it checks the instrument, and supports or contradicts no paper."


class Words(NamedTuple):
    """What the README.md of a study says, in Markdown."""

    finding: str = ""
    command: str = ""
    details: str = ""


class MeasuredStudy(NamedTuple):
    """A study with its summary, and the verdicts on its claims if it has any."""

    study: StudyRecord
    summary: Summary
    claimed: ClaimedStudy | None
    words: Words
    hours: float
    """Hours of the workers that trained its runs; NaN if no run says."""


def pages() -> dict[str, str]:
    """Return address -> Markdown: the page of each suite on which something was measured."""
    by_suite = grouped(addresses(), lambda readme: addresses()[readme].partition("#")[0])
    return {
        address: _page(Path(address).stem, [(ROOT / readme).parent for readme in readmes])
        for address, readmes in sorted(by_suite.items())
    }


@functools.cache
def addresses() -> dict[str, str]:
    """Return the README.md of each study, relative to the repository -> the page that shows it, with the place."""
    places = {}
    for directory in sorted(path.parent for path in HOME.glob("*/study.json")):
        suite = next(path.parents[2].name for path in sorted(directory.glob("*/*/*/cell.json")))
        places[(directory / "README.md").relative_to(ROOT).as_posix()] = f"measured/{suite}.md#{directory.name}"
    return places


def _page(suite: str, directories: Sequence[Path]) -> str:
    studies = [read(directory) for directory in directories]
    studies.sort(key=lambda measured: measured.claimed is None)  # those with claims first
    sections = "\n".join(section(measured) for measured in studies)
    return f"# Measured on `{suite}`\n\n{READING}\n\n{sections}"


@functools.cache
def read(directory: Path) -> MeasuredStudy:
    """Return a measured study with the numbers that its page shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on files that are left out of the repository
        study = results.study(directory)
        evaluations = results.load(study)
        summary = summaries.summarise(study, evaluations, reps=RESAMPLES)
        claimed = None
        if study.claims is not None:
            rows = claimed_rows(study, study.claims)
            claimed = claims.judged(
                study.claims.content,
                rows,
                lambda log: evaluations if log == EVALUATIONS else results.load(study, log=log),
            )
        return MeasuredStudy(study, summary, claimed, words(directory / "README.md"), _hours(study))


def words(file: Path) -> Words:
    """Return what a study's README.md says: its first paragraph, and the sections `Command` and `In full`."""
    if not file.is_file():
        return Words()
    content = file.read_text(encoding="utf-8").replace("](../../../docs/", "](../")
    first, *rest = re.split(r"^## ", content, flags=re.MULTILINE)
    by_heading = {heading.strip(): body.strip() for heading, _, body in (part.partition("\n") for part in rest)}
    finding = " ".join(first.partition("\n")[2].split())
    return Words(finding, " ".join(by_heading.get("Command", "").split()), by_heading.get("In full", ""))


def _hours(study: StudyRecord) -> float:
    """Return the hours of a study's workers: of each run the seconds at its end, by the seeds trained beside it."""
    clock = results.noted(study, "timings")
    if not len(clock) or "seconds" not in clock:
        return float("nan")
    last = clock.sort_values("step").groupby(["cell", "seed"]).last()
    return float((last["seconds"] / last["seeds"]).sum() / 3_600)


def section(measured: MeasuredStudy) -> str:
    """Return the Markdown of one study."""
    study, summary = measured.study, measured.summary
    name = study.directory.name
    parts = [f"## `{name}` {{: #{name} }}"]
    if any(part.backend in judges.INSTRUMENTS for cell in study.cells for part in cell.answering):
        parts.append(CAVEAT)
    parts.append(f"**{_finding(measured)}**")
    if measured.claimed is not None:
        parts.append(_verdicts(measured.claimed))
    for heading, rows in tables.by_task(summary.rows).items():
        parts += [f"### {text(heading)}", curves(heading, rows, _claims_returns(measured)), _table(measured, rows)]
    command = measured.words.command or code(" ".join(study.command))
    hours = "not recorded" if np.isnan(measured.hours) else f"{measured.hours:.1f}"
    facts = [f"Command: {command}", f"Hours of its workers: {hours}."]
    if measured.claimed is not None:
        digest = measured.claimed.record.digest[:12]
        facts.append(f"Claims: `results/measured/{name}/claims.json`, digest `{digest}`.")
    parts += [" ".join(facts), _folded(measured)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _claims_returns(measured: MeasuredStudy) -> bool:
    """Return whether the primary claims of a study compare returns, so that its page shows these."""
    claimed = measured.claimed.record.claims if measured.claimed else ()
    quantities = {claim_score(claim.score).quantity for claim in claimed if claim.primary}
    return quantities == {"return"}


def _finding(measured: MeasuredStudy) -> str:
    """Return the finding of a study in a sentence: the verdicts on its primary claims, or that of its README.md."""
    if measured.claimed is None:
        return measured.words.finding or "No finding is written down."
    delta = measured.claimed.record.delta
    verdicts = [
        f"{tested.statement}: {claims_section.finding(tested.verdict, delta) if tested.verdict else tested.note}"
        for tested in measured.claimed.claims
        if tested.claim.primary
    ]
    return text("; ".join(verdicts) + ".")


def _verdicts(claimed: ClaimedStudy) -> str:
    (listing,) = claims_section.listings(claimed)
    return table(("claim", *listing.names), [[text(cell) for cell in line] for line in listing.lines])


def _table(measured: MeasuredStudy, rows: Sequence[ReportRow]) -> str:
    """Return the table of the rows of one place beside their reference."""
    ids = {row.cell.id for row in rows}
    matrix = next((matrix for matrix in measured.summary.matrices if matrix.lines[0].row.cell.id in ids), None)
    lines = {line.row.cell.id: line for line in matrix.lines} if matrix else {}
    placebos = _placebos(measured.claimed)
    digits = scoring.digits(row.final for row in rows)
    header = ["row", f"final {scoring.title(rows[0].score)}", "seeds"]
    with_returns = _claims_returns(measured) and rows[0].score.name != "return"
    if lines:
        header[2:2] = [f"difference to {text(matrix.lines[0].row.label)}" if matrix else "", "p", "seeds needed"]
    if with_returns:
        header.insert(1, "final return")
    if any(row.cell.id in placebos for row in rows):
        header.append("difference to its placebo")

    return_digits = scoring.digits(row.final_return for row in rows)

    def cells(row: ReportRow) -> Iterator[str]:
        yield text(row.label)
        if with_returns:
            yield text(tables.spread(row.final_return, return_digits))
        yield text(tables.spread(row.final, digits) + ("†" if row.alone else ""))
        if lines:
            line = lines.get(row.cell.id)
            difference, p, needed = tables.compared(line, digits) if line else ["—"] * 3
            yield from (text(difference), text(p), text(needed))
        yield str(len(row.seeds))
        if header[-1].endswith("placebo"):
            yield text(placebos.get(row.cell.id, "—"))

    return table(header, [[*cells(row)] for row in rows])


def _placebos(claimed: ClaimedStudy | None) -> dict[str, str]:
    """Return cell id -> the difference of its row to its placebo, with p, by the first claim that has both."""
    differences: dict[str, str] = {}
    for tested in claimed.claims if claimed else ():
        if tested.verdict and tested.verdict.placebo:
            contrast = tested.verdict.placebo
            words_ = f"{tables.spread(contrast.difference)}, p {tables.p_value(contrast.p)} ({tested.claim.score})"
            for cell in claimed.rows[key_of(tested.claim.first)].cells if claimed else ():
                differences.setdefault(cell.id, words_)
    return differences


def _folded(measured: MeasuredStudy) -> str:
    """Return what the study does not show, folded."""
    sentences = []
    compared = [line for matrix in measured.summary.matrices for line in matrix.lines if line.comparison]
    untold = [line for line in compared if line.comparison and not line.comparison.adjusted_p < 0.05]
    if compared:
        sentences.append(
            f"Of {len(compared)} differences to a reference {len(compared) - len(untold)} are shown at 5 % after "
            f"Holm's correction; one that is not shown is no equality."
        )
    sentences += [note for note in measured.summary.notes if "compared with no other row" in note]
    body = "\n\n".join([" ".join(map(text, sentences)), measured.words.details]).strip()
    if not body:
        return ""
    return f'<details markdown="1"><summary>What it does not show, and more</summary>\n\n{body}\n\n</details>'


def curves(heading: str, rows: Sequence[ReportRow], of_returns: bool = False) -> str:
    """Return the learning curves of the rows of one place as an SVG element: means over seeds of their score, or of
    their returns."""
    drawn = [row for row in rows if len(row.steps) > 1]
    if not drawn:
        return ""
    last = max(row.last for row in drawn)
    means = [(row.return_curve if of_returns else row.curve).estimate for row in drawn]
    estimates = np.concatenate(means)
    score = drawn[0].score
    low = float(estimates.min()) if of_returns or score.low is None else float(score.low)
    high = float(estimates.max()) if of_returns or score.high is None else float(score.high)
    span = high - low or 1.0
    decimals = scoring.digits([span])
    right, bottom = WIDTH - 10, HEIGHT - 30
    height = HEIGHT + LEGEND * len(drawn)

    def point(step: float, value: float) -> str:
        x = MARGIN + (right - MARGIN) * step / last
        return f"{x:.1f},{bottom - (bottom - 10) * (value - low) / span:.1f}"

    parts = [
        f'<path d="M{MARGIN},10 V{bottom} H{right}" fill="none" stroke="currentColor"/>',
        *(
            f'<text x="{MARGIN - 6}" y="{y}" text-anchor="end">{escape(tables.number(end, decimals))}</text>'
            for y, end in ((16, high), (bottom, low))
        ),
        f'<text x="{right}" y="{bottom + 18}" text-anchor="end">{last:,} steps</text>',
    ]
    for index, (row, mean) in enumerate(zip(drawn, means, strict=True)):
        dash = DASHES[index // len(PALETTE) % len(DASHES)]
        style = f'fill="none" stroke="{_colour(index)}" stroke-width="2"' + (
            f' stroke-dasharray="{dash}"' if dash else ""
        )
        points = " ".join(map(point, row.steps.tolist(), mean.tolist()))
        y = HEIGHT + LEGEND * index
        parts += [
            f'<polyline points="{points}" {style}/>',
            f'<path d="M{MARGIN},{y} h24" {style}/>',
            f'<text x="{MARGIN + 32}" y="{y + 4}">{escape(row.label)}</text>',
        ]
    title = f"Mean {'return' if of_returns else score.name} over seeds while training: {heading}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" font-size="12" fill="currentColor" '
        f'style="max-width: 100%; height: auto"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _colour(index: int) -> str:
    """Return a colour that stands out on light and on dark pages: black is that of the text."""
    colour = PALETTE[index % len(PALETTE)]
    return "currentColor" if colour == "#000000" else colour
