"""`bench verify`: what holds is verified, whatever was changed is noticed, and nothing a stranger wrote can hurt."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from guidebench.harness.commands import cli
from guidebench.harness.identity import provenance
from guidebench.results.verification import record, verifying
from tests.results.verification.conftest import (
    FRESH,
    BoardSubmission,
    archive,
    played,
    player,
    shared_player,
    submission,
    trained,
)

__all__ = ["archive", "played", "player", "shared_player", "submission"]


def test_an_untouched_submission_is_verified_and_the_record_is_the_same_again(
    submission: BoardSubmission, tmp_path: Path
) -> None:
    code, verification = submission.verify(*FRESH)
    assert code == 0 and len(verification.cells) == 2
    for verdict in verification.cells.values():
        assert verdict.standing == "verified" and not verdict.reason and all(check.passed for check in verdict.checks)
    cartpole = verification.cells[submission.id]
    assert [check.what for check in cartpole.checks] == [
        "configuration", "seed 0: final evaluation", "seed 1: final evaluation", "new layouts",
    ]  # fmt: skip
    assert cartpole.renewed.episodes == 32 and cartpole.reported.episodes == 32
    record_bytes = record.path_of(submission.leaderboard, verification.digest).read_bytes()
    submission.leaderboard = tmp_path / "other"
    assert submission.verify("--seed", verification.seed) == (0, verification)
    assert record.path_of(submission.leaderboard, verification.digest).read_bytes() == record_bytes


def last(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return max(rows, key=lambda row: (row["step"], row["episode"]))


def rows(edit: Callable[[list[dict[str, Any]]], object]) -> Callable[[BoardSubmission], None]:
    return lambda submission: submission.edit_rows(1, edit)


def policy(content: Callable[[BoardSubmission], bytes]) -> Callable[[BoardSubmission], object]:
    """Return a function that replaces the parameters of the second run by these bytes."""
    return lambda submission: (submission.cell() / "seed-1" / "policy.safetensors").write_bytes(content(submission))


def parameters(submission: BoardSubmission, seed: int) -> bytes:
    return (submission.cell() / f"seed-{seed}" / "policy.safetensors").read_bytes()


def poisoned(submission: BoardSubmission) -> bytes:
    weights = load(parameters(submission, 1))
    next(iter(weights.values())).flat[0] = np.nan
    return save(weights)


def exchanged(submission: BoardSubmission) -> None:
    first = parameters(submission, 0)
    (submission.cell() / "seed-0" / "policy.safetensors").write_bytes(parameters(submission, 1))
    policy(lambda submission: first)(submission)


score = rows(lambda logged: last(logged).update(success=not last(logged)["success"]))
returned = rows(lambda logged: last(logged).update({"return": last(logged)["return"] + 1}))
FINAL = "seed 1: final evaluation: "
TAMPERINGS: Mapping[str, tuple[Callable[[BoardSubmission], object], str]] = {
    "score": (score, f"{FINAL}1 of 16 episodes differ in success: episode 15 is recorded as a"),
    "return": (returned, f"{FINAL}0 of 16 episodes differ in success, 1 in return or length alone: episode"),
    "removed": (rows(lambda logged: logged.remove(last(logged))), f"{FINAL}episodes 15 are missing"),
    "added": (
        rows(lambda logged: logged.append({**last(logged), "episode": last(logged)["episode"] + 1})),
        f"{FINAL}episodes 16 are there, which its configuration does not ask for",
    ),
    "later": (
        rows(lambda logged: logged.__setitem__(slice(None), [r for r in logged if r["step"] < last(logged)["step"]])),
        f"{FINAL}the last evaluation on record is of step 400, and its configuration ends",
    ),
    "configuration": (
        lambda submission: submission.edit_settings(consistently=False, learner_lr=0.5),
        "configuration: cell.json was changed: its names and settings make another cell",
    ),
    "network": (
        lambda submission: submission.edit_settings(learner_hidden=[7]),
        "seed 0: final evaluation: policy.safetensors does not fit the configuration: head.0.weight has",
    ),
    "exchanged": (exchanged, "seed 0: final evaluation: 0 of 16 episodes differ in success"),
    "poisoned": (policy(poisoned), "numbers that are not finite"),
    "pickled": (policy(lambda submission: b"\x80\x04cos\nsystem\n"), f"{FINAL}policy.safetensors is no policy"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_is_changed_is_noticed_though_every_checksum_fits(submission: BoardSubmission, name: str) -> None:
    tamper, says = TAMPERINGS[name]
    tamper(submission)
    submission.seal()
    code, verification = submission.verify()
    verdict = verification.cells[submission.id]
    assert code == 1 and verdict.standing == "disputed" and says in verdict.reason
    assert verification.cells[submission.cell("5x5").name.rpartition("-")[2]].standing == "verified"


def elsewhere(submission: BoardSubmission) -> None:
    path = submission.cell() / "seed-1" / "run.json"
    run = json.loads(path.read_text())
    run["provenance"]["hardware"].update(processor="Another CPU", device="cuda", gpu="Some GPU")
    path.write_text(json.dumps(run))


def another_method(submission: BoardSubmission) -> None:
    path = submission.cell() / "cell.json"
    path.write_text(path.read_text().replace('"uer"', '"of_a_stranger"'))


def test_a_run_made_elsewhere_may_differ_in_a_few_returns_and_is_unsettled_by_a_few_successes(
    submission: BoardSubmission,
) -> None:
    elsewhere(submission)
    returned(submission)
    submission.seal()
    verdict = submission.verdict()
    assert verdict.standing == "verified" and "1 in return or length alone; made on Another" in verdict.checks[2].detail
    score(submission)
    submission.seal()
    verdict = submission.verdict()
    assert verdict.standing == "self-reported" and verdict.checks[2].passed is None
    processor = provenance.hardware("cpu")["processor"]
    assert (
        f"made on Another CPU (Some GPU), played on {processor} (cpu), which may be why; --tolerance" in verdict.reason
    )
    assert submission.verdict("--tolerance", 0.1).standing == "verified"


def test_returns_that_no_processor_makes_are_noticed_wherever_a_run_says_that_it_was_made(
    submission: BoardSubmission,
) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row.update({"return": 12.5})

    elsewhere(submission)
    submission.edit_rows(1, edit)
    submission.seal()
    verdict = submission.verdict()
    assert verdict.standing == "disputed" and "where at most 25% may differ in return or length alone" in verdict.reason


def test_a_cell_without_all_its_checkpoints_stays_self_reported_and_says_which_are_missing(
    submission: BoardSubmission,
) -> None:
    (submission.cell() / "seed-1" / "policy.safetensors").unlink()
    submission.seal()
    verdict = submission.verdict("--episodes", 32)
    assert verdict.standing == "self-reported" and verdict.reason == "without its final parameters: seed 1"
    assert [check.passed for check in verdict.checks] == [True, True, True]  # of all that could be checked


def test_a_cell_without_runs_is_not_verified_for_want_of_faults(submission: BoardSubmission) -> None:
    for run in submission.cell().glob("seed-*"):
        shutil.rmtree(run)
    path = submission.directory / "study.json"
    study_record = json.loads(path.read_text())
    study_record["cells"][submission.id]["seeds"] = []
    path.write_text(json.dumps(study_record))
    submission.seal()
    verdict = submission.verdict()
    assert verdict.standing == "self-reported" and verdict.reason == "it has no runs"


def test_a_run_that_takes_too_long_is_told_and_the_others_go_on(submission: BoardSubmission) -> None:
    code, verification = submission.verify("--limit", 0.01)
    assert code == 0 and {verdict.standing for verdict in verification.cells.values()} == {"self-reported"}
    assert all(
        "longer than 0.01 s; give it more with --limit" in verdict.reason for verdict in verification.cells.values()
    )


@pytest.mark.parametrize(
    ("tamper", "standing", "says"),
    [
        (
            lambda submission: submission.edit_settings(learner_hidden=[10**7, 10**7]),
            "disputed", "does not fit the configuration: head.0.weight has shape (4, 16)",
        ),
        (
            lambda submission: submission.edit_settings(evaluation_episodes=10**9),
            "self-reported", "1,000,000,000 episodes are more than 10,000",
        ),
        (
            lambda submission: submission.edit_settings(learner_lr="fast"),
            "self-reported", "learner.lr=fast: expected float",
        ),
        (another_method, "self-reported", "'of_a_stranger'"),
        (
            lambda submission: submission.edit_rows(0, lambda rows: rows[0].update({"return": 500.0, "length": 500})),
            "verified", "",
        ),
    ],
    ids=["network", "episodes", "no number", "a plug-in that is not here", "an evaluation without a checkpoint"],
)  # fmt: skip
def test_an_absurd_configuration_takes_neither_memory_nor_time_and_what_cannot_be_checked_is_told(
    submission: BoardSubmission, tamper: Callable[[BoardSubmission], None], standing: str, says: str
) -> None:
    tamper(submission)
    submission.seal()
    verdict = submission.verdict()
    assert verdict.standing == standing and says in verdict.reason


def test_an_interrupted_verification_keeps_what_is_done_and_goes_on(
    submission: BoardSubmission, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined = []
    real = verifying._examined

    def interrupted(study, cell, *rest):
        examined.append(cell.id)
        if len(examined) == 2:
            raise KeyboardInterrupt
        return real(study, cell, *rest)

    monkeypatch.setattr(verifying, "_examined", interrupted)
    words = ["verify", str(submission.directory), "--leaderboard", str(submission.leaderboard), "--episodes", "16"]
    assert cli.main(words) == 130
    (path,) = (submission.leaderboard / record.FOLDER).iterdir()
    partial_record = path.read_bytes()
    code, verification = submission.verify(*FRESH)
    assert code == 0 and len(verification.cells) == 2 and examined == [*verification.cells, [*verification.cells][1]]
    assert verification.seed == json.loads(partial_record)["seed"]  # the seed of the finished cell
    path.write_bytes(partial_record)
    assert submission.verify("--seed", verification.seed + 1)[0] == 0 and len(examined) == 5  # other layouts
    path.write_bytes(partial_record)
    _, other = submission.verify("--calls", 0)
    assert len(examined) == 7 and other.seed != verification.seed  # a record of another command is not continued


def test_a_complete_record_is_not_believed_whoever_wrote_it(
    submission: BoardSubmission, capsys: pytest.CaptureFixture[str]
) -> None:
    returned(submission)
    submission.seal()
    _, verification = submission.verify(*FRESH)
    forged = {id: replace(verdict, standing="verified", reason="") for id, verdict in verification.cells.items()}
    record.write(replace(verification, cells=forged), submission.leaderboard)
    assert "replacing" not in capsys.readouterr().err
    code, again = submission.verify(*FRESH)
    assert code == 1 and again.cells[submission.id].standing == "disputed" and again.seed != verification.seed
    assert "replacing an earlier record" in capsys.readouterr().err


def test_cells_without_anything_to_play_do_not_weaken_the_test_of_new_layouts(submission: BoardSubmission) -> None:
    path = submission.directory / "study.json"
    study_record = json.loads(path.read_text())
    for number in range(20):
        id = f"{number:010x}"
        study_record["cells"][id] = {"directory": f"classic/CartPole-v1/empty-{id}", "seeds": [], "label_variant": ""}
    path.write_text(json.dumps(study_record))
    submission.seal()
    _, verification = submission.verify()
    assert (
        len(verification.cells) == 22
        and "after Holm over 2 cells" in verification.cells[submission.id].checks[-1].detail
    )
    assert (
        verification.cells[submission.id].standing == "verified"
        and verification.cells[f"{0:010x}"].standing == "self-reported"
    )


def test_new_layouts_too_few_to_show_anything_verify_nothing_and_only_some_runs_are_played_if_asked(
    submission: BoardSubmission,
) -> None:
    verdict = submission.verdict("--episodes", 1)
    assert verdict.standing == "self-reported" and verdict.checks[-1].passed is None
    assert verdict.reason.startswith("new layouts: ") and "there are too few episodes" in verdict.reason
    verdict = submission.verdict("--runs", 1, "--episodes", 128)
    assert verdict.standing == "verified" and verdict.renewed.episodes == 128
    assert verdict.checks[1].detail == "1 of 2 were played, drawn by the seed"


def test_a_study_is_verified_without_a_record_and_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "study", "suite=classic", "task=CartPole-v1", "evaluation.episodes=16")
    board = tmp_path / "board"
    assert cli.main(["verify", str(tmp_path / "study"), "--leaderboard", str(board)]) == 0
    out = capsys.readouterr().out
    assert "1 verified of 1 cell" in out and "not recorded" in out and not board.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--episodes", "0"], "--episodes 0: expected a number in [1, 10000]"),
        (["--tolerance", "nan"], "--tolerance nan: expected a number in [0, 1]"),
        (["learner.lr=1"], "'learner.lr': only how models are reached (judge.base_url=…) and what asking"),
        (["judge=openai"], "'judge': only how models are reached (judge.base_url=…) and what asking"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, capsys, words: list[str], says: str) -> None:
    assert cli.main(["verify", str(tmp_path), *words]) == 2 and says in capsys.readouterr().err
