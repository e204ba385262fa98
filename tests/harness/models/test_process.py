"""The model process answers in order, is restarted once after its death, and does not block training."""

import multiprocessing
import os
import select
import struct
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.companions import Channel
from guidebench.harness.errors import Stopped, UserError
from guidebench.harness.heartbeats import STOPPING, Pulse, Watch
from guidebench.harness.interfaces import Question
from guidebench.harness.models.calls import Answer, Ticket
from guidebench.harness.models.messages import Assignment, RegisteredPart, Served, Voice
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import Memory, QuestionQueue
from guidebench.harness.models.service import padded
from tests.harness.stopping import stop

# Scores a clip by its frames' mean (codes are drawn, so any number will do), and misbehaves on request.
SOURCE = """
    import os, time
    from dataclasses import dataclass
    from guidebench.harness.parts import ModelPart
    from guidebench.harness.registry import register

    @register.judge("odd")
    @dataclass(frozen=True)
    class Odd(ModelPart):
        '''A judge that misbehaves.'''
        version = 1
        backend = "scripted"
        behaviour: str = ""
        flag: str = ""
        delay: int = 4
        timeout: float = 20.0

        def spawn(self, suite, task):
            def score(clips):
                first = not os.path.exists(self.flag)
                if self.behaviour == "raise":
                    raise RuntimeError("cannot see")
                if self.behaviour == "die" or (self.behaviour == "die once" and first):
                    open(self.flag, "w").close()
                    os._exit(9)
                if self.behaviour == "hang once" and first:
                    open(self.flag, "w").close()
                    time.sleep(60)
                if self.behaviour == "on a GPU":
                    import sys, types
                    held = dict(memory_allocated=lambda: 2**31, max_memory_allocated=lambda: 3 * 2**30)
                    sys.modules["torch"] = types.SimpleNamespace(
                        cuda=types.SimpleNamespace(is_initialized=lambda: True, **held)
                    )
                if self.behaviour == "nonsense":
                    return [1.5]
                if self.behaviour == "slow":
                    time.sleep(0.1)
                return [float(len(clip)) / 100 for clip in clips]
            return score
"""


SUITE = RegisteredPart("suite", "minigrid_doorkey")


@pytest.fixture
def process(plugin, tmp_path: Path) -> Iterator[Callable[..., ModelProcess]]:
    """Return a function: `process("slow")` starts a process with a judge of this behaviour, until the test ends."""
    plugin("odd_module", SOURCE, {"judge": "odd"})
    processes: list[ModelProcess] = []

    def start(behaviour: str = "", **options: Any) -> ModelProcess:
        voice = Voice(RegisteredPart("judge", "odd", {"behaviour": behaviour, "flag": str(tmp_path / "flag")}))
        processes.append(ModelProcess(Assignment(SUITE, "5x5", {"judge": voice}, {}), 60.0, **options))
        return processes[-1]

    yield start
    for model_process in processes:
        model_process.close()


def clip(length: int) -> np.ndarray:
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    task = MiniGridDoorKey().make("5x5")
    task.reset(0)
    return np.stack([task.snapshot()] * length)


def question(row: int, key: list[int], length: int) -> Question:
    return Question(row, np.array(key), clip(length), np.zeros((length, 3), bool))


def ticket(number: int) -> Ticket:
    return Ticket("cell/0", number, 0, "judge")


def ask(judge: ModelProcess, number: int, length: int) -> None:
    judge.ask(ticket(number), question(0, [number], length))


def answer(judge: ModelProcess, number: int, length: int = 3) -> Any:
    ask(judge, number, length)
    return judge.take(ticket(number))[0].value


@pytest.mark.parametrize("behaviour", ["", "die once", "hang once"])
def test_every_clip_is_answered_though_the_process_dies_or_hangs_once(process, tmp_path, behaviour: str) -> None:
    judge = process(behaviour)

    def impatient() -> bool:
        """Let the process count as hung at once while it hangs; answers are still waited for without limit."""
        hangs = behaviour == "hang once" and (tmp_path / "flag").exists() and not judge.restarts
        judge._patience = 0.0 if hangs else 60.0
        return False

    for number in range(5):
        ask(judge, number, number + 1)
    answers = [judge.take(ticket(number), impatient)[0].value for number in range(5)]
    assert answers == [0.01, 0.02, 0.03, 0.04, 0.05] and judge.restarts == (0 if behaviour == "" else 1)


@pytest.mark.parametrize(("behaviour", "memory"), [("", (0, 0)), ("on a GPU", (2, 3))])
def test_a_process_tells_what_its_model_holds_of_a_gpu(process, behaviour: str, memory: tuple[float, float]) -> None:
    judge = process(behaviour)
    assert answer(judge, 0) == 0.03 and judge.memory == memory


def test_memory_is_the_least_and_the_most_of_what_was_told() -> None:
    assert Memory().with_(Memory(2.5, 4.0)).with_(Memory(2.0, 3.0)).with_(Memory()) == (2.0, 4.0)


def test_the_working_directory_is_not_searched_for_modules(process, tmp_path, monkeypatch) -> None:
    (tmp_path / "multiprocessing.py").write_text("raise SystemExit('the working directory was searched')")
    monkeypatch.chdir(tmp_path)
    assert answer(process(), 0) == 0.03


def test_a_process_killed_between_clips_is_started_again(process) -> None:
    judge = process()
    assert answer(judge, 0) == 0.03
    judge._process.kill()
    judge._process.wait()
    assert answer(judge, 1, 4) == 0.04 and judge.restarts == 1


def test_a_process_that_is_stopped_is_killed_named_and_started_again(process, capsys) -> None:
    judge = process(silent_after=1.5)
    assert answer(judge, 0) == 0.03
    stopped = judge.pid
    stop(stopped)
    assert answer(judge, 1, 4) == 0.04 and judge.restarts == 1 and not Path(f"/proc/{stopped}").exists()
    reason = "(gave no sign of life for 1.5 s and was killed: it is stopped (SIGSTOP)); restarted"
    assert f"process {stopped} of judge 'odd' ended {reason}" in capsys.readouterr().err


def test_a_worker_that_is_to_stop_waits_only_a_little_for_an_answer_and_for_calls_that_are_paid_for(
    process, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping: list[bool] = []
    judge = process("hang once", stop=lambda: bool(stopping))
    ask(judge, 0, 3)
    stopping.append(True)
    began = time.monotonic()
    with pytest.raises(Stopped):
        judge.take(ticket(0))
    monkeypatch.setattr("guidebench.harness.models.process.HURRIED", -1.5)  # nothing is paid for here
    judge.close()
    assert time.monotonic() - began < STOPPING and judge.pid is None


def test_a_process_killed_while_it_answers_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large answer takes several writes, and only the first of them has arrived."""
    judge = ModelProcess(Assignment(SUITE, "5x5", {"judge": Voice(RegisteredPart("judge", "sprite"))}), 20.0)
    message = bytes(ForkingPickler.dumps(Served(ticket(0), Answer(np.zeros(1_000)))))
    writes = [struct.pack("!i", len(message)) + message[:500], struct.pack("!i", len(message)) + message]

    def start() -> None:
        near_end, far_end = multiprocessing.Pipe()
        judge._connection, judge._watch = Channel(near_end), Watch(os.getpid(), Pulse())
        judge._arrivals = select.poll()
        judge._arrivals.register(judge._connection.fileno(), select.POLLIN)
        os.write(far_end.fileno(), writes.pop(0))
        keep.append(far_end)

    keep: list[Connection] = []
    monkeypatch.setattr(judge, "_start", start)
    ask(judge, 0, 3)
    keep[0].recv()  # closing a pipe with unread data would raise another error
    keep[0].close()
    assert judge.take(ticket(0))[0].value.shape == (1_000,) and judge.restarts == 1


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [("die", "ended 2 times without an answer"), ("raise", "cannot see"), ("nonsense", r"P\(yes\) lies in")],
)
def test_a_clip_that_cannot_be_judged_is_an_error_that_says_why(process, behaviour: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        answer(process(behaviour), 0)


def test_an_answer_counts_from_its_delay_on_however_slow_the_judge(process) -> None:
    asks = QuestionQueue(["cell/0", "cell/1"], delay=4, backend=process("slow"))
    asks.submit(question(0, [7], 5), step=10)
    asks.submit(question(1, [8], 6), step=11)
    assert [list(asks.due(step)) for step in (11, 12, 13)] == [[], [], []]
    ((early, clip_question, score),) = asks.due(14)
    assert (clip_question.row, clip_question.key.tolist(), score.value, early.step) == (0, [7], 0.05, 10)
    assert asks.waited > 0.0 and asks.in_flight == 1
    ((late, _, score),) = asks.due(15)
    assert (late.run, score.value) == ("cell/1", 0.06)


def test_without_a_delay_an_answer_counts_once_it_is_there(process) -> None:
    judge = process("slow")
    asks = QuestionQueue(["cell/0"], delay=None, backend=judge)
    asks.submit(question(0, [7], 5), step=10)
    assert list(asks.due(10)) == []
    judge.wait(Ticket("cell/0", 0, 10, "judge"))
    assert [score.value for *_, score in asks.due(11)] == [0.05]


def test_questions_in_flight_are_asked_again_after_a_restart(process) -> None:
    asks = QuestionQueue(["cell/0"], delay=4, backend=process())
    asks.submit(question(0, [1, 2], 2), step=5)
    asks.submit(question(0, [3], 3), step=6)
    resumed = QuestionQueue(["cell/0"], delay=4, backend=process())
    resumed.load_state(0, asks.state(0))
    assert [score.value for *_, score in resumed.due(9)] == [0.02]
    assert [(late.ordinal, score.value) for late, _, score in resumed.due(10)] == [(1, 0.03)]


@pytest.mark.parametrize(("drawing", "score"), [({}, 1.0), ({"perturbation": "sprite_swap", "tile_size": 8}, 0.0)])
def test_the_judge_sees_frames_as_the_cell_has_them_drawn(drawing: dict, score: float) -> None:
    from guidebench.suites.minigrid_doorkey import MiniGridDoorKey

    task = MiniGridDoorKey().make("5x5")
    task.reset(0)
    shots = [task.snapshot()]
    while not task.events().any():  # until the key is taken
        task.step(task.expert())
        shots.append(task.snapshot())
    judge = ModelProcess(Assignment(SUITE, "5x5", {"judge": Voice(RegisteredPart("judge", "sprite"))}, drawing), 20.0)
    try:
        judge.ask(ticket(0), Question(0, np.arange(len(shots)), np.stack(shots), np.zeros((len(shots), 3), bool)))
        assert judge.take(ticket(0))[0].value == score
    finally:
        judge.close()


def test_a_short_clip_repeats_its_first_frame_on_the_left() -> None:
    frames = np.array([[1], [2]], np.uint8)
    assert padded(frames, 4).ravel().tolist() == [1, 1, 1, 2] and padded(frames, 2).ravel().tolist() == [1, 2]
