"""Galleries in submissions: which are packed, and that those of strangers are refused by name unless all fits."""

import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.records.clips import read_gallery
from guidebench.results import galleries, submissions
from guidebench.results.submissions import galleries as handed_in
from guidebench.results.submissions.packing import pack
from tests.results import animations
from tests.results.submissions.conftest import Contents, contents_of, edit_json
from tests.results.submissions.test_hostile import check_add_refused

Forge = Callable[..., Path]
PackGallery = Callable[..., Contents]
GALLERY_OF: dict[str, Any] = {"suite": "classic", "task": "CartPole-v1", "measure": "return", "successes": 0}


def episode(number: int, **changes: Any) -> dict[str, Any]:
    return animations.episode(number, score=float(number), **changes)


def write_gallery(study: Path, cell: str, place: int = 0, *episodes: dict[str, Any], **changes: Any) -> Path:
    """Write a gallery of a run, by default of six episodes."""
    return animations.write(
        study / cell / f"seed-{place}", *(episodes or map(episode, range(6))), **{**GALLERY_OF, "seed": 7, **changes}
    )


def gallery_description(file: Path, cell: str, seed: int = 0) -> dict[str, Any]:
    description: dict[str, Any] = json.loads(contents_of(file)[f"{cell}/seed-{seed}/gallery/gallery.json"])
    return description


def test_of_each_cell_one_run_shows_its_first_episodes_and_its_last(study: Path, cell: str, tmp_path: Path) -> None:
    write_gallery(study, cell, 1)
    home = write_gallery(study, cell, 0)
    packed = pack(study, tmp_path / "a.zip")
    contents = contents_of(packed.file)
    assert sorted(path for path in contents if "/gallery/" in path) == [
        f"{cell}/seed-0/gallery/{name}" for name in ("00.webp", "01.webp", "02.webp", "gallery.json")
    ]
    assert [shown_episode["episode"] for shown_episode in gallery_description(packed.file, cell)["episodes"]] == [
        0,
        1,
        5,
    ]
    assert contents[f"{cell}/seed-0/gallery/02.webp"] == (home / "05.webp").read_bytes()
    assert any("3 episodes of 1 cell can be seen" in remark for remark in packed.remarks)
    gallery = read_gallery(submissions.add(packed.file, tmp_path / "board") / cell / "seed-0")
    assert gallery is not None and (gallery.played, len(gallery.episodes)) == (32, 3)
    assert pack(study, tmp_path / "b.zip").file.read_bytes() == packed.file.read_bytes()
    assert not any("/gallery/" in path for path in contents_of(pack(study, tmp_path / "c.zip", gallery=False).file))


def test_captions_tell_no_path_of_the_machine(study: Path, cell: str, tmp_path: Path) -> None:
    words = [{"step": 0, "text": f"see {Path.home()}/notes and http://me:pw@10.1.2.3/v1"}]
    write_gallery(study, cell, 0, episode(0, words=words), unjudged="judge at http://10.1.2.3/v1 is away")
    about = gallery_description(pack(study, tmp_path / "a.zip").file, cell)
    assert about["episodes"][0]["words"][0]["text"] == "see …/notes and …" and "10.1.2.3" not in about["unjudged"]


def test_what_cannot_be_handed_in_is_told_and_the_next_run_s_is_taken(
    study: Path, cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gallery(study, cell, 0, task="Pendulum-v1")
    write_gallery(study, cell, 1)
    packed = pack(study, tmp_path / "a.zip")
    assert len(gallery_description(packed.file, cell, 1)["episodes"]) == 3
    assert any(
        "left out: the gallery of" in remark and "it shows classic/Pendulum-v1" in remark for remark in packed.remarks
    )
    monkeypatch.setattr(handed_in, "TOGETHER", 100)
    packed = pack(study, tmp_path / "a.zip")
    assert not any("/gallery/" in path for path in contents_of(packed.file))
    assert any("left out: the galleries of 1 cell" in remark for remark in packed.remarks)


def test_bench_submit_draws_what_is_missing(
    study: Path, cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygame")
    file = tmp_path / "a.zip"
    assert cli.main(["submit", str(study), "--output", str(file), "--gallery"]) == 0
    streams = capsys.readouterr()
    assert "seed-0: gallery: 6 episodes in" in streams.err and "3 episodes of 1 cell can be seen" in streams.out
    about = gallery_description(file, cell)
    assert about["played"] == 32 and about["measure"] == "return" and not about["own"]
    scores = [shown_episode["score"] for shown_episode in about["episodes"]]
    assert scores == sorted(scores)
    submissions.add(file, tmp_path / "board")
    assert cli.main(["submit", str(study), "--output", str(file), "--gallery"]) == 0
    assert "seed-0: gallery" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def packed_gallery(trained: Path, cell: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Contents]:
    """`packed_gallery(episode, …)`: contents of a submission that shows these episodes, by default six; packed once."""
    contents_by_episodes: dict[str, Contents] = {}

    def pack_once(*episodes: dict[str, Any]) -> Contents:
        if (name := json.dumps(episodes)) not in contents_by_episodes:
            study = shutil.copytree(trained, tmp_path_factory.mktemp("whole") / "study")
            write_gallery(Path(study), cell, 0, *episodes)
            contents_by_episodes[name] = contents_of(pack(study, study.with_name("whole.zip")).file)
        return contents_by_episodes[name]

    return pack_once


def chunk(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def riff(content: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(content) + 4) + b"WEBP" + content


def canvas(width: int, height: int) -> bytes:
    return chunk(b"VP8X", b"\x02\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def saved(kind: str, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind)
    return buffer.getvalue()


def many_frames(number: int) -> bytes:
    """Return an animation with `number` frames of one pixel."""
    frame = chunk(b"ANMF", b"\0" * 16 + saved("WEBP", (1, 1))[12:])
    return riff(canvas(1, 1) + chunk(b"ANIM", b"\0" * 6) + frame * number)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"


def with_part(kind: bytes, content: bytes) -> bytes:
    return riff(animations.webp()[12:] + chunk(kind, content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SVG, "it is no WebP"),
        (HTML, "it is no WebP"),
        (saved("PNG", (8_000, 8_000), "1"), "it is no WebP"),  # a bomb: 64 million pixels in 8 kB
        (saved("GIF"), "it is no WebP"),
        (animations.webp()[:-7], "which are not those that it says"),
        (animations.webp() + HTML, "which are not those that it says"),
        (riff(animations.webp()[12:-40]), "it is cut short|cannot be decoded|frames"),
        (with_part(b"EXIF", HTML), "it has a part b'EXIF', which is no picture"),
        (with_part(b"XMP ", SVG), "it has a part b'XMP ', which is no picture"),
        (riff(canvas(2**24, 2**24) + animations.webp()[30:]), "cannot be decoded|at most 192 x 512 fit"),
        (animations.webp(2, (193, 8)), "it has 193 x 8 pixels; at most 192 x 512 fit"),
        (animations.webp(61), "it has more than 60 frames"),
        (many_frames(4_000), "it has more than 60 frames"),
        (animations.webp(7), "it has 7 frames; it says 5"),
        (b"", "it is no WebP"),
        (riff(b""), "cannot be decoded"),
        (riff(canvas(8, 6) + chunk(b"ANIM", b"\0" * 6) + chunk(b"ANMF", b"\xff" * 40)), "cannot be decoded"),
    ],
    ids=range(17),
)
def test_a_file_that_is_no_small_animation_is_refused_by_name(
    packed_gallery: PackGallery, cell: str, forged: Forge, archive: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    path = f"{cell}/seed-0/gallery/00.webp"
    gallery_files = packed_gallery(episode(0, length=90, moves=90, frames=5))
    file = forged(lambda contents: contents.update({**gallery_files, path: content}))
    check_add_refused(file, archive, tmp_path / "board", f"{path}(: | has ).*({message})")


def test_a_gif_of_a_hundred_thousand_frames_never_reaches_a_decoder(
    packed_gallery: PackGallery, cell: str, forged: Forge, tmp_path: Path
) -> None:
    """As 00.gif it is no file of a submission; disguised as WebP it is larger than any gallery may be."""
    gif = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff" + b"!\xf9\4\0\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0" * 10**5 + b";"
    for name, message in (("00.gif", "is no file of a submission"), ("00.webp", "at most 262,144 fit")):
        changed = {**packed_gallery(episode(0)), f"{cell}/seed-0/gallery/{name}": gif}
        with pytest.raises(UserError, match=message):
            submissions.add(forged(lambda contents, changed=changed: contents.update(changed)), tmp_path / "board")


@pytest.mark.parametrize(
    "name", ["gallery/00.svg", "gallery/00.png", "gallery/000.webp", "gallery/../00.webp", "gallery/a/00.webp"]
)
def test_other_names_and_places_are_no_files_of_a_submission(
    cell: str, forged: Forge, tmp_path: Path, name: str
) -> None:
    file = forged(lambda contents: contents.update({f"{cell}/seed-0/{name}": animations.webp()}))
    with pytest.raises(UserError, match="is no file of a submission"):
        submissions.add(file, tmp_path / "board")


def about(change: Callable[[dict[str, Any]], object]) -> Callable[[str, Contents], None]:
    """Return a change of the description gallery.json."""
    return lambda cell, contents: edit_json(f"{cell}/seed-0/gallery/gallery.json", change)(contents)


def doubled(cell: str, contents: Contents) -> None:
    for path in [path for path in contents if "/gallery/" in path]:
        contents[path.replace("seed-0", "seed-1")] = contents[path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (about(lambda a: a.update(task="Pendulum-v1")), "shows classic/Pendulum-v1, which is not the run's task"),
        (about(lambda a: a["episodes"][0].update(file="../../run.json")), "does not fit the schema"),
        (about(lambda a: a["episodes"][0].update(file="07.webp")), "names 07.webp, which the archive lacks"),
        (about(lambda a: a["episodes"][1].update(file="00.webp")), "names 00.webp, which the archive lacks or na"),
        (about(lambda a: a["episodes"].pop()), "02.webp belongs to no gallery that names it"),
        (about(lambda a: a["episodes"].extend(a["episodes"])), "has 6 episodes; expected 1 to 3"),
        (about(lambda a: a["episodes"].extend(3 * a["episodes"])), "does not fit the schema"),
        (about(lambda a: a["episodes"][1].update(episode=0)), "each of which is there once"),
        (about(lambda a: a["episodes"][1].update(episode=32)), r"shows episodes \[0, 32, 5\] of 32"),
        (about(lambda a: a.update(successes=40)), "shows other successes than the 40 of 32"),
        (about(lambda a: a["episodes"].reverse()), "its failures do not come first"),
        (about(lambda a: a.update(measure="happiness")), "chosen by 'happiness', which is not the score"),
        (about(lambda a: a["episodes"][0].update(frames=60)), "has more frames than steps"),
        (about(lambda a: a["episodes"][0].update(moves=10)), "has more frames than steps"),
        (about(lambda a: a.update(step=5)), "new layouts are played after training"),
        (about(lambda a: a.update(own=True)), "its seed is 7, in the evaluations 0"),
        (about(lambda a: a["episodes"][0].update(words=[{"step": 0, "text": "\u202e"}])), "control characters"),
        (about(lambda a: a["episodes"][0].update(html="<b>")), "does not fit the schema"),
        (about(lambda a: a["episodes"][0].update({"return": 1e999})), "no number|not finite|is not plain JSON"),
        (doubled, "another run of its cell has a gallery too"),
    ],
    ids=range(20),
)
def test_a_description_that_does_not_fit_its_run_is_refused(
    packed_gallery: PackGallery,
    cell: str,
    forged: Forge,
    tmp_path: Path,
    change: Callable[[str, Contents], None],
    message: str,
) -> None:
    file = forged(lambda contents: (contents.update(packed_gallery()), change(cell, contents)))
    with pytest.raises(UserError, match=message):
        submissions.add(file, tmp_path / "board")


def test_the_run_s_own_episodes_are_those_of_its_evaluations(study: Path, cell: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(study / cell / "seed-0" / "evaluations.parquet").to_pylist()
    last = [row for row in rows if row["step"] == rows[-1]["step"]]
    true = {"seed": 0, "own": True, "step": last[0]["step"], "played": len(last)}
    own_episode = episode(
        0, **{"return": last[0]["return"], "length": last[0]["length"], "moves": last[0]["length"]}, frames=2
    )
    write_gallery(study, cell, 0, own_episode, **true)
    (study / cell / "seed-0/gallery/00.webp").write_bytes(animations.webp(2))
    submissions.add(pack(study, tmp_path / "a.zip").file, tmp_path / "board")
    write_gallery(study, cell, 0, {**own_episode, "return": last[0]["return"] + 1}, **true)
    (study / cell / "seed-0/gallery/00.webp").write_bytes(animations.webp(2))
    with pytest.raises(UserError, match="episode 0 ended otherwise in the evaluations"):
        pack(study, tmp_path / "b.zip")
    write_gallery(study, cell, 0, own_episode, **{**true, "played": len(last) + 1})
    with pytest.raises(UserError, match="its played is"):
        pack(study, tmp_path / "b.zip")


def test_what_is_encoded_anew_holds_no_byte_that_was_handed_in() -> None:
    encoded = galleries.remade(animations.webp(5), 5)
    galleries.check(encoded, 5)
    assert encoded != animations.webp(5) and encoded[:4] == b"RIFF"
    with pytest.raises(UserError, match="it is no WebP"):
        galleries.remade(SVG, 5)
