"""A study on its way: made in one directory, packed, added and verified in another; whatever is changed is noticed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guidebench.harness.commands import cli
from guidebench.results.submissions import packing
from guidebench.results.submissions.manifest import Packed
from tests.results.submissions.conftest import Contents, contents_of, manifest_of
from tests.results.verification.conftest import kept, player, trained

__all__ = ["kept", "player"]


@pytest.fixture(scope="session")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive, made by `bench submit` in a directory that is gone."""
    here, there = tmp_path_factory.mktemp("maker"), tmp_path_factory.mktemp("reader") / "cartpole.zip"
    trained(here / "cartpole", "suite=classic", "task=CartPole-v1", "evaluation.episodes=16", seeds=2)
    assert cli.main(["submit", str(here / "cartpole"), "--output", str(there), "--by", "A. Reader"]) == 0
    here.rename(here.with_name("elsewhere"))
    return there


@pytest.fixture
def bench(tmp_path: Path, kept: None, monkeypatch: pytest.MonkeyPatch, capsys) -> Callable[..., tuple[int, str]]:
    """`bench("verify", …)` in a directory of its own -> exit code, what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str]:
        code = cli.main([*map(str, words)])
        return code, "".join(capsys.readouterr())

    return run


def standings() -> list[str]:
    """Of the rows on the leaderboard."""
    return [entry["standing"] for entry in json.loads(Path("leaderboard/leaderboard.json").read_text())["entries"]]


def test_what_was_made_elsewhere_is_added_then_verified_and_shown_so(handed_in: Path, bench) -> None:
    code, out = bench("leaderboard", "--add", handed_in)
    assert code == 0 and "added" in out and standings() == ["self-reported"] and ", by A. Reader" in out
    code, out = bench("verify", handed_in)
    assert code == 0 and "1 verified of 1 cell" in out
    assert bench("leaderboard")[0] == 0 and standings() == ["verified"]
    (directory,) = Path("leaderboard/submissions").iterdir()
    assert bench("verify", directory)[0] == 0  # as added, the same record


def forge(archive: Path, target: Path, change: Callable[[Contents], None], seal: bool) -> Path:
    """The archive with its contents changed, and, if sealed, every checksum that follows."""
    contents, manifest = contents_of(archive), manifest_of(archive)
    change(contents)
    files = {path: Packed(*packing.measure(content)) for path, content in contents.items()}
    packing.write(target, replace(manifest, files=files) if seal else manifest, contents)
    return target


def of_run(contents: Contents, name: str, seed: int) -> str:
    return next(path for path in contents if path.endswith(f"seed-{seed}/{name}"))


def rewritten(contents: Contents, edit: Callable[[list[dict]], None]) -> None:
    """Change the evaluation rows of the run with seed 1."""
    path = of_run(contents, "evaluations.parquet", 1)
    table = pq.read_table(io.BytesIO(contents[path]))
    rows, sink = table.to_pylist(), io.BytesIO()
    edit(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), sink)
    contents[path] = sink.getvalue()


def score_edited(contents: Contents) -> None:
    rewritten(contents, lambda rows: rows[-1].update(success=not rows[-1]["success"]))


def row_removed(contents: Contents) -> None:
    rewritten(contents, lambda rows: rows.pop())


def configuration_changed(contents: Contents) -> None:
    path = next(path for path in contents if path.endswith("cell.json"))
    content = json.loads(contents[path])
    content["settings"]["learner.lr"]["value"] = 0.5
    contents[path] = json.dumps(content).encode()


def checkpoint_exchanged(contents: Contents) -> None:
    one, other = (of_run(contents, "policy.safetensors", seed) for seed in (0, 1))
    contents[one], contents[other] = contents[other], contents[one]


TAMPERINGS = (score_edited, row_removed, configuration_changed, checkpoint_exchanged)


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_a_changed_archive_is_refused_by_its_checksums(handed_in: Path, bench, tamper) -> None:
    forged = forge(handed_in, Path("forged.zip"), tamper, seal=False)
    code, out = bench("verify", forged)
    assert code == 2 and "forged.zip" in out and ("manifest" in out or "checksum" in out)
    assert not Path("leaderboard").exists()


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (row_removed, "rows were removed or added"),
        (configuration_changed, "cell.json was changed"),
    ],
)
def test_a_study_that_does_not_fit_itself_is_refused_though_every_checksum_fits(
    handed_in: Path, bench, tamper: Callable[[Contents], None], says: str
) -> None:
    forged = forge(handed_in, Path("forged.zip"), tamper, seal=True)
    for words in (["verify", forged], ["leaderboard", "--add", forged]):
        code, out = bench(*words)
        assert code == 2 and says in out


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (score_edited, "seed 1: final evaluation: FAILED: 1 of 16 episodes differ in success: episode 15 is recorded"),
        (checkpoint_exchanged, "in return or length alone: episode 0 is recorded as"),
    ],
)
def test_what_only_playing_again_can_tell_is_disputed_and_shown_so(
    handed_in: Path, bench, tamper: Callable[[Contents], None], says: str
) -> None:
    forged = forge(handed_in, Path("forged.zip"), tamper, seal=True)
    assert bench("leaderboard", "--add", forged)[0] == 0 and standings() == ["self-reported"]
    code, out = bench("verify", forged)
    assert code == 1 and says in out
    assert bench("leaderboard")[0] == 0 and standings() == ["disputed"]


def test_the_verification_of_one_archive_does_not_count_for_another(handed_in: Path, bench) -> None:
    assert bench("verify", handed_in)[0] == 0
    forged = forge(handed_in, Path("forged.zip"), score_edited, seal=True)
    assert bench("leaderboard", "--add", forged)[0] == 0 and standings() == ["self-reported"]
