"""Show the progress, speed and remaining time of each run of a study, also while another process trains it."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guidebench.harness.errors import UserError, count
from guidebench.harness.texts import duration, one_line

if TYPE_CHECKING:
    from guidebench.harness.models.calls import Usage
    from guidebench.harness.models.spending import Account, Purpose
    from guidebench.harness.records.study import RunDirectory
    from guidebench.harness.run.pace import Standing

HELP = "show the progress of each run of a study"
BESIDES: Mapping[Purpose, str] = {"first calls": "before training", "probes": "for probes"}
"""Purpose of calls that answer no question of a run -> its words in the output."""
READING = 600.0
"""Seconds that reading the files of a study may take."""
SILENT = 30.0
"""Seconds without a message from a worker after which the table reports it as silent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="directory of the study, as `bench run` printed it")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import reader_process
    from guidebench.harness.run import queues

    queued, notes = queues.of(args.study)
    description = f"{args.study}: reading its state"
    print(reader_process.call(description, READING, state_text, args.study, queued, notes, args.json))
    return 0


def state_text(directory: Path, queued: Mapping[Path, str], notes: Sequence[str], as_json: bool) -> str:
    """Return the state of a study as the command prints it. Call it in the separate process. `queued`: run directory ->
    its state in a scheduler's queue; `notes`: lines that come first, except in JSON."""
    from guidebench.harness.models import spending, study_models
    from guidebench.harness.records.formatting import count_statuses, last_line
    from guidebench.harness.records.schema import LEDGER, QUESTIONS
    from guidebench.harness.records.study import StudyDirectory
    from guidebench.harness.run import pace

    study = StudyDirectory(directory)
    listed = study.read()
    accounts: dict[Account, Usage] = {}
    try:
        accounts = spending.spent(study_models.folder(directory))
    except UserError as error:
        notes = [*notes, f"what was billed is as of the last checkpoints: {error}"]
    rows = [
        _row(cell, record, study.run(cell["directory"], seed), queued, _billed(accounts, f"{id}/{seed}"))
        for id, cell in listed["cells"].items()
        for record in [_record(directory / cell["directory"])]
        for seed in cell["seeds"]
    ]
    others = {
        purpose: usage for purpose, usage in spending.by_purpose(accounts).items() if purpose != "runs" and usage.calls
    }
    standings = [_standing(row) for row in rows]
    if as_json:
        remaining = pace.seconds_left(standings)
        content = {
            "study": listed["study"],
            "steps_per_second": round(pace.rate(standings), 2),
            "seconds_left": None if remaining is None else round(remaining),
            "runs": rows,
            "billed_besides": {purpose: usage._asdict() for purpose, usage in others.items()},
        }
        return json.dumps(content, indent=1)
    lines = [f"note: {note}" for note in notes]
    lines.append(f"{listed['study']}: {count_statuses(row['status'] for row in rows)}")
    if any(standing.status != "finished" for standing in standings):
        lines.append(pace.ahead(standings))
    for cell, group in itertools.groupby(zip(rows, standings, strict=True), key=lambda pair: _name(pair[0])):
        lines.append(cell)
        for row, standing in group:
            lines.append(f"  {_line(row, standing)}")
            lines += [f"    {row['queued']}"] if row["queued"] else []
            lines += [f"    {one_line(last_line(str(row['error'])))}"] if row["error"] else []
    usages = [row["models"] for row in rows if row["models"]]
    total = {name: sum(models[name] for models in usages) for name in (*QUESTIONS, *LEDGER)}
    if accounts or any(total[name] for name in ("tokens_in", "usd", "failures")):  # all are 0 for a scripted judge
        besides = "".join(f", and {count(usage.calls, 'call')} {BESIDES[purpose]}" for purpose, usage in others.items())
        lines.append(
            f"models: {count(total['questions'], 'question')}, {total['failures']:,} of them without an answer; "
            f"{count(total['calls'], 'call')}, {total['tokens_in']:,} tokens in, {total['tokens_out']:,} out, "
            f"{count(total['images'], 'image')}, {total['usd']:.4f} USD; really billed "
            f"{count(total['billed_calls'], 'call')}, {total['billed_usd']:.4f} USD{besides}"
        )
    return "\n".join(lines)


def _billed(accounts: Mapping[Account, Usage], run: str) -> Usage | None:
    """Return the usage that was actually billed for a run's questions so far, by the study's cassette; None if the
    cassette holds nothing of the run."""
    mine = [usage for account, usage in accounts.items() if account.run == run and account.purpose == "runs"]
    return functools.reduce(type(mine[0]).plus, mine) if mine else None


def _row(
    cell: dict[str, Any],
    record: Mapping[str, Any],
    run_directory: RunDirectory,
    queued: Mapping[Path, str],
    billed: Usage | None,
) -> dict[str, Any]:
    """Return the status of a run: live values from its worker, else those of its last checkpoint. `record`: that of its
    cell; `queued`: run directory -> its state in a scheduler's queue; `billed`: usage actually billed for its
    questions, which a checkpoint cannot know."""
    from guidebench.harness.run.unanswered import last_row

    content = run_directory.read()
    status = content.get("status", "waiting")
    live = run_directory.live() if status == "running" else {}
    if status == "running" and not run_directory.held():
        status = "stopped"  # its worker was killed before it could record the stop
    spent = last_row(run_directory.path / "ledger.jsonl")
    step = live.get("step", content.get("step", 0))
    steps = content.get("steps") or _steps(record)
    standing = _standing({"status": status, "step": step, "steps": steps, "steps_per_second": live.get("rate")})
    return {
        "task": str(Path(cell["directory"]).parent),
        "method": Path(cell["directory"]).name.rsplit("-", 1)[0],
        "variant": cell.get("label_variant", ""),
        "seed": int(run_directory.home.name.removeprefix("seed-")),
        "status": status,
        "step": step,
        "steps": steps,
        "score": live.get("score", content.get("score")),
        "measure": _measure(record),
        "phase": live.get("phase", ""),
        "answers": live.get("answers"),
        "steps_per_second": live.get("rate"),
        "seconds_left": None if standing.seconds_left is None else round(standing.seconds_left),
        "seconds_silent": round(max(0.0, time.time() - live["time"]), 1) if "time" in live else None,
        "error": content.get("error"),
        "queued": queued.get(run_directory.home.absolute()),
        "models": _models(spent, billed),
    }


def _models(spent: Mapping[str, Any], billed: Usage | None) -> dict[str, Any] | None:
    """Return the columns of a run's ledger (`spent`), with the usage that was actually billed if that is known; None
    without either."""
    from guidebench.harness.records.schema import LEDGER, QUESTIONS

    if not spent and billed is None:
        return None
    billed_columns = {} if billed is None else {f"billed_{name}": value for name, value in billed._asdict().items()}
    return {name: spent.get(name, 0) for name in (*QUESTIONS, *LEDGER)} | billed_columns


def _steps(record: Mapping[str, Any]) -> int | None:
    """Return the steps of a run that has not begun, from its cell record."""
    steps = record.get("steps")
    return steps if isinstance(steps, int) else None


def _measure(record: Mapping[str, Any]) -> str:
    """Return the name of the score of a cell's runs."""
    from guidebench.harness.records.schema import score_of

    try:
        return score_of(record).name
    except UserError:
        return "score"


def _record(cell: Path) -> dict[str, Any]:
    """Return the record of the cell in a directory; empty if it does not exist yet or cannot be read."""
    from guidebench.harness import outside

    try:
        content = outside.read_document(cell / "cell.json")
    except UserError:
        return {}
    return content if isinstance(content, dict) else {}


def _standing(row: dict[str, Any]) -> Standing:
    from guidebench.harness.run.pace import Standing

    return Standing(
        row["status"],
        row["step"],
        row["steps"] or 0,
        row["steps_per_second"],
        row.get("score"),
        row.get("measure", "success"),
    )


def _name(row: dict[str, Any]) -> str:
    variant = f" ({row['variant']})" if row["variant"] else ""
    return f"{row['task']} {row['method']}{variant}"


def _line(row: dict[str, Any], standing: Standing) -> str:
    """Format a run as one line of at most 80 characters."""
    parts = [f"seed {row['seed']:<4} {row['status']:<8}"]
    parts += [f"{row['step']:>9,} of {row['steps']:,}"] if row["steps"] else []
    parts += [row["phase"]] if row["phase"] else []
    if answers := row["answers"]:
        parts += [count(answers["questions"] - answers["failures"], "answer")]
    parts += [standing.score_text] if standing.score_text else []
    parts += [f"{standing.rate:,.0f} steps/s"] if standing.rate else []
    parts += [f"{duration(standing.seconds_left)} left"] if standing.seconds_left is not None else []
    parts += [f"silent for {duration(silent)}"] if (silent := row["seconds_silent"] or 0) > SILENT else []
    return "  ".join(parts)
