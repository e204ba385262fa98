"""The suites that it is run on, as text and back: what their tasks show is told, compared and imagined."""

import asyncio
import json

import numpy as np
import pytest

from guidebench.baselines.preference.teaching import Pair
from guidebench.baselines.teachers.llm import Llm, Scripted
from guidebench.harness import registry
from guidebench.harness.interfaces import Array, Task
from guidebench.harness.models.calls import Answer, Call, ChatCall


def walk(task: Task, shape: tuple[int, ...], seed: int, length: int = 10) -> Array:
    """Return observations float32 [length, D] of an episode that repeats one action of that shape."""
    observation = task.reset(seed)
    action = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    observations = []
    for _ in range(length):
        observations.append(np.array(observation, np.float32))
        observation = task.step(action).observation
    return np.stack(observations)


@pytest.mark.parametrize(
    ("suite", "name"), [("metaworld_pbrl", "button-press"), ("metaworld_pbrl", "reach"), ("point_maze", "umaze")]
)
def test_an_imagined_segment_of_a_real_task_begins_as_the_preferred_and_ends_at_the_target(
    suite: str, name: str
) -> None:
    pytest.importorskip("metaworld")
    pytest.importorskip("gymnasium_robotics")
    home = registry.get("suite", suite)()
    task, settings = home.make(name), Llm()
    things = {thing.name: thing for thing in home.coordinates(name)}
    shape = home.spaces(name)[1].shape
    segments = np.stack([walk(task, shape, 1), walk(task, shape, 2)])
    chat, prompts = Scripted(error=0.0, first_bias=0.0, equal=0.0).spawn(home, name), []

    async def ask(call: Call) -> Answer:
        assert isinstance(call, ChatCall)
        prompts.append(str(call.messages[-1].content[0]))
        return Answer(chat(call.messages))

    content = {"segments": segments.tolist()}
    value = asyncio.run(settings.dialogue(home, name, "chat")(content, None, ask))
    verdict = settings.spawn(None).verdict(  # type: ignore[arg-type]
        Pair(0, 0, segments, np.zeros((2, 10))), json.loads(json.dumps(value))
    )
    assert verdict.outcome == "labelled" and verdict.imagined is not None and verdict.label is not None
    assert f"The task: {task.instruction}\n" in prompts[0] and all(f'"{thing}"' in prompts[0] for thing in things)
    assert np.array_equal(verdict.imagined[0], segments[int(verdict.label)][0])
    moving, target = (next(thing for thing in things.values() if thing.constant is still) for still in (False, True))
    ending = verdict.imagined[-1]
    assert np.allclose(ending[list(moving.entries)], ending[list(target.entries)], atol=1e-4)
