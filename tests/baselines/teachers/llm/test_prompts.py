"""What the model is asked, with an object and without, and prompts of one's own."""

import re
from typing import Any

import pytest

from guidebench.baselines.conversing import filled, misfit
from guidebench.baselines.teachers.llm import Llm, prompts
from guidebench.harness.interfaces import Coordinates
from tests.baselines.teachers.llm.conversations import PUSH, REACH, Ask, pair, talk
from tests.cell_views import cell_view

MAZE = (Coordinates("ball", "the ball", (0, 1)), Coordinates("target", "the goal", (2, 3), constant=True))


class CoordinateSuite:
    """A suite whose observations contain these coordinates."""

    def __init__(self, *coordinates: Coordinates) -> None:
        self._coordinates = coordinates

    def coordinates(self, task: str) -> tuple[Coordinates, ...]:
        return self._coordinates


def test_both_trajectories_stand_in_the_prompt_with_four_decimals() -> None:
    ask = Ask("0")
    segments = pair()
    segments[0, 0, :3] = -0.00001, 0.123456, 1
    talk(segments, ask)
    text = ask.last_text(0)
    assert "press the button" in text and "4 consecutive steps" in text
    assert text.index("Trajectory 1:") < text.index('"tcp": [[0.0000, 0.1235, 1.0000], ') < text.index("Trajectory 2:")
    for thing in PUSH:
        assert f'- "{thing.name}": {thing.meaning}' in text and text.count(f'  "{thing.name}": [') == 2
    assert re.search(r'"target": \[\d\.\d{4}, \d\.\d{4}, \d\.\d{4}\]\n', text), "told once"
    assert "{" not in re.sub(r"\{\n.*?\n\}", "", text, flags=re.DOTALL), "every placeholder is filled in"


@pytest.mark.parametrize("coordinates", [PUSH, REACH], ids=["object", "no object"])
@pytest.mark.parametrize("shots", [0, 1])
def test_a_task_without_an_object_has_no_obj_in_any_prompt(coordinates: tuple[Coordinates, ...], shots: Any) -> None:
    ask = Ask("2", "1", "{}", "{}")
    talk(pair(coordinates=coordinates), ask, Llm(shots=shots), coordinates)
    label, _, imagine, _ = (ask.last_text(call) for call in range(4))
    mentions = [bool(re.search(r"\bobj\b", text)) for text in (label, imagine)]
    assert mentions == [coordinates is PUSH] * 2
    assert "tcp" in imagine and "target" in imagine and "4 steps" in imagine and "You preferred Trajectory 2" in imagine
    assert ("A good answer" in label) == bool(shots)


def test_the_prompt_that_asks_for_a_trajectory_gives_the_first_step_of_the_preferred_one() -> None:
    segments = pair()
    ask = Ask("2", "1", "{}", "{}")
    talk(segments, ask)
    x, y, z = segments[1, 0, :3]
    assert f'"tcp": [[{x:.4f}, {y:.4f}, {z:.4f}]],' in ask.last_text(2)


def test_a_plane_is_told_with_two_axes() -> None:
    assert prompts.meanings(MAZE) == (
        '- "ball": the ball, as [x, y] for each step;\n- "target": the goal, as [x, y], the same at all steps.'
    )
    assert "ball moves smoothly and without detour to target" in prompts.way(MAZE)


def test_a_prompt_of_ones_own_is_filled_in_once() -> None:
    prompt = "{goal}? {trajectory_1} or {trajectory_2}? {not a placeholder}"
    assert Llm(prompt=prompt).fits(cell_view({"suite": CoordinateSuite(*PUSH)}, "push")) == ""
    ask = Ask("0")
    talk(pair(), ask, Llm(prompt=prompt))
    assert ask.last_text(0).startswith("press the button? {\n") and ask.last_text(0).endswith("{not a placeholder}")
    assert filled("{goal} {steps}", {"goal": "{steps}", "steps": 3}) == "{steps} 3"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Llm(prompt="Which is better?"), r"teacher.prompt lacks \{trajectory_1\}, \{trajectory_2\} \(placeholders: "),
        (Llm(prompt="{trajectory_1} {trajectory_2} {aim}"), r"teacher.prompt holds \{aim\}, which nothing fills in"),
        (Llm(imagine_prompt="Go on from {start}."), r"teacher.imagine_prompt lacks \{steps\}"),
        (Llm(imagine_prompt="{start} {steps} {meanings}"), r"teacher.imagine_prompt holds \{meanings\}"),
        (Llm(prompt="{trajectory_1} {trajectory_2}", shots=1), r"teacher.shots=1 needs \{example\} in teacher.prompt"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_before_training(settings: Llm, says: str) -> None:
    assert re.match(says, settings.fits(cell_view({"suite": CoordinateSuite(*PUSH)}, "push")))


def test_a_teacher_that_keeps_nothing_is_refused() -> None:
    nothing = Llm(keep_sampled=False, augment="none")
    assert "nothing to learn from" in nothing.fits(cell_view({"suite": CoordinateSuite(*PUSH)}, "push"))


@pytest.mark.parametrize(
    "suite", [object(), CoordinateSuite(), CoordinateSuite(PUSH[2])], ids=["none", "empty", "nothing moves"]
)
def test_a_suite_whose_states_cannot_be_told_in_words_is_refused(suite: Any) -> None:
    assert "cannot be told in words" in Llm().fits(cell_view({"suite": suite}, "push"))


def test_a_task_without_an_object_is_fine() -> None:
    assert Llm(shots=1).fits(cell_view({"suite": CoordinateSuite(*REACH)}, "reach")) == ""


def test_our_own_prompts_hold_what_they_need_and_no_more() -> None:
    assert misfit(prompts.PROMPT, prompts.PROMPT_NEEDS, prompts.PROMPT_MAY) == ""
    assert misfit(prompts.IMAGINE_PROMPT, prompts.IMAGINE_NEEDS, prompts.IMAGINE_MAY) == ""
