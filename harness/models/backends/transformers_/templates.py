"""Checks of a chat template, a program of the model's files, before any question is written by it.

transformers runs it in Jinja's sandbox, which offers no files and no attributes of Python's own and bounds neither time
nor memory. So it first writes small conversations in the separate process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guidebench.harness import reader_process
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel
from guidebench.harness.texts import one_line

SECONDS = 20.0
"""Time limit of the check (choice: a template takes milliseconds, and importing transformers some seconds)."""
LONGEST = 100_000
"""Most characters that a template may make of a conversation of two words (choice: beyond any system prompt)."""
CONTENTS: tuple[Any, ...] = ("Hi", [{"type": "text", "text": "Hi"}])
"""A message's content as templates for text and for images take it."""


def template_of(loaded: LoadedModel) -> str | None:
    """Return the chat template of a model, None for a base model."""
    return getattr(loaded.processor, "chat_template", None) or getattr(loaded.tokenizer, "chat_template", None)


def check(name: str, template: str, tokens: Mapping[str, Any]) -> None:
    """Raise UserError for the chat template of a model that writes no message, that takes too long or too much memory,
    or that writes far more than it was given. `tokens`: its special tokens."""
    description = f"model {name}: writing a message by its chat template"
    written = reader_process.call(description, SECONDS, _written, template, dict(tokens))
    if isinstance(written, str):
        raise UserError(f"the chat template of model {name} writes no message ({written}); restore the model's files")
    if written > LONGEST:
        raise UserError(
            f"the chat template of model {name} makes {written:,} characters of a message of two; at most {LONGEST:,} "
            f"are read: restore the model's files"
        )


def _written(template: str, tokens: Mapping[str, Any]) -> int | str:
    """Return the characters that a template makes of a message, or why it makes none. Call it in the separate
    process."""
    from transformers.utils.chat_template_utils import render_jinja_template

    problem = ""
    for content in CONTENTS:
        conversation = [{"role": "user", "content": content}]
        try:
            texts, _ = render_jinja_template(
                [conversation], chat_template=template, add_generation_prompt=True, **tokens
            )
        except Exception as error:  # a template may raise anything, and one for images fails on plain texts
            problem = problem or f"{type(error).__name__}: {one_line(str(error)[:200])}"
        else:
            return len(texts[0])
    return problem
