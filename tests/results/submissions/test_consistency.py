"""Tampering whose checksums are right again: what a study of this program cannot be is refused by file."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load, save

import guidebench
from guidebench.harness.errors import UserError
from guidebench.harness.identity.cells import recorded, rehashed
from guidebench.harness.plan import config
from guidebench.harness.records.schema import LEDGER, SCHEMA_VERSION
from guidebench.reports.leaderboard import gathering
from guidebench.results import submissions
from guidebench.results.submissions import packing
from tests.results.submissions.conftest import Contents, contents_of, edit_json, forge, parquet, rows

Forge = Callable[..., Path]
Change = Callable[[str], Callable[[Contents], object]]
"""Function from a cell's directory to a change of an archive's contents."""


def check_add_refused(file: Path, directory: Path, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        submissions.add(file, directory)
    assert str(file) in str(caught.value) and "ask for the archive as `bench submit` made it" in str(caught.value)
    assert str(directory) not in str(caught.value) and not directory.exists()


def test_putting_it_together_again_unchanged_is_accepted(forged: Forge, archive: Path, tmp_path: Path) -> None:
    file = forged(lambda contents: None)
    assert file.read_bytes() == archive.read_bytes() and submissions.add(file, tmp_path / "board").is_dir()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows.pop(),
            "evaluations.parquet has .* its configuration asks for .* rows were removed or added",
        ),
        (lambda rows: rows.append(dict(rows[-1], episode=rows[-1]["episode"] + 1)), "rows were removed or added"),
        (lambda rows: rows.__setitem__(0, dict(rows[1])), "is there twice"),
        (
            lambda rows: rows[-1].update(step=rows[-1]["step"] + 1),
            "has not the evaluations that its configuration asks",
        ),
        (lambda rows: rows[0].update(episode=99), "has not the evaluations that its configuration asks"),
        (lambda rows: rows.reverse(), "has not the evaluations that its configuration asks"),
        (lambda rows: rows[0].update(seed=1), "but it lies in the directory of seed '0'"),
        (lambda rows: rows[0].update(method="mine"), "but it lies in the directory of method 'uer'"),
        (lambda rows: rows[0].update({"return": float("nan")}), "expected a finite number"),
        (lambda rows: rows[0].update({"return": float("inf")}), "expected a finite number"),
        (lambda rows: rows[0].update(success=None), "expected true or false"),
        (lambda rows: rows[0].update(length=-1), "expected a whole number of at least 0"),
        (lambda rows: rows[0].update(length=0), "has an episode without a step"),
        (lambda rows: rows.clear(), "rows were removed or added"),
    ],
)
def test_rows_are_those_that_the_configuration_asks_for(
    forged: Forge, cell: str, tmp_path: Path, change: Callable[[list[dict[str, Any]]], object], message: str
) -> None:
    check_add_refused(forged(rows(f"{cell}/seed-0/evaluations.parquet", change)), tmp_path / "board", message)


def test_a_run_that_is_left_out_stays_in_the_study(forged: Forge, cell: str, tmp_path: Path) -> None:
    """The worst seed cannot be dropped except by claiming that it was never planned."""

    def drop(contents: Contents) -> None:
        for path in [path for path in contents if "/seed-1/" in path]:
            del contents[path]

    with submissions.unpacked(forged(drop)) as submission:
        assert [run.status for run in submission.study.runs] == ["finished", "waiting"]
    file = forged(lambda contents: contents.pop(f"{cell}/seed-1/evaluations.parquet"))
    check_add_refused(file, tmp_path / "board", "it lacks .*seed-1/evaluations.parquet")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["settings"]["learner.lr"].update(value=1.0), "its names and settings make another cell"),
        (lambda c: c["settings"]["evaluation.episodes"].update(value=1), "its names and settings make another cell"),
        (lambda c: c["settings"].pop("learner.lr"), "its names and settings make another cell"),
        (lambda c: c.update(steps=c["steps"] * 2), "steps is 1200, and its settings and parts make it 600"),
        (lambda c: c.update(profile="paper"), "its names and settings make another cell"),
        (lambda c: c.update(variant="with luck"), "variant is 'with luck', and its settings and parts make it ''"),
        (lambda c: c.update(model="gpt"), "model is 'gpt', and its settings and parts make it ''"),
        (lambda c: c.update(backend="openai"), "backend is 'openai', and its settings and parts make it ''"),
        (lambda c: c.update(overrides={"learner.lr": 0.5}), "it says that learner.lr was overridden"),
        (lambda c: c["versions"].update(learner=99), "its names and settings make another cell"),
        (lambda c: c.pop("parts"), "lacks 'parts'"),
        (lambda c: c.update(backend="external"), "was altered: its names and settings make another cell"),
        (lambda c: c.update(cell="0" * 10), "is of cell '0000000000' but study.json expects"),
        (lambda c: c["settings"]["learner.lr"].update(value={"a": 1}), "settings, learner.lr, value does not fit"),
        (lambda c: c.update(settings=[]), "settings does not fit the schema"),
        (lambda c: c.update(more=1), r"cell\.json does not fit the schema: Additional properties .*'more'"),
        (lambda c: c.update(suite="../../etc"), "which is not that cell's place"),
    ],
)
def test_a_configuration_is_the_one_that_its_id_stands_for(
    forged: Forge, cell: str, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    check_add_refused(forged(edit_json(f"{cell}/cell.json", change)), tmp_path / "board", message)


def reconfigure(cell: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Contents], None]:
    """Return a function that changes a cell's configuration, and the id and name that follow from it wherever they
    occur."""

    def apply(contents: Contents) -> None:
        cell_record = json.loads(contents[f"{cell}/cell.json"])
        change(cell_record)
        old, cell_record["cell"] = cell_record["cell"], rehashed(cell_record)
        with suppress(UserError):  # a cell of another version has no name here
            cell_record["variant"] = recorded(cell_record).variant
        contents[f"{cell}/cell.json"] = json.dumps(cell_record).encode()
        for path in list(contents):
            if path.endswith(".parquet"):
                rows(path, lambda table_rows: [row.update(cell=cell_record["cell"]) for row in table_rows])(contents)
            elif path.endswith("study.json"):
                contents[path] = contents[path].replace(old.encode(), cell_record["cell"].encode())
            contents[path.replace(old, cell_record["cell"])] = contents.pop(path)

    return apply


def test_a_configuration_of_another_version_is_taken_with_a_remark(forged: Forge, cell: str, tmp_path: Path) -> None:
    """The id is recomputed from the record; only whether the configuration runs here cannot be checked."""
    momentum = {"value": 0.9, "layer": "default", "source": ""}
    file = forged(reconfigure(cell, lambda content: content["settings"].update({"learner.momentum": momentum})))
    with pytest.warns(UserWarning, match=r"cannot be checked here, and its runs not be verified: .*learner\.momentum"):
        submissions.add(file, tmp_path / "board")


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("versions", "learner", 2), ("versions", "suite", 0), ("parts", "agent", {"kind": "agent", "name": "mine"})],
)
def test_settings_that_could_hide_in_a_configuration_are_never_ranked(
    forged: Forge, cell: str, tmp_path: Path, section: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that claims another version, or a part that is not installed here, could hide other changed settings."""

    def hidden(content: dict[str, Any]) -> None:
        content["settings"]["learner.lr"]["value"] = 0.125
        content[section][name] = value

    if section == "parts":  # rehashing needs the part, which is not installed
        monkeypatch.setattr(
            config, "cell_fields", lambda names: {kind: {} for kind in (*names.sections, *config.PLAIN)}
        )
        monkeypatch.setattr(config, "_excluded_roles", lambda names, values: set())
    file = forged(reconfigure(cell, hidden))
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="cannot be checked here, and its runs not be verified"):
        submissions.add(file, tmp_path / "board")
    (entry,) = gathering.gather([], tmp_path / "board").entries
    assert entry.rank is None and "CartPole-v1: its configuration cannot be checked here, so that" in entry.apart


def test_an_override_that_is_not_stated_is_refused_and_one_that_is_stated_taken(
    forged: Forge, cell: str, tmp_path: Path
) -> None:
    """The id does not hash `overrides`, and the row's name follows from them."""

    def tuned(content: dict[str, Any]) -> None:
        content["settings"]["learner.lr"]["value"] = 0.125

    message = "learner.lr is 0.125 and not .*, which its overrides do not say"
    check_add_refused(forged(reconfigure(cell, tuned)), tmp_path / "board", message)
    stated = lambda content: (tuned(content), content["overrides"].update({"learner.lr": 0.125}))  # noqa: E731
    with submissions.unpacked(forged(reconfigure(cell, stated))) as submission:
        assert submission.study.cells[0].variant == "learner.lr=0.125"


@pytest.mark.parametrize(
    ("every", "episodes", "message"),
    [
        (10**6, 10**10, "asks for more than 250,000 evaluation episodes"),
        (1, 10**4000, "asks for more than 250,000 evaluation episodes"),
        (10**6, 200_000, "its configuration asks for 200,000: rows were removed"),
    ],
    ids=["many", "beyond floats", "as many as may be"],
)
def test_more_evaluations_than_any_run_has_are_never_listed(
    forged: Forge, cell: str, tmp_path: Path, every: int, episodes: int, message: str
) -> None:
    def change(content: dict[str, Any]) -> None:
        for name, value in (("evaluation.every", every), ("evaluation.episodes", episodes)):
            content["settings"][name]["value"] = content["overrides"][name] = value

    check_add_refused(forged(reconfigure(cell, change)), tmp_path / "board", message)


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        ("study.json", lambda c: c.update(study="another"), "names the study 'another', its manifest 'classic-uer"),
        ("study.json", lambda c: c.update(cells={}), "names no cells"),
        ("study.json", lambda c: c.update(cells=3), "cells does not fit"),
        ("study.json", lambda c: next(iter(c["cells"].values())).update(directory="../x/y"), "directory does not fit"),
        (
            "study.json",
            lambda c: next(iter(c["cells"].values())).update(directory="a/b/c"),
            "in a/b/c, which is not",
        ),
        ("study.json", lambda c: next(iter(c["cells"].values())).update(seeds=[-1]), "seeds, 0 does not fit"),
        (
            "study.json",
            lambda c: next(iter(c["cells"].values())).update(seeds=list(range(60_001))),
            "seeds does not fit",
        ),
        ("study.json", lambda c: c.update(command="rm"), "command does not fit"),
        ("seed-0/run.json", lambda c: c.update(status="excellent"), "status does not fit"),
        ("seed-0/run.json", lambda c: c.update(status="running"), "belongs to no finished run"),
        ("seed-0/run.json", lambda c: c.update(step=1), "says finished at step 1 of"),
        ("seed-0/run.json", lambda c: c.update(steps=1), "says finished at step 600 of 600"),
        ("seed-0/run.json", lambda c: c.update(seed=7), "seed is 7, but the directory says 0"),
        ("seed-0/run.json", lambda c: c["provenance"].update(commit=["x"]), "provenance, commit does not fit"),
        ("seed-0/run.json", lambda c: c["provenance"].update(commit="\x1b[2J"), "control characters"),
        ("seed-0/run.json", lambda c: c["provenance"]["hardware"].update(cores={}), "hardware, cores does not fit"),
    ],
)
def test_the_record_fits_its_schema_and_itself(
    forged: Forge, cell: str, tmp_path: Path, path: str, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    place = path if path == "study.json" else f"{cell}/{path}"
    check_add_refused(forged(edit_json(place, change)), tmp_path / "board", message)


def header(content: bytes, size: int | None = None) -> bytes:
    return (len(content) if size is None else size).to_bytes(8, "little") + content


def test_a_claim_to_be_verifiable_needs_every_checkpoint(forged: Forge, cell: str, tmp_path: Path) -> None:
    file = forged(lambda contents: contents.pop(f"{cell}/seed-0/policy.safetensors"))
    check_add_refused(file, tmp_path / "board", "its manifest says verifiable: True, and its files say otherwise")
    file = forged(lambda contents: None, verifiable=False)
    check_add_refused(file, tmp_path / "board", "its manifest says verifiable: False, and its files say otherwise")


def test_files_of_nothing_in_the_study_are_refused(forged: Forge, cell: str, tmp_path: Path) -> None:
    for path in (
        "a/b/c/cell.json",
        "frames/a/b/c.png",
        f"{cell}/seed-7/ledger.jsonl",
        f"{cell}/seed-7/policy.safetensors",
        f"{cell}/seed-7/frames/clip.png",
    ):
        file = forged(lambda contents, path=path: contents.update({path: contents[f"{cell}/cell.json"]}))
        check_add_refused(file, tmp_path / "board", f"{path} belongs to no finished run or cell|{path} is")


def evaluations(cell: str, rows: int, **columns: Any) -> pa.Table:
    names = {"study": "s", "cell": cell[-10:], "suite": "classic", "task": "CartPole-v1", "method": "uer"}
    names |= {"learner": "dqn", "backend": "", "model": "", "profile": "smoke"}
    repeated = {**names, **{"seed": 0, "step": 1, "episode": 1, "return": 0.0, "success": True, "length": 1}, **columns}
    return pa.table({name: pa.repeat(value, rows) for name, value in repeated.items()})


CLIP = {"file": "clip.png", "first": 1, "last": 4, "events": [], "score": 0.5}
EPISODE = {
    **{"schema": SCHEMA_VERSION, "suite": "classic", "task": "CartPole-v1", "judge": "mine", "unjudged": ""},
    **{"seed": 0, "moves": 4, "length": 4, "return": 4.0, "success": False},
    "clips": [CLIP],
}


def claimed(text: str) -> Change:
    return lambda cell: lambda contents: contents.update({"study.json": text.encode(errors="surrogatepass")})


def put(name: str, content: Any) -> Change:
    """Return a change that writes file `name` of the cell; `content`: bytes, a JSON object, or a function from the
    cell's directory to bytes."""

    def of(cell: str) -> Callable[[Contents], None]:
        file_content = content(cell) if callable(content) else content
        return lambda contents: contents.update(
            {f"{cell}/{name}": file_content if isinstance(file_content, bytes) else json.dumps(file_content).encode()}
        )

    return of


def add_frame(content: bytes) -> Change:
    """Return a change that adds a sample frame of a task, which the study declares."""

    def judged(study: dict[str, Any]) -> None:
        ((id, entry),) = study["cells"].items()
        entry["matrix"] = {"kind": "perturbation", "name": "standard", "reference": id}

    return lambda cell: lambda contents: (
        edit_json("study.json", judged)(contents), contents.update({"frames/classic/CartPole-v1/standard.png": content})
    )  # fmt: skip


def poison_policy(cell: str) -> Callable[[Contents], None]:
    """Return a change that sets one of the parameters to NaN."""

    def change(contents: Contents) -> None:
        arrays = {name: array.copy() for name, array in load(contents[f"{cell}/seed-0/policy.safetensors"]).items()}
        next(iter(arrays.values())).flat[0] = np.nan
        contents[f"{cell}/seed-0/policy.safetensors"] = save(arrays)

    return change


def copy_policy(cell: str) -> Callable[[Contents], None]:
    first, second = (f"{cell}/seed-{seed}/policy.safetensors" for seed in (0, 1))
    return lambda contents: contents.update({second: contents[first]})


LEDGER_ROW = {"step": 1, **{name: kind() for name, kind in LEDGER.items()}}
MANY = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
CHOKES = r"study\.json (is not plain JSON|does not fit the schema)"
NO_TENSORS = "seed-0/policy.safetensors is no safetensors file of plain numbers"
FORGERIES: list[tuple[Change, str]] = [
    *((claimed(text), CHOKES)
      for text in ("[" * 50_000, '{"schema": NaN}', "null", "", "\x00", '{"a": 1, "a": 2}', "\ud800")),
    # a thousand rows that each name a column of their own would be a table of a million cells
    *((put("seed-0/ledger.jsonl", row), rf"seed-0/ledger\.jsonl, row 1.*{message}") for row, message in (
        ({**LEDGER_ROW, "k\x1b": 1}, r"unknown column 'k\?'"),
        ([LEDGER_ROW], "not a JSON object"),
        ({**LEDGER_ROW, "calls": -1}, "column 'calls'"),
    )),
    *((put("seed-0/policy.safetensors", content), NO_TENSORS) for content in (
        b"", b"\x00" * 7, header(b"{}", 2**62), header(b"not json"), header(b"[]"),
        header(b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}') + bytes(8),
        header(b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}') + bytes(4),
        header(b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}') + bytes(8),
        header(b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}') + bytes(4) + b"\x80\x05more",
        header(b'{"w": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]}}') + bytes(8),
        header(b'{"w": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}}'),
    )),
    (poison_policy, "holds numbers that are not finite"),
    (copy_policy, "seed-1 has the very parameters of .*seed-0, and no two seeds learn the same"),
    # a gigabyte of rows is never unpacked
    *((put("seed-0/evaluations.parquet", content), message) for content, message in (
        (lambda cell: parquet(evaluations(cell, 300_000), compression="zstd"), "has 300,000 rows; at most"),
        (lambda cell: parquet(evaluations(cell, 80, model="x" * 1_000_000), **MANY), "bytes when unpacked; at most"),
        (b"PAR1" + bytes(100) + b"PAR1", "cannot be read as Parquet"),
        (b"", "cannot be read as Parquet"),
        (lambda cell: parquet(evaluations(cell, 1, success="yes")), "rows were removed|column 'success'"),
    )),
    (add_frame(b"\x80\x05."), "is not a PNG"),
    (add_frame(b"<svg onload='alert(1)'>"), "is not a PNG"),
    (add_frame(b"\x89PNG\r\n\x1a\n" + bytes(4) + b"IHDR" + (10**5).to_bytes(4, "big") * 2), "100,000 x 100,000 pixels"),
    *((put(f"seed-0/frames/{name}", content), message) for name, content, message in (
        ("clip.png", b"<svg onload='alert(1)'>", "clip.png is not a PNG"),
        ("a.json", EPISODE | {"moves": -1}, "a.json, moves does not fit the schema"),
        ("a.json", EPISODE | {"return": "NaN"}, "a.json, return does not fit the schema"),
        ("a.json", EPISODE | {"html": "<script>"}, "a.json does not fit the schema"),
        ("a.json", EPISODE | {"clips": [{**CLIP, "file": "../run.json"}]}, "clips, 0, file does not fit"),
        ("a.json", EPISODE | {"clips": [{**CLIP, "score": 1.5}]}, "clips, 0, score does not fit"),
        ("a.html", b"<script>", "a.html"),
    )),
    (lambda cell: lambda contents: contents.update({"models/cassette.sqlite": b"SQLite format 3\0" + bytes(4096)}),
     "models/cassette.sqlite"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), FORGERIES, ids=range(len(FORGERIES)))
def test_what_no_program_of_ours_writes_is_refused_by_file(
    forged: Forge, cell: str, tmp_path: Path, change: Change, message: str
) -> None:
    file = forged(change(cell))
    assert file.stat().st_size < 2**24
    check_add_refused(file, tmp_path / "board", message)


def imported(tmp_path: Path, **settings: Any) -> Path:
    with guidebench.Recorder(
        tmp_path / "theirs", suite="classic", task="CartPole-v1", method="theirs", seed=0, steps=100, settings=settings
    ) as log:
        for step in (50, 50, 100):
            log.episode(step=step, ret=1.0, success=True)
    return packing.pack(tmp_path / "theirs", tmp_path / "theirs.zip").file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("cell.json", lambda c: c["settings"]["lr"].update(value=0.2)), "its names and settings make another cell"),
        (("cell.json", lambda c: c.update(steps=50)), "its names and settings make another cell|says finished"),
        (("rows", lambda logged: logged.reverse()), "out of order"),
        (("rows", lambda logged: logged.pop(0)), "out of order, without their first episode"),
        (
            ("rows", lambda logged: logged[-1].update(step=200)),
            "out of order, without their first episode or after its end",
        ),
    ],
)
def test_runs_made_elsewhere_are_held_to_what_they_say(tmp_path: Path, change: Any, message: str) -> None:
    file = imported(tmp_path, lr=0.1)
    target, edit = change
    directory = next(path for path in contents_of(file) if path.endswith("cell.json")).removesuffix("/cell.json")
    apply = (
        rows(f"{directory}/seed-0/evaluations.parquet", edit)
        if target == "rows"
        else edit_json(f"{directory}/{target}", edit)
    )
    check_add_refused(forge(file, tmp_path / "forged.zip", apply), tmp_path / "board", message)
