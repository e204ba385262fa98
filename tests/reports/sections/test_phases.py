from __future__ import annotations

import pytest

from guidebench import results
from guidebench.reports.sections import phases
from guidebench.reports.sections.phases import Spread
from tests.reports.conftest import Writer, write_rows

CURVES = {seed: {100: [0, 0], 200: [seed, 1]} for seed in (0, 1)}


def shares(step: int, draws: tuple[float, float], stored: tuple[float, float]) -> dict[str, float]:
    names = ("drawn/key", "drawn/door", "stored/key", "stored/door")
    return {"step": step, "loss": 1.0, **dict(zip(names, (*draws, *stored), strict=True))}


def write_cell(writer: Writer, **names: str) -> None:
    root = writer.cell("phases", CURVES, **names)
    write_rows(root / "seed-0", "metrics", [{"step": 50, "loss": 2.0}, shares(100, (0.2, 0.8), (0.5, 0.5))])
    write_rows(root / "seed-1", "metrics", [shares(100, (0.6, 0.4), (0.7, 0.3)), shares(150, (1, 0), (1, 0))])
    events = [{"step": 0, "t": t, "quantity": f"event/{name}", "value": 1.0} for t, name in ((7, "door"), (3, "key"))]
    write_rows(root / "seed-0", "probes", events)


def spreads(study: results.StudyRecord) -> list[Spread]:
    return phases.spreads(study.cells, results.noted(study, "metrics"), results.noted(study, "probes"), {})


def test_shares_are_means_over_seeds_in_the_order_of_the_task(writer: Writer) -> None:
    write_cell(writer)
    (spread,) = spreads(results.study(writer.finish()))
    assert isinstance(spread, Spread) and spread.seeds == 2 and spread.task_id == "grid/8x8"
    assert list(spread.drawn) == ["key", "door"], "not alphabetical: as the reference episode meets them"
    assert spread.drawn.loc[100].tolist() == pytest.approx([0.4, 0.6])
    assert spread.stored.loc[100].tolist() == pytest.approx([0.6, 0.4])
    assert list(spread.drawn.index) == [100], "one seed alone drew nothing before, the other has gone no further"
    (drawing,) = phases.drawings([spread])
    assert drawing.name == "phases-grid-8x8" and "key 0.40 (0.60), door 0.60 (0.40)" in drawing.alt


def test_runs_without_phases_have_no_picture(writer: Writer) -> None:
    write_rows(writer.cell("a", CURVES) / "seed-0", "metrics", [{"step": 100, "loss": 2.0}])
    assert spreads(results.study(writer.finish())) == []
