"""Judging prompts: the form that each must have, and the request with which a chat model drafts one.

The idea of drafting prompts from a suite's name and tasks is VLM-RB's (app. C); the wording is ours.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

CLOSING = 'Reply with exactly "Answer: Yes" or "Answer: No".'
"""Last sentence of a judging prompt; the word after "Answer:" is scored."""
LONGEST = 4_000
"""Most characters of a drafted prompt; the model reads it with every clip."""
SCHEMA = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "the prompt asked for"}},
    "required": ["prompt"],
    "additionalProperties": False,
}
"""JSON schema of the answer of a model that drafts a prompt."""
_ENDS = re.compile(r"exactly\W{1,3}Answer: Yes\W{1,3}or\W{1,3}Answer: No\W{0,3}$")


def misfit(prompt: str) -> str:
    """Return why a text cannot serve as a judging prompt, or ""."""
    if not prompt.strip():
        return "it is empty"
    if len(prompt) > LONGEST:
        return f"it has {len(prompt):,} characters, more than {LONGEST:,}"
    if not all(character.isprintable() or character in "\n\t" for character in prompt):
        return "it holds characters that cannot be printed"
    if not _ENDS.search(prompt.rstrip()):
        return f"it does not end by asking for the form of the answer: {CLOSING}"
    return ""


def request(title: str, tasks: Mapping[str, str], examples: Mapping[str, str]) -> str:
    """Return the request to a chat model for a judging prompt for the suite `title`. `tasks`: the tasks' instructions
    by name; `examples`: prompts of other suites by title."""
    return META.strip().format(
        closing=CLOSING,
        examples="\n\n".join(f"For {name}:\n{textwrap.indent(prompt, '  ')}" for name, prompt in examples.items()),
        title=title,
        tasks="\n".join(
            f"- {', '.join(names)}: {instruction}" for instruction, names in _by_instruction(tasks).items()
        ),
    )


def _by_instruction(tasks: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    names_of: dict[str, list[str]] = {}
    for name, instruction in tasks.items():
        names_of.setdefault(" ".join(instruction.split()), []).append(name)
    return names_of


META = """\
A vision-language model will be shown short clips of a reinforcement-learning agent at work. Of every clip it says yes
or no: can it be seen in the clip that a goal is achieved, or that clear and competent progress is made towards one?
Write the prompt that it is given with each clip.

The prompt
- asks about what anyone could see in the frames: things touched, moved, opened, reached. It uses no rule, number or
  name that only the simulator knows;
- names the broad kinds of event to look for, where that helps;
- is one prompt for all the tasks below, so it says nothing that holds for one of them alone;
- asks one question about the clip as a whole, and counts an event wherever in the clip it happens;
- forbids guessing: where nothing of the kind can be seen, the answer is No;
- has at most five sentences, the last of which is, word for word:
  {closing}

Prompts that are in use elsewhere:

{examples}

The suite: {title}
Its tasks, and what the agent is told to do in them:
{tasks}

Write the prompt and nothing else: no heading, no quotation marks around it, no remarks.
"""
