"""Episodes of the final policy on a leaderboard: which are chosen, and that a source's bytes never reach the page."""

import base64
from pathlib import Path
from typing import Any

import pytest

from guidebench.reports.leaderboard import episodes, gathering
from guidebench.reports.leaderboard.board import Board, Details
from guidebench.reports.leaderboard.page import render
from guidebench.results import galleries
from tests.reports.conftest import Writer, edit, ending
from tests.results import animations


def gather_board(writer: Writer, tmp_path: Path) -> Board:
    return gathering.gather([str(writer.finish())], tmp_path / "board")


def only_details(board: Board) -> Details:
    (details,) = board.details.values()
    return details


def gallery(run: Path, number: int = 6, **changes: Any) -> Path:
    episodes = [animations.episode(episode, success=episode == number - 1) for episode in range(number)]
    return animations.write(run, *episodes, **{"seed": 9, **changes})


@pytest.fixture
def root(writer: Writer) -> Path:
    """Write a cell of three runs; return its directory."""
    return writer.cell("a", ending(1, 2, 3), steps=200)


def test_the_first_run_with_a_gallery_shows_its_first_episodes_and_its_last(
    root: Path, writer: Writer, tmp_path: Path
) -> None:
    gallery(root / "seed-2")
    home = gallery(root / "seed-1")
    board = gather_board(writer, tmp_path)
    entry_films = only_details(board).episodes
    assert entry_films is not None and board.without_episodes == 0
    assert [film.title for film in entry_films.films] == ["Failure after 9 steps"] * 2 + ["Success after 9 steps"]
    assert [film.about.split(";")[0] for film in entry_films.films] == [
        f"8x8, seed 1, episode {number}" for number in (0, 1, 5)
    ]
    assert entry_films.films[0].words == ((2, "open the door"),)
    (caption,) = entry_films.told
    assert caption.startswith(
        "8x8, seed 1: 3 of 32 episodes of an evaluation of the final policy on new layouts of grid/8x8"
    )
    assert "20 of its 32 episodes succeeded" in caption and "is no rate" in caption
    for film, name in zip(entry_films.films, ("00", "01", "05"), strict=True):
        webp = base64.b64decode(film.webp)
        galleries.check(webp, 5)
        assert webp != (home / f"{name}.webp").read_bytes() and film.webp in render(board)


def test_several_tasks_share_a_row_s_episodes_failures_first(writer: Writer, tmp_path: Path) -> None:
    for task in ("easy", "hard"):
        gallery(writer.cell(f"a-{task}", ending(1, 2, 3), steps=200, task=task) / "seed-0", 1, task=task)
    films = only_details(gather_board(writer, tmp_path)).episodes
    assert films is not None and len(films.told) == 2
    assert [film.about.split(",")[0] for film in films.films] == ["easy", "hard"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<svg onload='alert(1)'/>", "episode 0 of grid/8x8/uer-a/seed-0 is not shown: it is no WebP"),
        (animations.webp(5)[:-9], "episode 0 of grid/8x8/uer-a/seed-0 is not shown: it has"),
        (animations.webp(5, (400, 400)), "it has 400 x 400 pixels"),
        (animations.webp(7), "it has 7 frames; it says 5"),
    ],
)
def test_what_is_no_small_animation_is_named_and_the_others_shown(
    writer: Writer, tmp_path: Path, content: bytes, says: str
) -> None:
    (gallery(writer.cell("a", ending(1, 2, 3), steps=200) / "seed-0", 3) / "00.webp").write_bytes(content)
    board = gather_board(writer, tmp_path)
    films = only_details(board).episodes
    assert films is not None and len(films.films) == 2
    assert films.told[0].startswith("8x8, seed 0: 2 of 32") and any(says in note for note in board.notes)
    assert base64.b64encode(content).decode()[:40] not in render(board)


def test_a_damaged_description_and_one_of_another_task_show_nothing(root: Path, writer: Writer, tmp_path: Path) -> None:
    (gallery(root / "seed-0") / "gallery.json").write_text("[" * 5_000)
    gallery(root / "seed-1", task="16x16")
    board = gather_board(writer, tmp_path)
    assert only_details(board).episodes is None
    assert any("the gallery of grid/8x8/uer-a/seed-0 is not shown" in note for note in board.notes)


def test_a_link_out_of_the_run_is_not_followed(root: Path, writer: Writer, tmp_path: Path) -> None:
    home = gallery(root / "seed-0", 1)
    (home / "00.webp").rename(tmp_path / "elsewhere.webp")
    edit(home / "gallery.json", episodes=[animations.episode(0, success=True, file="../../../../elsewhere.webp")])
    board = gather_board(writer, tmp_path)
    assert only_details(board).episodes is None and any("there is no file '../../" in note for note in board.notes)


def test_without_room_the_rows_with_the_best_places_keep_theirs(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method, finals in (("a", "uer", (0, 0, 1)), ("b", "per", (4, 4, 4)), ("c", "relo", (0, 1, 0))):
        gallery(writer.cell(name, ending(*finals), steps=200, method=method) / "seed-0", 1)
    monkeypatch.setattr(episodes, "ROOM", len(base64.b64encode(galleries.remade(animations.webp(), 5))))
    board = gather_board(writer, tmp_path)
    best = min(board.entries, key=lambda entry: (entry.rank is None, entry.rank or 0, entry.id))
    assert [name for name, details in board.details.items() if details.episodes] == [best.id]
    assert board.without_episodes == 2 and "The episodes of 2 rows are left out" in render(board)
