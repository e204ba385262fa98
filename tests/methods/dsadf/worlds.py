"""What the tests of the slow system share: a small world's actions and rules, and a model with canned replies."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from guidebench.harness.models.calls import Answer, Call

ACTIONS = (
    "do nothing", "move left", "move right", "chop tree", "mine stone", "attack cow", "eat cow", "place crafting table",
    "make wood pickaxe", "make stone sword", "find tree", "find stone",
)  # fmt: skip
HINT = """\
Trees give wood.
- chop tree: gives wood
- mine stone: needs wood pickaxe; gives stone
- place crafting table: uses 2 wood; gives crafting table
- make wood pickaxe: needs crafting table; uses 1 wood; gives wood pickaxe
- make stone sword: needs crafting table; uses 1 wood, 1 stone; gives stone sword"""
START = "you see grass and tree. you are targeting grass."


class Steps(NamedTuple):
    """Vocabulary of plans in the small world."""

    names: Sequence[str] = ACTIONS
    things: Sequence[str] = ()
    listed: Sequence[str] = ACTIONS


class CannedModel:
    """A model that answers with these replies in turn, fails where one is None, and records the messages it got."""

    def __init__(self, *replies: str | None) -> None:
        self.replies, self.heard = [*replies], list[tuple[Any, ...]]()

    async def __call__(self, call: Call) -> Answer:
        self.heard.append(tuple(call.messages))  # type: ignore[attr-defined]
        reply = self.replies.pop(0)
        return Answer(reply) if reply is not None else Answer(None, "timeout")


def last_text(messages: Sequence[Any]) -> str:
    """Return the text of the last message."""
    return str(messages[-1].content[0])


def inheriting(words: Sequence[str], elsewhere: str) -> list[str]:
    """Return words of a `dsadf` cell, rewritten as `dsadf_transfer` with a stage on another task if the cell evaluates
    a policy without training one."""
    if "agent.trains=false" not in words or "agent.router=model" in words:
        return [*words]
    stage = ("method=dsadf_transfer", f"pretraining.task={elsewhere}", "pretraining.agent.trains=true")
    return [*(word for word in words if word != "method=dsadf"), *stage]
