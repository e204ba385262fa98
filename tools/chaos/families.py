"""The small studies that are disturbed: rows of the table of `tests/methods/contract.py`, one of each family."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.methods import contract
from tools.chaos.marker import SUITE

REACHED = "base_url={url} model=m attempts=8 in_flight=2"
"""Settings by which attempts last far longer than the loss of a server, since a question without an answer would change
the run."""


@dataclass(frozen=True)
class Family:
    """A kind of method, and the small study that represents it."""

    meaning: str
    row: str
    """Name of the row of the contract's table whose settings are the base."""
    words: str = ""
    """Further settings, which replace those of the row."""
    served: tuple[str, ...] = ()
    """Roles that a served model fills."""
    hosted: bool = False
    """Whether the workers share a model that runs here."""
    asks: bool = True
    """Whether a process beside the worker draws frames or answers questions."""
    hangs: bool = False
    """Whether its tasks can hang."""
    answers: Callable[[str, int], str] | None = None
    """Function from prompt and a number that follows from the request to the served model's answer; None for that of
    the row."""

    @property
    def templates(self) -> dict[str, str]:
        """Return setting -> value, with `{url}` in place of the server's address and `{NAME}` of a tiny model's
        directory."""
        words = [contract.METHODS[self.row].words, STUDY, self.words]
        words += [contract.settings(role, REACHED) for role in self.served]
        return {word.partition("=")[0]: word for word in " ".join(words).split()}

    @property
    def models(self) -> set[str]:
        """Return the tiny models that its settings name."""
        return {*re.findall(r"{([a-z_0-9]+)}", " ".join(self.templates.values()))} - {"url"}

    @property
    def steps(self) -> int:
        """Return the environment steps of a run."""
        return int(self.templates["training.steps"].partition("=")[2])

    def command(self, url: str, models: Mapping[str, Path]) -> list[str]:
        """Return the words of its `bench` command, without those for output and packing."""
        return ["run", *(word.format_map({"url": url, **models}) for word in self.templates.values())]

    def answer(self, body: Mapping[str, Any]) -> str:
        """Return the served model's answer to a request, which follows from the request alone."""
        content = body["messages"][0]["content"]
        prompt = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        draw = int(hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).hexdigest()[:8], 16)
        answers = self.answers or contract.METHODS[self.row].answers
        assert answers is not None
        return answers(prompt, draw)


def yes_or_no(prompt: str, draw: int) -> str:
    """Return a judge's answer to any prompt: yes if `draw` is odd, else no."""
    return f"Answer: {('no', 'yes')[draw % 2]}"


STUDY = "profile=smoke seeds=[0,1] checkpoint_every=8 report=false yes=true"
LONGER = "training.steps=240 evaluation.every=80"
FAMILIES: Mapping[str, Family] = {
    "learner": Family(
        "a learner alone, whose tasks can hang", "sac", f"suite={SUITE} {LONGER}", asks=False, hangs=True
    ),
    "served judge": Family(
        "a replay with a judge behind a server", "vlm_rb",
        "training.steps=120 evaluation.every=60 judge=openai judge.scoring=literal judge.delay=8",
        served=("judge",), answers=yes_or_no,
    ),
    "local judge": Family(
        "a replay with a judge that the workers share", "vlm_rb",
        "training.steps=120 evaluation.every=60 judge=transformers judge.model={qwen_vl} judge.dtype=float32",
        hosted=True,
    ),
    "frame rewards": Family("rewards of frames by an embedder that the workers share", "vlm_rm", hosted=True),
    "reward guide": Family("a reward guide with a chat that reads failures", "lagea"),
    "fields": Family("waypoints and fields on images, with offline data", "kagi",
        "training.steps=120 evaluation.every=60",
    ),
    "agent": Family("an agent with a planner and a performer", "dsadf"),
    "preferences": Family("a reward learnt from preferences of a served chat", "rl_sallm_f", served=("chat",)),
    "model as agent": Family("a served model that acts", "model_as_agent", served=("performer",)),
    "offline": Family(
        "a learner that begins from a dataset", "cal_ql",
        f"{LONGER} suite.steps=100 offline.noise=0 training.capacity=600", asks=False,
    ),
    "prior": Family("a chat's prior over actions, asked at each step", "linvit"),
    "plan": Family("motions that a model plans from images, without learning", "moka"),
    "stage": Family("a pre-training stage and the run that begins from it", "ellm"),
}  # fmt: skip
"""Name -> family; together they cover all kinds of state and of models that methods have."""
