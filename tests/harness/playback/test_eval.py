"""`bench eval` tests a trained run again: on fresh layouts, on other tasks with the same spaces, and on film."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest

import guidebench
from guidebench.harness import registry
from guidebench.harness.commands import cli
from guidebench.harness.interfaces import Actions, Observations
from guidebench.harness.playback.reevaluation import SHIFT, _differing
from guidebench.harness.records.study import RunDirectory
from guidebench.harness.streams import Streams


@pytest.fixture(scope="module")
def trained_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return suite -> directory of a short run of it."""
    short = ("training.steps=120", "evaluation.every=40", "learner.learning_starts=64", "learner.hidden=[8]")
    output = tmp_path_factory.mktemp("eval") / "study"
    study = guidebench.run(
        "suite=minigrid_doorkey,classic", *short, profile="smoke", seeds=1, report=False, output=output
    )
    assert study.finished
    return {run.cell.names.suite: run.directory for run in study.runs}


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str]):
    """Return a function: `evaluate(run, "--episodes", "3")` returns (exit code, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        return (cli.main(["eval", *map(str, words)]), *capsys.readouterr())

    return run


def test_as_many_episodes_as_asked_are_played_and_summed_up(trained_runs, evaluate) -> None:
    code, out, _ = evaluate(trained_runs["classic"], "--episodes", 5, "--json")
    episodes = json.loads(out)
    assert code == 0 and [episode["episode"] for episode in episodes] == [0, 1, 2, 3, 4]
    assert all(episode["return"] == episode["length"] >= 1 for episode in episodes)  # a point for each step
    mean = sum(episode["return"] for episode in episodes) / 5
    code, out, _ = evaluate(trained_runs["classic"], "--episodes", 5)
    assert code == 0 and out == f"5 episodes; mean return {mean:.3f}, mean length {mean:.1f}\n"


def test_the_layouts_follow_from_the_seed_alone_and_are_not_those_of_the_run(trained_runs, evaluate) -> None:
    def play(*options: object) -> list[dict]:
        return json.loads(evaluate(trained_runs["classic"], "--episodes", 4, "--json", *options)[1])

    assert play() == play("--seed", 0) != play("--seed", 1) and play("--seed", 1) == play("--seed", 1)
    in_the_run = {Streams(0).evaluation_seed(step, episode) for step in (40, 80, 120) for episode in range(2)}
    assert not in_the_run & {Streams(SHIFT).evaluation_seed(0, episode) for episode in range(4)}


def test_a_grid_policy_plays_a_grid_of_another_size(trained_runs, evaluate) -> None:
    code, out, _ = evaluate(trained_runs["minigrid_doorkey"], "task=8x8", "--episodes", 2, "--json")
    episodes = json.loads(out)
    assert code == 0 and len(episodes) == 2
    assert all(episode["success"] or episode["length"] == 10 * 8 * 8 for episode in episodes)
    code, out, _ = evaluate(trained_runs["minigrid_doorkey"], "--episodes", 2, "--json")
    assert all(episode["success"] or episode["length"] == 10 * 5 * 5 for episode in json.loads(out))


def test_a_policy_that_is_not_the_runs_own_or_is_missing_is_refused(trained_runs, evaluate, tmp_path: Path) -> None:
    run = tmp_path / "classic" / "seed-0"
    shutil.copytree(trained_runs["classic"], run)
    shutil.copyfile(trained_runs["classic"].parent / "cell.json", run.parent / "cell.json")
    assert evaluate(run, "--episodes", 1)[0] == 0
    policy = run / "policy.safetensors"
    policy.write_bytes(policy.read_bytes()[:-1] + b"\0")
    code, _, err = evaluate(run, "--episodes", 1)
    assert code == 2 and "is not the policy with which the run ended" in err
    policy.unlink()
    code, _, err = evaluate(run, "--episodes", 1)
    assert code == 2 and f"{policy} is missing" in err


def test_a_stack_of_grids_fits_one_of_another_size_and_no_single_grid() -> None:
    def differing(**other: object) -> str:
        trained = Observations((8, 8, 4), "uint8", (3,) * 4, stack=4)
        return _differing((trained, Actions(3)), (replace(trained, **other), Actions(3)))  # type: ignore[arg-type]

    assert differing(shape=(5, 6, 4)) == ""
    reason = (
        r"its observations are uint8 [8, 8, 3] of [3, 3, 3] codes, against uint8 [8, 8, 4] of [3, 3, 3, 3] codes, 4"
    )
    assert differing(shape=(8, 8, 3), categories=(3,) * 3, stack=1).startswith(reason)
    assert differing(shape=(5, 6, 4), stack=2) and differing(shape=(5, 6, 4), dtype="int8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("suite=classic", "task=CartPole-v1"), "classic/CartPole-v1 does not fit a policy of minigrid_doorkey/5x5"),
        (("suite=classic",), "unknown task of suite 'classic': '5x5'"),
        (("suite=clasic",), "unknown suite 'clasic'; did you mean 'classic'"),
        (("task=9x9",), "unknown task of suite 'minigrid_doorkey': '9x9'"),
        (("method=per",), "'method': only suite=…, task=… and models.…"),
        (("8x8",), "'8x8': only suite=…, task=… and models.…"),
        (("--episodes", "0"), "--episodes 0: at least 1"),
        (("--seed", "-1"), "--seed -1"),
        (("--video", "film.avi"), "--video film.avi: end the file's name in .mp4 or .gif"),
        (("--video", "film"), "end the file's name in .mp4 or .gif"),
        (("--video", "film.mp4", "--video-episodes", "0"), "--video-episodes 0"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(trained_runs, evaluate, tmp_path, monkeypatch, words, says: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = evaluate(trained_runs["minigrid_doorkey"], *words)
    assert code == 2 and out == "" and says in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_finished_is_refused_and_so_is_what_is_no_run(trained_runs, evaluate, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "seed-0")
    run.update(status="stopped", step=300, steps=600)
    code, _, err = evaluate(run.path)
    assert code == 2 and f"{run.path} is stopped, not finished; the command that began it continues it" in err
    code, _, err = evaluate(trained_runs["classic"].parent)
    assert code == 2 and "is not a run; give a directory such as STUDY/SUITE/TASK/METHOD-CELL/seed-0" in err


@pytest.mark.parametrize("name", ["film.mp4", "film.gif", "below/FILM.MP4"])
@pytest.mark.parametrize(("task", "side"), [("5x5", 5 * 32), ("8x8", 8 * 32)])
def test_the_film_shows_the_episodes_in_the_drawn_size(
    trained_runs, evaluate, tmp_path: Path, name: str, task: str, side: int
) -> None:
    film = tmp_path / name
    options = ("--episodes", 3, "--video", film, "--video-episodes", 2)
    code, out, _ = evaluate(trained_runs["minigrid_doorkey"], f"task={task}", *options)
    assert code == 0 and f"video: {film}" in out
    with imageio.get_reader(film) as reader:
        frames = [np.asarray(frame)[..., :3] for frame in reader]
    assert {frame.shape for frame in frames} == {(side, side, 3)}
    # Two episodes of at least two frames, with each last frame shown for half a second; a GIF joins equal frames.
    assert len(frames) >= (2 if film.suffix == ".gif" else 2 * (2 + 5))
    # The first frame is the first layout that the seed gives, drawn as the suite draws it unless told.
    suite = registry.get("suite", "minigrid_doorkey")()
    world = suite.make(task)
    world.reset(Streams(SHIFT).evaluation_seed(0, 0))
    expected_frame = suite.drawing().spawn(task)(world.snapshot()[None])[0]
    assert np.abs(frames[0].astype(int) - expected_frame).mean() < 6


def test_a_film_that_cannot_be_written_is_told(trained_runs, evaluate, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = evaluate(trained_runs["minigrid_doorkey"], "--video", tmp_path / "file" / "film.gif")
    assert code == 2 and "film.gif" in err and "Traceback" not in err
