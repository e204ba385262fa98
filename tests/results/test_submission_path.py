"""A study on its way: made in one directory, packed, added and verified in another; whatever is changed is noticed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guidebench.harness.commands import cli
from tests.results.submissions.conftest import Contents, forge, rows
from tests.results.verification.conftest import played, player, shared_player, trained

__all__ = ["played", "player", "shared_player"]


@pytest.fixture(scope="session")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive that `bench submit` made in a directory which was moved away afterwards."""
    maker, archive = tmp_path_factory.mktemp("maker"), tmp_path_factory.mktemp("reader") / "cartpole.zip"
    trained(maker / "cartpole", "suite=classic", "task=CartPole-v1", "evaluation.episodes=16", seeds=2)
    assert cli.main(["submit", str(maker / "cartpole"), "--output", str(archive), "--by", "A. Reader"]) == 0
    maker.rename(maker.with_name("elsewhere"))
    return archive


@pytest.fixture
def bench(
    tmp_path: Path, shared_player: None, monkeypatch: pytest.MonkeyPatch, capsys
) -> Callable[..., tuple[int, str]]:
    """`bench("verify", …)` runs the command in the test's directory and returns its exit code and output."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str]:
        return cli.main([*map(str, words)]), "".join(capsys.readouterr())

    return run


def standings() -> list[str]:
    """Return the standings of the leaderboard's rows, in their order."""
    return [entry["standing"] for entry in json.loads(Path("leaderboard/leaderboard.json").read_text())["entries"]]


def score_edited(contents: Contents) -> None:
    path = next(path for path in contents if path.endswith("seed-1/evaluations.parquet"))
    rows(path, lambda logged: logged[-1].update(success=not logged[-1]["success"]))(contents)


def test_what_was_made_elsewhere_is_added_then_verified_and_shown_so(handed_in: Path, bench) -> None:
    code, out = bench("leaderboard", "--add", handed_in)
    assert code == 0 and "added" in out and standings() == ["self-reported"] and ", by A. Reader" in out
    code, out = bench("verify", handed_in)
    assert code == 0 and "1 verified of 1 cell" in out and bench("leaderboard")[0] == 0 and standings() == ["verified"]
    (directory,) = Path("leaderboard/submissions").iterdir()
    assert bench("verify", directory)[0] == 0  # the added directory verifies as the archive does
    code, out = bench("verify", forge(handed_in, Path("forged.zip"), score_edited, seal=False))
    assert code == 2 and "forged.zip" in out and ("manifest" in out or "checksum" in out)


def test_what_only_playing_again_can_tell_is_disputed_and_shown_so(handed_in: Path, bench) -> None:
    assert bench("verify", handed_in)[0] == 0, "which does not count for another archive"
    forged = forge(handed_in, Path("forged.zip"), score_edited)
    assert bench("leaderboard", "--add", forged)[0] == 0 and standings() == ["self-reported"]
    code, out = bench("verify", forged)
    says = "seed 1: final evaluation: FAILED: 1 of 16 episodes differ in success: episode 15 is recorded"
    assert code == 1 and says in out and bench("leaderboard")[0] == 0 and standings() == ["disputed"]
