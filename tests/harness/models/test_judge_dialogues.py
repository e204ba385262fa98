"""A judge that another part's dialogue asks: it gets no clips, needs no prompt, and may answer with arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Question
from guidebench.harness.loop import backends
from guidebench.harness.models.messages import Assignment
from guidebench.harness.models.process import ModelProcess
from guidebench.harness.models.questions import QuestionQueue
from guidebench.harness.plan import matrix

# The judge returns a frame's brightness and the prompt's length; the dialogue asks about each frame.
SOURCE = """
    from dataclasses import dataclass

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.interfaces import ArraySpec
    from guidebench.harness.models.calls import JudgeCall
    from guidebench.harness.parts import AskingPart, ModelPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register

    @register.judge("measuring")
    @dataclass(frozen=True)
    class Measuring(ModelPart):
        '''Reads prompts.'''
        version = 1
        backend = "scripted"
        citation = "% a test's own"
        delay: int = 2
        timeout: float = 20.0

        def spawn(self, suite, task):
            return Code()

    class Code:
        def judge(self, clip, prompt):
            return min(1.0, len(prompt) / 100 + float(clip.shape[0]) / 10)

    class EachFrame:
        calls = 9

        async def __call__(self, content, frames, ask):
            answers = [await ask(JudgeCall(frame[None], content["prompt"])) for frame in frames]
            return np.array([answer.value for answer in answers], np.float32)

    @register.guide("watching")
    @dataclass(frozen=True)
    class Watching(AskingPart):
        '''Asks a judge in words.'''
        version = 1
        citation = "% a test's own"
        needs = {"critic": "judge"}
        puts = {"critic": ("judge",)}
        shows_frames = True

        def spawn(self, build):
            return BaseGuide()

        def dialogue(self, suite, task, role):
            return EachFrame()

        def array(self, view, role):
            return ArraySpec("told")

    register.method("watched")(Method(summary="", guide="watching", roles={"critic": "measuring"}))
"""
SILENT = """
    from dataclasses import dataclass
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.registry import register

    @register.guide("wordless")
    @dataclass(frozen=True)
    class Wordless(AskingPart):
        '''Puts calls to a judge and has no dialogue.'''
        version = 1
        citation = "% a test's own"
        needs = {"critic": "judge"}
        puts = {"critic": ("judge",)}
"""
COMMAND = ("suite=minigrid_doorkey", "task=5x5", "method=watched", "profile=smoke")


@pytest.fixture
def watching_method(plugin: Any) -> None:
    plugin("watching_module", SOURCE, {"judge": "measuring", "guide": "watching", "method": "watched"})


def test_its_answers_are_the_arrays_that_the_dialogue_makes_and_it_reads_the_prompt(watching_method: None) -> None:
    (cell,) = matrix.plan(COMMAND).cells
    voice = backends._voice(cell, "critic")
    suite = backends.RegisteredPart("suite", "minigrid_doorkey")
    process = ModelProcess(Assignment(suite, "5x5", {"critic": voice}, {}), 20.0)
    try:
        asks = QuestionQueue(["cell/0"], 2, process, role="critic")
        task = cell.section("suite").make("5x5")
        task.reset(0)
        shots, keys = np.stack([task.snapshot()] * 3), np.arange(3)
        asks.submit(Question(0, keys, shots, np.zeros((3, 3), bool), '{"prompt": "Is it here?"}', "critic"), 0)
        ((_, _, answer),) = asks.due(2)
    finally:
        process.close()
    assert answer.value.dtype == np.float32 and answer.value.tolist() == pytest.approx([11 / 100 + 1 / 10] * 3)


def test_it_is_asked_for_no_clips_so_it_has_no_log_of_them_and_no_probe(watching_method: None) -> None:
    (dialogue_cell,) = matrix.plan(COMMAND).cells
    (clip_cell,) = matrix.plan(["suite=minigrid_doorkey", "task=5x5", "method=vlm_rb", "profile=smoke"]).cells
    assert "judgements" in clip_cell.logs and clip_cell.judge == "judge"
    assert "judgements" not in dialogue_cell.logs and dialogue_cell.judge == ""


def test_it_needs_no_prompt_of_its_own(watching_method: None) -> None:
    (cell,) = matrix.plan([*COMMAND, "critic=openai", "critic.prompt=''"]).cells
    assert cell.section("critic").prompt == ""
    with pytest.raises(UserError, match=r"it has no prompt there; .* judge\.prompt="):
        matrix.plan(["suite=minigrid_doorkey", "method=vlm_rb", "judge=openai", "judge.prompt=''"])


def test_a_part_that_puts_calls_to_a_judge_needs_a_dialogue(plugin: Any, tmp_path: Path) -> None:
    plugin("wordless_module", SILENT, {"guide": "wordless"})
    with pytest.warns(UserWarning, match="define `dialogue`"), pytest.raises(UserError, match="wordless"):
        registry.get("guide", "wordless")
