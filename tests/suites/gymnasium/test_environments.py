"""Any environment as a task: its words, spaces, score, state and frames, and what is refused."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness import consent
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Actions, Observations, Score
from guidebench.harness.plan import matrix
from guidebench.harness.plan.config import Cell
from guidebench.suites.gymnasium import process
from tests.refusals import check_refused

Planned = Callable[..., Cell]


def made(cell: Cell) -> Any:
    return cell.section("suite").make(cell.names.task)


def play(task: Any, actions: Sequence[int], seed: int | None = None) -> list[Any]:
    task.reset(seed)
    return [task.step(action) for action in actions]


def options(**faults: str) -> str:
    return f"suite.options={json.dumps(faults)}"


def test_a_strangers_environment_has_its_own_spaces_limit_score_and_identity(planned: Planned, stranger: Path) -> None:
    cell = planned("suite.episodes=auto")
    suite, task = cell.section("suite"), cell.names.task
    assert suite.spaces(task) == (Observations((2,), "float32"), Actions(3))
    assert (suite.horizon(task), cell.score, cell.learner) == (30, Score("return"), "dqn")
    assert cell.directory == f"gymnasium/Strange_Walk-v0/uer-{cell.id}"
    assert suite.episodes == "reproducible" and suite.frame == [8, 24, 3]
    same = planned("suite.options={ }", "suite.step_limit=50")
    assert same.id == cell.id, "neither the spelling of options nor a limit of time is part of the identity"
    assert planned(options(fault="print")).id != cell.id
    assert planned("suite.range=[0,1]").score == Score("return", low=0.0, high=1.0)


def test_an_episode_is_gymnasiums_own_with_actions_from_0_and_ends_at_its_limit(planned: Planned) -> None:
    task = made(planned("suite.wrappers=[strange_walk:Doubled]", "suite.max_steps=12"))
    steps = play(task, [2] * 12, seed=3)
    end = next((number for number, step in enumerate(steps) if step.terminated), None)
    assert end is not None and [step.reward for step in steps[: end + 1]] == [0.0] * end + [2.0]
    assert [step.truncated for step in play(task, [1] * 12)].index(True) == 11
    assert play(task, [2], 3)[0].observation.tolist() == steps[0].observation.tolist(), "the same seed, the same start"
    assert play(task, [2])[0].observation.tolist() != steps[0].observation.tolist(), "the stream goes on"


@pytest.mark.parametrize(
    ("words", "successes"),
    [
        ((), [False, False, False]),
        (("suite.success=terminated",), [False, True, True]),
        (("suite.success=info", "suite.success_key=reached"), [False, True, True]),
        (("suite.success=reward", "suite.threshold=.5"), [False, True, True]),
        (("suite.success=return", "suite.threshold=1.5"), [False, False, True]),
        (("suite.success=reward", "suite.threshold=1", "suite.success_when=last"), [False, False, False]),
        (("suite.success=not_terminated", "suite.max_steps=3"), [False, False, False]),
    ],
)
def test_success_is_what_the_command_says(planned: Planned, words: tuple[str, ...], successes: list[bool]) -> None:
    task = made(planned(*words))
    task.reset(1)
    first = {"reward": 0.0, "info": 0.0, "terminated": False, "truncated": False}
    goal = {"reward": 1.0, "info": 1.0, "terminated": True, "truncated": False}
    answers = [first, goal, goal]
    task._environment.step = lambda action: (answers.pop(0), np.zeros(2))
    successes_so_far = [task.step(0).success for _ in range(3)]
    assert successes_so_far == successes


def test_a_state_continues_in_another_task_and_a_copy_draws_its_frames(planned: Planned) -> None:
    cell = planned()
    task, other = made(cell), made(cell)
    play(task, [2, 1, 0, 2], seed=5)
    snapshot, state = task.snapshot(), task.state()
    other.load_state(state)
    assert snapshot.shape == (16 + 30,) and other.snapshot().tolist() == snapshot.tolist()
    following = [[step.observation.tolist() for step in (task_.step(2), task_.step(1))] for task_ in (task, other)]
    assert following[0] == following[1]
    assert task.reset().tolist() == other.reset().tolist(), "the stream of seeds continues too"
    draw = cell.section("suite").drawing().spawn(cell.names.task)
    later = task.snapshot()
    frames = draw(np.stack([snapshot, later, snapshot]))
    assert frames.shape == (3, 8, 24, 3) and (frames[0] == frames[2]).all() and (frames[0] != frames[1]).any()


def test_entries_of_a_dict_are_joined_to_a_vector_or_kept_as_parts(planned: Planned) -> None:
    joined = planned(options(fault="dict"), "suite.keys=[place,goal]")
    assert joined.section("suite").spaces("") == (Observations((4,), "float32"), Actions(3))
    assert made(joined).reset(1)[2:].tolist() == [1.0, 1.0]
    parts = planned(options(fault="dict"), "suite.keys=[place,code]")
    observation = made(parts).reset(1)
    assert observation["code"].tolist() == [2] and observation["place"].shape == (2,)
    assert parts.section("suite").spaces("")[0].parts["code"].categories == (4,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("task=Strange/Wolk-v0",), r"task=Strange/Wolk-v0: .*did you mean Strange/Walk-v0"),
        (("task=Strange/Endless-v0",), r"nothing limits its episodes; add suite.max_steps=N"),
        (("suite.module=strange_wolk",), r"suite.module=strange_wolk: No module named"),
        (("suite.wrappers=[strange_walk:Tripled]",), r"suite.wrappers=strange_walk:Tripled: .*write MODULE:NAME"),
        (("suite.entry=strange_walk",), r"suite.entry=strange_walk: expected MODULE:NAME"),
        (("suite.options={fault:1}",), "suite.options"),
        (('suite.options={"speed": 3}',), r"unexpected keyword argument 'speed'"),
        (('suite.options={"fault": "dict"}',), r"name entries with suite.keys=\["),
        (('suite.options={"fault": "dict"}', "suite.keys=[plaice]"), r"suite.keys has 'plaice'.*place"),
        (("suite.keys=[place]",), r"suite.keys=place is given, and observations are Box"),
        (('suite.options={"fault": "text"}',), r"the observation is Text.*write a wrapper"),
        (('suite.options={"fault": "unbounded"}',), r"actions are a Box without bounds"),
        (('suite.options={"fault": "frameless"}', "method=vlm_rm"), r"draws none.*without rgb_array"),
        (("method=vlm_rm", "suite.frame_budget=1000"), r"more than suite.frame_budget=1000"),
        (("suite.success=info",), r"suite.success=info takes suite.success_key=KEY"),
        (("suite.success=return",), r"needs suite.threshold=X"),
        (("suite.threshold=1",), r"needs suite.success=info, reward or return"),
        (("suite.range=[1,0]",), r"expected \[low,high\]"),
        (("suite.python=/no/such/python",), r"suite.python=/no/such/python cannot be started"),
        (("task='a b'",), "unknown task"),
    ],
)
def test_bad_words_are_refused_while_they_are_planned(planned: Planned, words: tuple[str, ...], message: str) -> None:
    check_refused(message, planned, *words)


def test_a_run_needs_its_length_and_a_task(stranger: Path) -> None:
    check_refused("training.steps has no default", matrix.plan, ["suite=gymnasium", "task=Acrobot-v1"])
    check_refused("name one with task=", matrix.plan, ["suite=gymnasium"])


@pytest.mark.parametrize(
    ("fault", "words", "message"),
    [
        ("nan", (), r"step after step 1 of the episode with seed \d+: the reward is nan"),
        ("outside", (), r"the observation holds .* outside its space \[-99.0, 99.0\]"),
        ("raise", (), r"step raises ValueError: a wheel is lost \(__init__.py:\d+\)"),
        ("", ("suite.success=info", "suite.success_key=done"), r"info has no such entry; it holds reached, words"),
        ("", ("suite.success=info", "suite.success_key=words"), r"info holds none, which is no number"),
        ("sleep", ("suite.reset_limit=8",), r"cannot be made, since it takes longer than 8 s"),
        ("hold", ("suite.step_limit=1",), r"step after step 1 .*longer than 1 s; when the episode was played again"),
        ("abort", (), r"step after step 1 .*ended with signal 6; when the episode was played again"),
        ("memory", (), r"takes .* GiB of memory"),
        ("spaces", (), r"its spaces have changed"),
    ],
)
def test_what_an_environment_does_wrong_ends_its_run_with_call_seed_and_step(
    planned: Planned, fault: str, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MEMORY", 2**29)

    def run() -> None:
        cell = planned(options(fault=fault), *words)
        tasks = [made(cell) for _ in range(3)]
        for task in tasks:
            play(task, [1] * 4, seed=2)

    check_refused(message, run)


def test_a_process_that_dies_once_changes_nothing_and_text_on_standard_output_is_no_answer(
    planned: Planned, tmp_path: Path
) -> None:
    usual = play(made(planned(options(fault="print"))), [2, 1, 0], seed=4)
    task = made(planned(options(fault=f"once {tmp_path / 'died'}")))
    steps = play(task, [2, 1, 0], seed=4)
    assert (tmp_path / "died").exists()
    assert [step.observation.tolist() for step in steps] == [step.observation.tolist() for step in usual]


def test_an_environment_that_is_not_reproducible_says_so_and_goes_on_with_a_new_episode(planned: Planned) -> None:
    cell = planned(options(fault="random"), "suite.episodes=auto")
    assert "suite.episodes=not reproducible" in cell.variant
    task, other = made(cell), made(cell)
    play(task, [1, 1], seed=2)
    assert task.snapshot().shape == (8 * 24 * 3,), "the frame itself"
    frames = cell.section("suite").drawing().spawn(cell.names.task)(task.snapshot()[None])
    assert frames.shape == (1, 8, 24, 3)
    other.load_state(task.state())
    step = other.step(1)
    assert (step.reward, step.terminated, step.truncated) == (0.0, False, True)
    assert other.step(1).truncated and other.reset() is not None and not other.step(1).truncated


@pytest.mark.parametrize("word", ["suite.module=strange_walk", "suite.wrappers=[strange_walk:Doubled]"])
def test_code_runs_only_if_this_command_names_it(planned: Planned, word: str) -> None:
    cell = planned(word)
    name, _, code = word.partition("=")
    consent.grant([f"{name}=strange", *(["suite.module=strange_walk"] if "wrappers" in name else [])])
    check_refused(f"{name}={code.strip('[]')} names code to run", made, cell)
    with pytest.raises(UserError, match="names code to run"):
        matrix.plan(["suite=gymnasium", "task=Strange/Walk-v0", "training.steps=600", "evaluation.every=99", word])
    consent.grant(["suite.module=strange_walk", word])
    made(cell).reset(1)
