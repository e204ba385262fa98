"""New rows beside stored ones, with numbers worked by hand: two episodes at steps 100 and 300 of 300."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.reports.summary import comparing, matrices
from guidebench.reports.summary.comparability import UNMIXED, Mixing
from tests.reports.conftest import Writer, on_record


def ends(*successes: Sequence[int], seeds: Sequence[int] | None = None) -> Mapping[int, Mapping[int, Sequence[int]]]:
    """Return seed -> curve without success at step 100 and with these successes at step 300."""
    return {seed: {100: [0, 0], 300: end} for seed, end in zip(seeds or range(len(successes)), successes, strict=False)}


def study(directory: Path, **cells: tuple[str, Any]) -> results.StudyRecord:
    """Write a study of cells `name=(method, curves)` or `name=(method, curves, options of Writer.cell)`."""
    writer = Writer(directory)
    for name, (method, curves, *options) in cells.items():
        writer.cell(name, curves, method=method, **(options[0] if options else {}))
    return results.study(writer.finish())


def compare_studies(
    new: results.StudyRecord, stored: results.StudyRecord | None = None, *, every: bool = True, mixing: Mixing = UNMIXED
) -> comparing.Compared:
    studies = {**({"stored": stored} if stored else {}), "new": new}
    return comparing.compare(
        results.join(studies),
        ["new"],
        ["stored" if stored else "new"],
        every=every,
        mixing=mixing,
        reps=500,
    )


def table(comparison: comparing.Compared, index: int = 0) -> dict[str, Any]:
    return comparing.plain(comparison)["tables"][index]


def test_each_new_row_stands_beside_each_stored_one_of_its_task(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 1], [1, 0])), b=("per", ends([0, 0], [1, 0])))
    comparison = compare_studies(
        new, study(tmp_path / "stored", c=("uer", ends([1, 0], [0, 0])), d=("relo", ends([0, 0], [0, 0])))
    )
    beside = [
        (table["reference"]["cell"], [row["cell"] for row in table["rows"]])
        for table in comparing.plain(comparison)["tables"]
    ]
    assert beside == [("c", ["a", "b"]), ("d", ["a", "b"])]
    # final success by seed: a 1 and 1/2, c 1/2 and 0
    first = table(comparison)["rows"][0]
    assert first["final"]["estimate"] == 0.75 and first["difference"]["estimate"] == 0.5
    assert first["studies"] == ["new"] and table(comparison)["reference"]["studies"] == ["stored"]
    # where rows come from several studies their names say which
    assert [line.name for line in comparison.summary.matrices[0].lines] == [
        "uer (stored)", "vlm_rb (new)", "per (new)",
    ]  # fmt: skip
    assert [row.cell.id for row in comparison.summary.rows] == ["c", "d", "a", "b"]


def test_seeds_are_never_paired(tmp_path: Path) -> None:
    """Of {1, .5} beside {.5, 0} four of six relabellings are as far apart, whether or not the seeds are the same."""
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 1], [1, 0])), b=("per", ends([1, 1], [1, 0], seeds=[0, 7])))
    rows = table(compare_studies(new, study(tmp_path / "stored", c=("uer", ends([1, 0], [0, 0])))))["rows"]
    assert [row["p"] for row in rows] == [pytest.approx(4 / 6)] * 2


def test_without_a_stored_side_all_stand_beside_the_baseline(tmp_path: Path) -> None:
    new = study(
        tmp_path / "new",
        a=("vlm_rb", ends([1, 1], [1, 1])),
        b=("uer", ends([1, 0], [0, 0])),
        c=("per", ends([1, 1], [0, 0])),
    )
    comparison = compare_studies(new, every=False)
    assert len(comparison.summary.matrices) == 1
    assert [line.row.cell.id for line in comparison.summary.matrices[0].lines] == ["b", "a", "c"]
    # all from one study: their names are enough
    assert comparison.summary.matrices[0].lines[1].name == "vlm_rb"


def test_the_seeds_that_a_difference_needs_are_told(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 1], [1, 1])), b=("per", ends([1, 0], [1, 0])))
    rows = table(compare_studies(new, study(tmp_path / "stored", c=("uer", ends([1, 0], [1, 0])))))["rows"]
    assert [row["seeds_needed"] for row in rows] == [4, "> 100"]


def test_one_seed_is_shown_and_its_interval_refused_with_the_reason(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 0])))
    comparison = compare_studies(new, study(tmp_path / "stored", c=("uer", ends([1, 1], [0, 0]))))
    (row,) = table(comparison)["rows"]
    assert row["final"]["estimate"] == 0.5 and row["difference"] == {"estimate": 0.0, "low": None, "high": None}
    assert row["holm_p"] is None and row["seeds_needed"] is None
    assert "grid/8x8, vlm_rb: one run: no interval" in comparison.summary.notes


def test_a_study_that_still_runs_is_partial_and_what_is_missing_is_named(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", {0: {100: [1, 1]}}, {"status": {0: "running"}, "planned": [0, 1]}))
    comparison = compare_studies(new, study(tmp_path / "stored", c=("uer", ends([1, 1], [0, 0]))))
    notes = " ".join(comparison.summary.notes)
    assert not comparison.summary.complete and table(comparison)["rows"][0]["difference"] is None
    assert "seed 0 is running at step 100 of 300" in notes and "seed 1 has not started" in notes
    assert "not compared yet: they stand at steps 100 and 300" in notes


def test_profiles_protocols_and_lengths_are_not_mixed_unasked(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 1], [1, 1])))
    stored = study(
        tmp_path / "stored",
        c=("uer", ends([0, 0], [0, 0]), {"profile": "paper"}),
        d=("per", ends([0, 0], [0, 0]), {"record": {"versions": {"suite": 2}}}),
        e=("relo", ends([0, 0], [0, 0]), {"steps": 900}),
    )
    with pytest.raises(UserError) as error:
        compare_studies(new, stored)
    assert all(text in str(error.value) for text in ("quick beside paper", "version 1 beside 2", "300 beside 900"))
    mixed = compare_studies(new, stored, mixing=Mixing(profiles=True, protocols=True))
    assert [line.row.cell.id for matrix in mixed.summary.matrices for line in matrix.lines] == [
        "c",
        "a",
        "d",
        "a",
        "e",
        "a",
    ]
    notes = " ".join(mixed.summary.notes)
    assert "profiles quick and paper stand side by side, as asked for" in notes
    assert "protocol (suite) has version 1 in vlm_rb · quick and 2 in per · quick" in notes
    assert "trained for 300 and 900 steps" in notes
    # allowing one kind of mixing allows only that kind, and the others are named
    profiles = compare_studies(new, stored, mixing=Mixing(profiles=True))
    assert [matrix.lines[0].row.cell.id for matrix in profiles.summary.matrices] == ["c", "e"]
    assert any("not compared with per · quick: protocol version" in note for note in profiles.summary.notes)


def test_other_parts_of_another_version_are_named(tmp_path: Path) -> None:
    ours, theirs = (
        {"record": {"parts": on_record({"learner": "dqn", "replay": replay}), "versions": {"suite": 1, **versions}}}
        for replay, versions in (("per", {"learner": 2, "replay": 1}), ("uer", {"learner": 1, "replay": 3}))
    )
    new = study(tmp_path / "new", a=("mine", ends([1, 1], [1, 1]), ours))
    notes = compare_studies(new, study(tmp_path / "stored", c=("per", ends([0, 0], [0, 0]), theirs))).summary.notes
    assert "grid/8x8: learner dqn has version 2 in mine and 1 in per" in notes
    assert not any("replay" in note for note in notes), "other replays have versions of their own"


def test_runs_made_elsewhere_are_compared_and_marked(tmp_path: Path) -> None:
    elsewhere = {"backend": "external", "record": {"versions": {}}}
    new = study(tmp_path / "new", a=("theirs", ends([1, 1], [1, 1]), elsewhere))
    comparison = compare_studies(new, study(tmp_path / "stored", c=("uer", ends([0, 0], [0, 0]))))
    assert table(comparison)["rows"][0]["difference"]["estimate"] == 1.0
    assert any("theirs · external was made elsewhere" in note for note in comparison.summary.notes)


def test_a_configuration_on_both_sides_is_pooled_and_not_compared_with_itself(tmp_path: Path) -> None:
    new = study(tmp_path / "new", a=("vlm_rb", ends([1, 1], [1, 1])), u=("uer", ends([0, 0], [1, 1], seeds=[2, 3])))
    stored = study(tmp_path / "stored", u=("uer", ends([1, 1], [0, 0])))
    comparison = compare_studies(new, stored)
    (matrix,) = comparison.summary.matrices
    assert [line.row.cell.id for line in matrix.lines] == ["u", "a"] and matrix.lines[0].row.seeds == (0, 1, 2, 3)
    assert any("one configuration in stored and new" in note for note in comparison.summary.notes)
    with pytest.raises(UserError, match="nothing to compare"):
        compare_studies(results.select(new, lambda cell: cell.id == "u"), stored)


def test_a_judge_written_for_its_task_stays_an_instrument_check(tmp_path: Path) -> None:
    role = {"kind": "perturbation", "name": "texture", "reference": "a"}
    judged = {"backend": "scripted", "model": "sprite", "matrix": role, "parts": {"judge": "sprite"}}
    new = study(
        tmp_path / "new",
        a=("vlm_rb", ends([1, 1], [1, 1]), {**judged, "matrix": {**role, "name": "standard"}}),
        b=("vlm_rb", ends([0, 0], [0, 0]), {**judged, "variant": "texture"}),
    )
    comparison = compare_studies(new, study(tmp_path / "stored", c=("uer", ends([0, 0], [0, 0]))))
    assert "not a finding about any model" in matrices.legend(comparison.summary.matrices)
    assert comparison.summary.matrices[0].lines[2].name == "vlm_rb (texture) · sprite (new)"


MACHINE = {"commit": "abc123", "packages": {"torch": "2.0"}, "hardware": {"processor": "another CPU", "device": "cpu"}}
"""A provenance that differs from the writer's in its processor."""


def test_a_replication_is_compared_with_the_row_that_it_repeats_and_with_no_other_row_of_its_configuration(
    tmp_path: Path,
) -> None:
    stored = study(tmp_path / "stored", a=("uer", ends([1, 1], [1, 0])), b=("per", ends([0, 0], [1, 0])))
    new = study(tmp_path / "new", a=("uer", ends([1, 0], [0, 0]), {"provenance": MACHINE}))
    comparison = compare_studies(new, stored)
    document = comparing.plain(comparison)
    (pair,) = document["replications"]
    assert pair["original"]["studies"] == ["stored"] and pair["row"]["studies"] == ["new"]
    assert pair["original"]["cell"] == pair["row"]["cell"] == "a" and pair["row"]["replication"]
    # means 3/4 and 1/4; the margin of a rate of 3/4 is 1/8, but one episode of four is 1/4
    assert pair["difference"]["estimate"] == -0.5 and pair["margin"] == 0.25
    assert pair["verdict"] == "2 seeds cannot tell"
    beside = [(table["reference"]["cell"], [row["cell"] for row in table["rows"]]) for table in document["tables"]]
    assert beside == [("b", ["a"])]
