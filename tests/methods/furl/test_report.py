"""FuRL's section of a report."""

from __future__ import annotations

from pathlib import Path

from guidebench.harness.commands import cli
from tests.reports.conftest import Writer, write_rows


def test_what_the_guide_recorded_is_drawn_for_the_rows_that_have_it(writer: Writer, tmp_path: Path, capsys) -> None:
    curves = {seed: {150: [0, 0], 300: [seed, 1]} for seed in (0, 1)}
    root = writer.cell("a", curves, method="furl", backend="scripted", model="scripted")
    for seed in (0, 1):
        rows = [{"step": s, "guide/positives": s * seed, "guide/loss": 0.5, "guide/reward": 0.1} for s in (150, 300)]
        write_rows(root / f"seed-{seed}", "metrics", rows)
    plain = writer.cell("b", curves, method="sac")
    write_rows(plain / "seed-0", "metrics", [{"step": 150, "loss": 0.5}])
    assert cli.main(["report", str(writer.finish()), "--output", str(tmp_path / "report")]) == 0
    assert "left out" not in capsys.readouterr().out
    assert (tmp_path / "report" / "projections-grid-8x8.png").is_file()
    page = (tmp_path / "report" / "report.html").read_text()
    assert "frames of success (furl · scripted · quick) 150 at the end" in page
    assert "frames of success (sac" not in page
