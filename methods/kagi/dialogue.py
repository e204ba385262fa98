"""The conversation in which a model chooses waypoints for one episode (KAGI, §III-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guidebench.baselines.conversing import ObjectDialogue, converse, unlike
from guidebench.harness.interfaces import Array
from guidebench.harness.models.calls import AskModel
from guidebench.methods.kagi import prompts, questions, reading
from guidebench.methods.kagi.blocks import Grid
from guidebench.methods.kagi.questions import Candidates


class WaypointDialogue(ObjectDialogue):
    """A dialogue that shows a model the annotated views of an episode's first state and asks for points and a path
    until a reply is valid, at most 1 + `retries` times."""

    def __init__(self, retries: int) -> None:
        """`retries`: further attempts after an invalid reply."""
        self._retries = retries
        self.calls = 1 + retries

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        points = [[0.5, 0.5]] * questions.POINTS
        return (prompts.schema(Grid(questions.LARGEST), Candidates(points, points), listed=True),)

    async def __call__(self, content: Any, frames: Array | None, ask: AskModel) -> dict[str, Any] | None:
        """Return the model's answer (`questions.answer`) to a question (`WaypointQuestion.content`); None if no reply
        was valid or a call was not answered.

        `frames`: uint8 [1, size, 2 * size, 3], the view from above at the left and the view from the side at the
        right. UserError for other frames, ValueError for other contents."""
        assert frames is not None and len(frames) == 1, "an episode's first state is shown"
        question = questions.read(content)

        def read(reply: str) -> dict[str, Any]:
            return reading.selected(reply, question.grid, question.candidates)

        message = prompts.message(question, frames[0])
        schema = prompts.schema(question.grid, question.candidates, listed=True) if self.by_schema else None
        outcome = await converse(ask, (message,), read, prompts.reminder, self._retries, schema=schema)
        return None if outcome.value is None else outcome.value | {"retries": outcome.retries}

    def misfit(self, content: Any, frames: int, answer: Any) -> str:
        """Return why an answer to another question cannot answer this one, or "": it selects a point that this question
        does not have, or its waypoints are of other views."""
        question = questions.read(content)
        grasp, target = (
            {"type": "integer", "minimum": 1, "maximum": len(points)} for points in question.candidates
        )  # fmt: skip
        length = 2 + question.grid.heights
        waypoint = {"type": "array", "items": {"type": "number"}, "minItems": length, "maxItems": length}
        fields = {"grasp": grasp, "target": target, "waypoints": {"type": "array", "items": waypoint, "minItems": 1},
                  "blocks": {"type": "array"}, "retries": {"type": "integer"}}  # fmt: skip
        return unlike(answer, {"type": "object", "properties": fields})
