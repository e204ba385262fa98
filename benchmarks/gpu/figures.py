"""Figures of the steps of `python -m benchmarks.gpu`: their JSON, which is checked when it is read, and their table."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from guidebench.harness.errors import UserError
from guidebench.harness.records.files import write_bytes

SCHEMA = 1
State = Literal["done", "running", "failed", "cut off", "skipped", "waiting"]
"""`cut off`: the step's time was over before it ended; its rows up to then are kept. `skipped`: it cannot run here.
`waiting`: no time was left, or nobody has begun it."""


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str
    """The quantity that was measured, and the contender."""
    figure: float | None
    """The median over turns; None if it could not be measured, as `note` says."""
    unit: str
    lowest: float | None = None
    highest: float | None = None
    """Smallest and largest of the turns."""
    turns: int = 1
    seconds: float = 0.0
    """Measured time in all, without warm-up."""
    seeds: int | None = None
    """S, the seeds computed together."""
    batch: int | None = None
    """B: transitions per seed in an update, or clips in a batch."""
    dtype: str = "float32"
    beside: str = ""
    """The contender that had a turn in each of the same rounds."""
    ratio: float | None = None
    """The median over rounds of this speed divided by that of `beside`."""
    ratio_lowest: float | None = None
    ratio_highest: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Result:
    """Outcome of a step."""

    state: State = "waiting"
    reason: str = ""
    """Why it has not succeeded: one line, or the end of its error."""
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    limit: float = 0.0
    """Seconds that the step took, and that it was given."""
    measured_on: Mapping[str, Any] = field(default_factory=dict)
    """Machine, driver, versions, commit and load average."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Packages that the step imported, with their versions."""


def of_turns(label: str, unit: str, amounts: Sequence[float], seconds: Sequence[float], **more: Any) -> Row:
    """Return the row of a contender whose turns did `amounts` of work in `seconds`, one pair for each turn.

    >>> row = of_turns("DQN", "steps/s", [10, 10, 30], [1, 2, 1])
    >>> row.figure, row.lowest, row.highest, row.turns, row.seconds
    (10.0, 5.0, 30.0, 3, 4)
    """
    rates = [amount / taken for amount, taken in zip(amounts, seconds, strict=True)]
    return Row(
        label, statistics.median(rates), unit, min(rates), max(rates), len(rates), seconds=sum(seconds), **more
    )  # fmt: skip


def compared(row: Row, beside: str, speeds: Sequence[float], others_speeds: Sequence[float]) -> Row:
    """Return the row with the ratio of its `speeds` in each round to `others_speeds`, those of the contender
    `beside`."""
    ratios = sorted(speed / others_speed for speed, others_speed in zip(speeds, others_speeds, strict=True))
    return dataclasses.replace(
        row, beside=beside, ratio=statistics.median(ratios), ratio_lowest=ratios[0], ratio_highest=ratios[-1]
    )


def write(path: Path, command: Mapping[str, Any], results: Mapping[str, Result]) -> None:
    """Replace the JSON of all steps, and the table beside it, each at once."""
    content = {
        "schema": SCHEMA,
        "command": dict(command),
        "steps": {name: dataclasses.asdict(result) for name, result in results.items()},
    }
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    write_bytes(path.with_suffix(".md"), table(command, results).encode())


def read(path: Path, device: str) -> dict[str, Result]:
    """Return the results of an earlier call; {} if there is none. Raise UserError for another content, and for figures
    of another device."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r} instead of {SCHEMA}")
        before = content["command"]["device"]
        result_of_step = {str(name): _result(record) for name, record in content["steps"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path} is not what `python -m benchmarks.gpu` wrote ({error}); move it away, or name another --output"
        ) from None
    if before != device:
        raise UserError(f"{path} holds figures of --device {before!s:.20}, not {device}; name another --output")
    return result_of_step


def rows_of(records: Any) -> tuple[Row, ...]:
    """Return rows from JSON; raise ValueError or TypeError if they are none."""
    return tuple(_checked(Row, row) for row in records)


def _result(record: Any) -> Result:
    return dataclasses.replace(_checked(Result, {**record, "rows": ()}), rows=rows_of(record["rows"]))


def _checked(kind: Any, record: Any) -> Any:
    """Return a dataclass from JSON whose values have the types of its fields."""
    made = kind(**record)
    for name, field_type in get_type_hints(kind).items():
        value, allowed = getattr(made, name), _types(field_type)
        literal = field_type is State and value not in get_args(State)
        if literal or not isinstance(value, allowed) or isinstance(value, bool):
            raise ValueError(f"{name} = {value!r}")
    return made


def _types(field_type: Any) -> tuple[type, ...]:
    if field_type is State:
        return (str,)
    parts = get_args(field_type) if type(None) in get_args(field_type) else (field_type,)
    allowed = tuple(getattr(part, "__origin__", part) for part in parts)
    return (*allowed, int) if float in allowed else allowed


def table(command: Mapping[str, Any], results: Mapping[str, Result]) -> str:
    """Return all figures as a Markdown table, before it the machines, and after it the steps without figures."""
    machines = {_machine(result.measured_on): None for result in results.values() if result.measured_on}
    title = "Rehearsal on a CPU in small sizes; these figures say nothing of a GPU"
    lines = [
        f"# {title if command['rehearsal'] else 'Figures of one GPU'}",
        "",
        *(f"- {machine}" for machine in machines),
        "",
    ]
    lines += [
        "| step | what | figure (lowest to highest; turns, seconds) | S | B | dtype | beside | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        lines += [f"| {name} | {' | '.join(_cells(row))} |" for row in result.rows]
    lines += ["", "| step | state | seconds of | why |", "| --- | --- | --- | --- |"]
    for name, result in results.items():
        why = _cell(result.reason.strip().splitlines()[-1]) if result.reason.strip() else ""
        lines.append(f"| {name} | {result.state} | {result.seconds:.0f} of {result.limit:.0f} | {why} |")
    return "\n".join(lines) + "\n"


def line(row: Row) -> str:
    """Return a row in one line, for the screen."""
    label, figure, *_, beside, ratio = _cells(row)
    return f"{label}: {figure}" + (f"; {ratio} beside {beside}" if ratio else "")


def _cells(row: Row) -> list[str]:
    figure = "not measured" if row.figure is None else f"{number(row.figure)} {row.unit}"
    if row.lowest is not None and row.highest is not None and row.turns > 1:
        figure += f" ({number(row.lowest)} to {number(row.highest)}; {row.turns}, {row.seconds:.1f} s)"
    ratio = "" if row.ratio is None else f"{number(row.ratio)}"
    if row.ratio_lowest is not None and row.ratio_highest is not None:
        ratio += f" ({number(row.ratio_lowest)} to {number(row.ratio_highest)})"
    label = f"{row.what} [{row.note}]" if row.note else row.what
    counts = ["" if value is None else str(value) for value in (row.seeds, row.batch)]
    return [_cell(text) for text in (label, figure, *counts, row.dtype, row.beside, ratio)]


def number(value: float) -> str:
    """Return a figure with three digits.

    >>> number(12345.6), number(12.345), number(0.012345)
    ('12,346', '12.3', '0.0123')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _machine(measured_on: Mapping[str, Any]) -> str:
    hardware, packages = measured_on.get("hardware", {}), measured_on.get("packages", {})
    parts = [
        str(hardware.get("gpu") or "no GPU"),
        f"driver {measured_on.get('driver') or 'unknown'}",
        f"CUDA {measured_on.get('cuda') or 'none'}",
        f"torch {packages.get('torch', '?')}",
        f"Python {packages.get('python', '?')}",
        f"{hardware.get('cores')} cores of {hardware.get('processor')}",
        f"commit {str(measured_on.get('commit') or 'unknown')[:12]}{' (changed)' if measured_on.get('dirty') else ''}",
    ]
    return ", ".join(parts)
