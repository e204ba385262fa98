"""Draft a prompt by which a model judges the clips of a suite.

  bench models prompt suite=classic task=CartPole-v1                              a request to paste into any chat model
  bench models prompt suite=classic judge=openai judge.model=gpt-4o --output cartpole.txt      or send it to a model
  bench run suite=classic method=vlm_rb judge=transformers judge.prompt=file:cartpole.txt      and use the draft

Without judge=, no model is called, and the request is printed: the suite's tasks, and other suites' prompts as
examples. With judge=, the model's draft is printed if it has the form that judging needs. Read it before using it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HELP = "draft a judging prompt for a suite"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "overrides", nargs="+", metavar="key=value", help="suite=, task=, judge= and settings of that judge"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to this new file instead of printing")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness.errors import UserError
    from guidebench.harness.plan import grammar, unknown_words

    given, words = grammar.single(args.overrides), ("suite", "task", "judge")
    if strange := next((key for key in given if key not in words and "." not in key), ""):
        raise unknown_words.key(strange, [given[strange]], words)
    suite, task = given.pop("suite", None), given.pop("task", None)
    if suite is None:
        raise UserError("no suite named; add suite=…")
    if given and "judge" not in given:
        raise UserError(f"{next(iter(given))}= is given without a model to call; add judge=…")
    if args.output is not None and args.output.exists():
        raise UserError(f"{args.output} exists already; name a new file with --output")
    text = _request(str(suite), None if task is None else str(task))
    if given:
        text = _draft(given, text)
    if args.output is None:
        print(text)
        return 0
    args.output.write_text(text + "\n", encoding="utf-8")
    print(f"{args.output} written" + (f"; read it, then use it: judge.prompt=file:{args.output}" if given else ""))
    return 0


def _request(name: str, task: str | None) -> str:
    from guidebench.harness import registry
    from guidebench.harness.models import prompts
    from guidebench.harness.plan import config

    suite: Any = registry.get("suite", name)
    if task is not None:
        config.task_of(name, task)
    tasks = {each: suite().make(each).instruction for each in ([task] if task is not None else suite.tasks)}
    examples = {}
    for other in registry.names("suite"):
        home = registry.get("suite", other)
        if other != name and (prompt := home.defaults.get("judge.transformers.prompt")):
            examples[home.title] = getattr(prompt, "value", prompt)
    return prompts.request(suite.title, tasks, examples)


def _draft(given: Mapping[str, Any], request: str) -> str:
    from guidebench.harness.errors import UserError
    from guidebench.harness.models import prompts, single_calls
    from guidebench.harness.models.calls import ChatCall, Failure, Message

    call = ChatCall((Message("user", (request,)),), schema=prompts.SCHEMA)
    reply = single_calls.ask(single_calls.judge(given), call)
    if isinstance(reply, Failure):
        raise UserError(f"judge={given['judge']} drafted no prompt ({reply.kind}): {reply}")
    draft = str(reply.value["prompt"]).strip()
    if reason := prompts.misfit(draft):
        raise UserError(
            f"judge={given['judge']} drafted a prompt that cannot be used: {reason}\nIt wrote: {draft[:500]!r}"
        )
    return draft
