"""Demonstrations: every run of a cell begins with the same verified episodes, and is otherwise unchanged."""

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.commands import cli
from guidebench.harness.episodes import demonstrations
from guidebench.harness.episodes.demonstrations import Demonstrations, DemonstrationSpec
from guidebench.harness.errors import Notice, Stopped, UserError
from guidebench.harness.interfaces import Observations, Step
from guidebench.harness.loop import build as loop_build
from guidebench.harness.plan import config, matrix
from guidebench.suites.minigrid_doorkey import MiniGridDoorKey
from tests.logs import log_rows
from tests.refusals import check_refused

SUITE = MiniGridDoorKey()
THREE = DemonstrationSpec("minigrid_doorkey", SUITE, "5x5", 3)
SMALL = (
    "learner.channels=4", "learner.features=8", "learner.hidden=[8]", "learner.batch_size=16", "evaluation.episodes=2",
)  # fmt: skip
SHORT = (*SMALL, "training.demonstrations=3", "training.steps=160", "evaluation.every=40", "learner.learning_starts=40")


@pytest.fixture(scope="module")
def three() -> Demonstrations:
    return demonstrations.obtain(THREE)


def test_each_is_an_episode_from_reset_to_success_that_its_seed_repeats(three) -> None:
    assert len(three.episodes) == 3 and len({episode.seed for episode in three.episodes}) == 3
    for episode in three.episodes:
        np.testing.assert_array_equal(episode.observation[0], SUITE.make("5x5").reset(episode.seed))
        np.testing.assert_array_equal(episode.observation[1:], episode.next_observation[:-1])
        assert np.flatnonzero(episode.success).tolist() == [episode.length - 1] and episode.terminated[-1]
        assert episode.events.any(axis=0).all(), "the expert takes the key, opens the door and reaches the goal"
        assert episode.reward[-1] == np.float32(1 - 0.9 * episode.length / 250)


def test_demonstrations_are_made_once_and_again_to_the_same_bytes(three, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demonstrations, "make", None)
    assert demonstrations.obtain(THREE).digest == three.digest
    monkeypatch.undo()
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    progress: list[tuple[int, int]] = []
    assert demonstrations.obtain(THREE, lambda *at: progress.append(at)).digest == three.digest
    assert progress == [(1, 1), (2, 2), (3, 3)]


def test_another_task_count_version_or_space_is_kept_apart(monkeypatch) -> None:
    others = [DemonstrationSpec(THREE.name, SUITE, "6x6", 3), DemonstrationSpec(THREE.name, SUITE, "5x5", 4)]
    files = {demonstration_set.file for demonstration_set in (THREE, *others)}
    monkeypatch.setattr(MiniGridDoorKey, "version", 99)
    assert len({*files, THREE.file}) == 4
    monkeypatch.undo()
    actions = SUITE.spaces("5x5")[1]
    monkeypatch.setattr(MiniGridDoorKey, "spaces", lambda self, task: (Observations((2,), "float32"), actions))
    assert len({*files, THREE.file}) == 4


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_damaged_file_is_told_and_made_anew(three, monkeypatch, tmp_path: Path, suffix: str) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    demonstrations.obtain(THREE)
    file = THREE.file.with_suffix(suffix)
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    with pytest.warns(Notice, match="is damaged"):
        assert demonstrations.obtain(THREE).digest == three.digest
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert demonstrations.obtain(THREE).digest == three.digest


def test_a_demonstration_that_differs_when_replayed_is_refused_with_its_name_the_step_and_both_values(three) -> None:
    episode, task = three.episodes[1], SUITE.make("5x5")
    demonstrations.verify(episode, task, "demonstration 1")
    reward = episode.reward.copy()
    reward[4] = 0.5
    with pytest.raises(UserError, match=r"demonstration 1 fails .*reward\[0\] of step 4 is 0\.0 and was 0\.5"):
        demonstrations.verify(episode._replace(reward=reward), task, "demonstration 1")
    observations = episode.observation.copy()
    observations[2, 0, 0, 1] += 3
    was = observations[2, 0, 0, 1]
    with pytest.raises(UserError, match=rf"observation\[1\] of step 2 is {was - 3} and was {was}"):
        demonstrations.verify(episode._replace(observation=observations), task, "demonstration 1")


def test_a_demonstration_that_fails_or_goes_on_after_its_end_is_refused(three) -> None:
    episode, task = three.episodes[0], SUITE.make("5x5")
    failed = episode._replace(success=np.zeros_like(episode.success))
    check_refused(f"not end in success after its {episode.length} steps", demonstrations.verify, failed, task, "this")
    twice = episode._replace(**{name: np.concatenate([getattr(episode, name)] * 2) for name in demonstrations.ARRAYS})
    check_refused("its end is not where", demonstrations.verify, twice, task, "this")


class Clumsy(MiniGridDoorKey):
    """A suite whose solver solves every third layout."""

    def demonstrate(self, task, seed):
        return super().demonstrate(task, seed) if seed % 3 == 0 else None


class Restless(MiniGridDoorKey):
    """A suite whose solver succeeds and then goes on until the success is lost."""

    def demonstrate(self, task, seed):
        episode = super().demonstrate(task, seed)
        return episode._replace(success=np.roll(episode.success, -1))


class Hopeless(MiniGridDoorKey):
    def demonstrate(self, task, seed):
        return None


def test_attempts_that_fail_are_left_out_and_too_many_are_an_error() -> None:
    episodes = demonstrations.make(DemonstrationSpec("clumsy", Clumsy(), "5x5", 3))
    assert len(episodes) == 3 and all(episode.seed % 3 == 0 for episode in episodes)
    with pytest.raises(UserError, match="0 of 20 attempts to demonstrate hopeless/5x5 ended in success and 2 are"):
        demonstrations.make(DemonstrationSpec("hopeless", Hopeless(), "5x5", 2))
    with pytest.raises(UserError, match="0 of 10 attempts to demonstrate restless/5x5 ended in success and 1 are"):
        demonstrations.make(DemonstrationSpec("restless", Restless(), "5x5", 1))


class Swinging:
    """A task that is solved after steps 3 and 4 only; its snapshot is the number of steps so far."""

    max_steps = 6

    def reset(self, seed):
        self.steps = 0
        return np.zeros(1)

    def step(self, action):
        self.steps += 1
        return Step(np.zeros(1), 0.0, False, self.steps == self.ends, self.steps in (3, 4))

    def snapshot(self):
        return np.array([self.steps], np.uint8)


@pytest.mark.parametrize(("ends", "expected"), [(6, 3), (99, 3), (2, None)])
def test_a_goal_is_the_first_success_even_where_that_is_lost_again(ends: int, expected: int | None) -> None:
    task = Swinging()
    task.ends = ends
    goal = demonstrations.first_success(task, 0, lambda observation: 0)
    assert (None if goal is None else int(goal[0])) == expected
    assert task.steps == (expected or ends), "no step follows the success"


def cell(*overrides: str) -> config.Cell:
    (planned_cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "profile=smoke", *overrides]).cells
    return planned_cell


def test_how_many_there_are_is_part_of_a_cells_id() -> None:
    assert cell().settings["training.demonstrations"].value == 0
    assert len({cell().id, cell("training.demonstrations=3").id, cell("training.demonstrations=4").id}) == 3


def test_the_ring_has_room_for_them_beside_every_step() -> None:
    with_three = cell("training.demonstrations=3")
    assert loop_build.ring_slots(with_three) - loop_build.ring_slots(cell()) == 3 * SUITE.horizon("5x5")
    assert loop_build.ring_slots(cell("training.demonstrations=3", "training.capacity=500")) == 500 + 10_001


def read_column(run: Path, name: str, dtype: str, shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.fromfile(run / "replay" / f"{name}.bin", dtype).reshape(-1, *shape)


def test_every_method_and_seed_stores_the_same_ones_first_and_trains_as_many_steps(train, three) -> None:
    for method in ("uer", "aer"):
        study = train(f"method={method}", *SHORT, "seeds=[0,3]", packs=[(0, 3)], keep_replay=True)
        for run in study.glob("*/*/*/seed-*"):
            run_record = json.loads((run / "run.json").read_text())
            assert run_record["provenance"]["demonstrations"] == three.digest and run_record["step"] == 160
            first = slice(three.length)
            for name, dtype, shape in [("observation", "uint8", (5, 5, 3)), ("action", "int16", ()),
                                       ("reward", "float32", ()), ("terminated", "bool", ())]:  # fmt: skip
                expected = np.concatenate([getattr(episode, name) for episode in three.episodes])
                np.testing.assert_array_equal(read_column(run, name, dtype, shape)[first], expected)
            later = read_column(run, "observation", "uint8", (5, 5, 3))[three.length :]
            assert later[:160].any(axis=(1, 2, 3)).all() and not later[160:].any()


def test_clips_of_demonstrations_are_asked_about_at_step_0_as_those_of_the_agent_are_later(train, three) -> None:
    judged = ("method=vlm_rb", "judge=oracle", "judge.delay=64", "replay.clip_length=4")
    (run,) = train(*judged, *SHORT, "seeds=[0]", packs=[(0,)]).glob("*/*/*/seed-0")
    rows = log_rows(run, "judgements")
    first_rows = [row for row in rows if row["asked"] == 0]
    clips = [[min(4, e.length - start) for start in range(0, e.length, 4)] for e in three.episodes]
    assert [row["slots"] for row in first_rows] == [size for sizes in clips for size in sizes]
    assert {row["applied"] for row in first_rows} == {64} and sum(row["events"] for row in first_rows) == 9
    assert all((row["score"] > 0) == (row["events"] > 0) for row in first_rows)
    assert [row["ordinal"] for row in rows] == list(range(len(rows))) and len(rows) > len(first_rows)


def test_a_ring_that_comes_round_over_them_changes_no_byte_however_often_it_is_saved(train, monkeypatch) -> None:
    monkeypatch.setattr(loop_build, "SPACING", 20)
    settings = ("method=per", *SHORT, "training.capacity=80", "seeds=[0]")

    def policy(study: Path) -> bytes:
        return next(study.glob("*/*/*/seed-0/policy.safetensors")).read_bytes()

    uninterrupted = train(*settings, packs=[(0,)], checkpoint_every=1_000)
    directory = uninterrupted.with_name("interrupted")
    stop = (call == 117 for call in itertools.count(1)).__next__
    with pytest.raises(Stopped):
        train(*settings, packs=[(0,)], checkpoint_every=11, directory=directory, stop=stop)
    assert policy(train(*settings, packs=[(0,)], checkpoint_every=11, directory=directory)) == policy(uninterrupted)


def test_a_run_with_them_differs_from_one_without_in_what_it_learns_from_alone(train) -> None:
    """Layouts, seeds and exploration are the same: before the first gradient step both runs act alike."""
    few = (*SMALL, "training.steps=80", "learner.learning_starts=79", "evaluation.every=40")

    def first(study: Path) -> list[bytes]:
        import pyarrow.parquet as pq

        (path,) = study.glob("*/*/*/seed-0/evaluations.parquet")
        table = pq.read_table(path).drop_columns(["cell", "study"])
        return [str(row).encode() for row in table.to_pylist() if row["step"] == 40]

    without = train(*few, "method=uer", "seeds=[0]", packs=[(0,)])
    having = train(*few, "method=uer", "training.demonstrations=3", "seeds=[0]", packs=[(0,)])
    assert first(without) == first(having) != []


def bench(capsys, *words: str) -> tuple[int, str, str]:
    return (cli.main(words), *capsys.readouterr())


RUN = ("run", "suite=minigrid_doorkey", "profile=smoke", "method=uer", "seeds=1", "report=false")


def test_a_dry_run_says_what_will_be_made_and_makes_nothing(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path))
    code, out, _ = bench(capsys, *RUN, "training.demonstrations=2", "--dry-run")
    line = "2 demonstrations of minigrid_doorkey/5x5 are stored in each replay before training"
    assert code == 0 and f"{line}: made first" in out and not any(tmp_path.iterdir())
    demonstrations.obtain(DemonstrationSpec("minigrid_doorkey", SUITE, "5x5", 2))
    assert f"{line}: made already" in bench(capsys, *RUN, "training.demonstrations=2", "--dry-run")[1]
    dry_run = json.loads(bench(capsys, *RUN, "training.demonstrations=2", "--dry-run", "--json")[1])
    assert dry_run["demonstrations"] == [{"suite": "minigrid_doorkey", "task": "5x5", "count": 2, "made": True}]
    assert "demonstrations" not in bench(capsys, *RUN, "--dry-run")[1]


def test_a_capacity_smaller_than_they_are_is_refused_before_any_work(capsys, tmp_path: Path, three) -> None:
    small = three.length - 1
    words = (*RUN, "training.demonstrations=3", f"training.capacity={small}", "learner.batch_size=8")
    code, _, err = bench(capsys, *words, f"output={tmp_path / 's'}")
    assert code == 2 and f"training.capacity={small} is smaller than the 3 demonstrations" in err
    assert f"{three.length} transitions" in err and not list(tmp_path.glob("s/*.json"))


def test_a_suite_without_a_solver_is_refused_by_name(capsys) -> None:
    code, _, err = bench(capsys, "run", "suite=classic", "profile=smoke", "training.demonstrations=3", "--dry-run")
    assert code == 2 and "suite 'classic' has no solver that demonstrates" in err


def test_a_run_that_began_with_others_is_not_joined_to_these(capsys, tmp_path: Path) -> None:
    short = ("training.steps=80", "evaluation.every=40", "learner.learning_starts=40")
    words = (*RUN, *SMALL, *short, "training.demonstrations=1", f"output={tmp_path / 's'}")
    assert bench(capsys, *words)[0] == 0
    (file,) = tmp_path.glob("s/*/*/*/seed-0/run.json")
    content = json.loads(file.read_text())
    content["provenance"]["demonstrations"] = "f" * 64
    file.write_text(json.dumps(content))
    assert bench(capsys, *words)[0] == 0, "a finished run is left alone"
    code, _, err = bench(capsys, *(w if w != "seeds=1" else "seeds=2" for w in words))
    assert code == 2 and "seed 0 of" in err and "began with other demonstrations (ffffffffff)" in err


def test_the_command_makes_what_is_missing_and_verifies_what_is_kept(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GUIDEBENCH_CACHE", str(tmp_path / "cache"))
    words = ("demos", "suite=minigrid_doorkey", "task=5x5,6x6", "--count", "2")
    code, out, err = bench(capsys, *words)
    assert code == 0 and "minigrid_doorkey/5x5: 2 demonstrations" in out and "6x6: 2 of 2 after 2 attempts" in err
    code, out, err = bench(capsys, *words, "--json", "--output", str(tmp_path / "copy"))
    first, second = json.loads(out)
    assert code == 0 and err == "" and (first["task"], second["task"]) == ("5x5", "6x6")
    copied = demonstrations.read(tmp_path / "copy" / "minigrid_doorkey-5x5.json")
    assert copied is not None and copied.digest == first["sha256"]

    demonstration_set = DemonstrationSpec("minigrid_doorkey", SUITE, "5x5", 2)
    spoilt = copied.episodes[1]._replace(action=copied.episodes[1].action * 0)
    demonstrations.keep((copied.episodes[0], spoilt), demonstration_set)
    code, _, err = bench(capsys, *words)
    assert code == 2 and "demonstration 1 of minigrid_doorkey/5x5 in" in err and "of step" in err
    assert len(err.splitlines()) == 1
    code, _, err = bench(capsys, "demos", "suite=minigrid_doorkey", "--count", "0")
    assert code == 2 and "--count 0: at least 1" in err
