from __future__ import annotations

import sys
from pathlib import Path

import pytest

from guidebench import results
from guidebench.harness.errors import UserError
from guidebench.results.images import SIGNATURE
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
    pictures = results.pictures(results.study(root))
    assert pictures == [("grid/8x8", "standard", SIGNATURE + b"n"), ("grid/8x8", "sprite_swap", SIGNATURE + b"s")]


@pytest.mark.parametrize(
    ("names", "content", "says"),
    [
        (("standard",), b"<svg>", "is not a PNG"),
        (("../../../../outside",), SIGNATURE, "lies outside the study"),
        (("standard", "blur"), SIGNATURE + bytes(20), "its sample frames have more than 50 bytes; leave some out"),
    ],
)
def test_what_is_no_picture_of_the_study_or_more_than_a_page_could_show_is_refused(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], content: bytes, says: str
) -> None:
    monkeypatch.setattr(sys.modules["guidebench.results.images"], "TOGETHER", 50)
    root = study(writer, *names)
    for name in names:
        picture(root, name, content)
    with pytest.raises(UserError, match=says):
        results.pictures(results.study(root))
