from __future__ import annotations

import sys
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results.pictures import SIGNATURE
from tests.reports.conftest import Writer

CURVES = {0: {100: [1]}}


def study(writer: Writer, *names: str) -> Path:
    for name in names:
        role = {"kind": "perturbation", "name": name, "reference": "cell-0"}
        writer.cell(f"cell-{len(writer.cells)}", CURVES, matrix=role, variant=name)
    return writer.finish()


def picture(root: Path, name: str, content: bytes = SIGNATURE) -> None:
    file = root / "frames" / "grid" / "8x8" / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def test_pictures_come_in_the_order_of_the_cells_and_missing_ones_are_left_out(writer: Writer) -> None:
    root = study(writer, "standard", "sprite_swap", "blur")
    picture(root, "sprite_swap", SIGNATURE + b"s")
    picture(root, "standard", SIGNATURE + b"n")
    found = results.pictures(results.study(root))
    assert found == [("grid/8x8", "standard", SIGNATURE + b"n"), ("grid/8x8", "sprite_swap", SIGNATURE + b"s")]


def test_a_file_that_is_no_png_is_refused(writer: Writer) -> None:
    root = study(writer, "standard")
    picture(root, "standard", b"<svg>")
    with pytest.raises(UserError, match="is not a PNG"):
        results.pictures(results.study(root))


def test_a_name_that_leaves_the_study_is_refused(writer: Writer) -> None:
    root = study(writer, "../../../../outside")
    (root / "frames/grid/8x8").mkdir(parents=True)
    (root.parent / "outside.png").write_bytes(SIGNATURE)
    with pytest.raises(UserError, match="lies outside the study"):
        results.pictures(results.study(root))


def test_no_more_are_read_than_a_page_could_show(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    root = study(writer, "standard", "blur")
    for name in ("standard", "blur"):
        picture(root, name, SIGNATURE + bytes(20))
    monkeypatch.setattr(sys.modules["guidebench.results.pictures"], "TOGETHER", 50)
    with pytest.raises(UserError, match="its sample frames have more than 50 bytes; leave some out"):
        results.pictures(results.study(root))
