"""Fields of configuration dataclasses: their type, bounds, unit, meaning and source, and how a value is checked.

A registered dataclass documents a field by the string under it. A last parenthesis in that string is the source
(paper and table); `Annotated` carries bounds and unit:

    batch_size: Annotated[int, Bounds(1), Unit("transitions")] = 128
    \"\"\"Transitions per gradient step (VLM-RB, table 3).\"\"\"
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import re
import textwrap
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from guidebench.harness.errors import UserError, unknown


class Bounds(NamedTuple):
    """Closed interval that a number must lie in; None leaves a side open."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any number"
        if self.high is None:
            return f"at least {self.low:g}"
        if self.low is None:
            return f"at most {self.high:g}"
        return f"in [{self.low:g}, {self.high:g}]"


class Unit(NamedTuple):
    """What a number counts or measures."""

    name: str


class Transport:
    """Marks a field that decides how something is reached and never what comes of it: it is no part of a cell's id."""


class Variable:
    """Marks a field that names an environment variable. Anything else is refused and not repeated in the message, since
    it may be the key that the variable was to hold."""


VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class Text:
    """Marks a field of text, which the command line may name by a file: `judge.prompt=file:PATH`."""


LONGEST_TEXT = 65_536
"""Bytes of a file that stands for a text."""


class Cited(NamedTuple):
    """A default together with where it comes from, for tables of overrides."""

    value: Any
    source: str


def cite(value: Any, source: str) -> Cited:
    """A value with its source, as `bench show` prints them: `cite(0.95, "VLM-RB, table 3")`."""
    return Cited(value, source)


def cited(prefix: str, source: str, **values: Any) -> dict[str, Cited]:
    """A layer of settings from one source: `cited("learner.sac", "table 2", utd=1)` sets `learner.sac.utd`."""
    return {f"{prefix}.{name}": cite(value, source) for name, value in values.items()}


class Field(NamedTuple):
    """One field of a configuration dataclass, as `bench show` and the checks need it."""

    name: str
    type: Any
    default: Any
    bounds: Bounds
    unit: str
    meaning: str
    source: str
    transport: bool = False
    text: bool = False
    variable: bool = False


@functools.cache
def fields(config: type) -> Mapping[str, Field]:
    """The fields of a configuration dataclass by name, in order of definition; those that are `Transport` last."""
    hints = typing.get_type_hints(config, include_extras=True)
    documents = _documents(config)
    result = {}
    for entry in dataclasses.fields(config):
        annotation: Any = hints[entry.name]
        extras: tuple[Any, ...] = ()
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *rest = typing.get_args(annotation)
            extras = tuple(rest)
        meaning = documents.get(entry.name, "")
        cited = re.search(r"\s*\(([^()]+(?:\([^()]*\)[^()]*)*)\)\.?$", meaning)
        result[entry.name] = Field(
            name=entry.name,
            type=annotation,
            default=entry.default,
            bounds=next((e for e in extras if isinstance(e, Bounds)), Bounds()),
            unit=next((e.name for e in extras if isinstance(e, Unit)), ""),
            meaning=(meaning[: cited.start()] if cited else meaning).rstrip("."),
            source=cited.group(1) if cited else "",
            transport=Transport in extras,
            text=Text in extras,
            variable=Variable in extras,
        )
    return dict(sorted(result.items(), key=lambda item: item[1].transport))


def identity(config: Any) -> dict[str, Any]:
    """Name -> value of the fields of a configuration that can change what comes of it."""
    kind: type = type(config)
    return {name: getattr(config, name) for name, field in fields(kind).items() if not field.transport}


def _documents(config: type) -> dict[str, str]:
    """The string literal under each field, base classes first."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for statement, following in itertools.pairwise(body):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                found[statement.target.id] = " ".join(following.value.value.split())
    return found


def given(field: Field, value: Any, where: str) -> Any:
    """A value of the command line as the field's type: `check`, and `file:PATH` stands for the text in that file where
    the field takes one. What is stored or built is never read again: the text itself is the value from here on."""
    if field.text and isinstance(value, str) and value.startswith("file:"):
        value = _read(Path(value.removeprefix("file:")).expanduser(), f"{where}={value}")
    return check(field, value, where)


def _read(path: Path, where: str) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST_TEXT + 1)
    except OSError as error:
        raise UserError(f"{where}: {path} cannot be read ({error.strerror}); name a file of plain text") from None
    if len(content) > LONGEST_TEXT:
        raise UserError(f"{where}: {path} is longer than {LONGEST_TEXT:,} bytes; name a file with the text alone")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: {path} is not text in UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text:
        raise UserError(f"{where}: {path} is empty; write the text into it")
    return text


def check(field: Field, value: Any, where: str) -> Any:
    """`value` as the field's type, or a UserError that names `where`, the value and what fits."""
    try:
        typed = _coerce(field.type, value)
    except (ValueError, OverflowError):  # a whole number beyond all floats
        raise UserError(f"{where}={show(value)}: expected {describe(field)}") from None
    if field.variable and not VARIABLE.fullmatch(typed):
        raise UserError(
            f"{where} takes the name of an environment variable, in capital letters, digits and underscores, and what "
            f"was given is none (it is not repeated here, since it may be a key); export the key as a variable such as "
            f"{field.default}, and name that"
        )
    numbers = typed if isinstance(typed, tuple) else (typed,)
    for number in numbers:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            low, high = field.bounds
            outside = (low is not None and number < low) or (high is not None and number > high)
            if outside or (isinstance(number, float) and not math.isfinite(number)):
                raise UserError(f"{where}={show(value)}: expected {describe(field)}")
    return typed


def describe(field: Field) -> str:
    """The values a field takes, in words."""
    bounds = "" if field.bounds == Bounds() else f" {field.bounds}"
    return f"{type_name(field.type)}{bounds}{f' ({field.unit})' if field.unit else ''}"


def type_name(annotation: Any) -> str:
    """A field's type in words: `float`, `one of 'small', 'maximum'`, `int or null`."""
    if annotation is type(None):
        return "null"
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(option) for option in typing.get_args(annotation))
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(type_name(option) for option in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"list of {type_name(typing.get_args(annotation)[0])}"
    return str(getattr(annotation, "__name__", annotation))


def show(value: Any) -> str:
    """A value as one would type it on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(show(item) for item in value) + "]"
    return str(value)


def _coerce(annotation: Any, value: Any) -> Any:
    origin = typing.get_origin(annotation)
    if isinstance(annotation, types.UnionType) or origin is typing.Union:
        for option in typing.get_args(annotation):
            try:
                return _coerce(option, value)
            except ValueError:
                continue
        raise ValueError
    if annotation is type(None):
        if value is None:
            return None
    elif origin is Literal:
        if value in typing.get_args(annotation):
            return value
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(_coerce(typing.get_args(annotation)[0], item) for item in value)
    elif annotation is bool:
        if isinstance(value, bool):
            return value
    elif annotation is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():  # 1e6 on the command line
            return int(value)
    elif annotation is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif annotation is str and isinstance(value, str):
        return value
    raise ValueError


def build(config: type, values: Mapping[str, Any], where: str) -> Any:
    """The dataclass with `values`, each checked; `where` prefixes the field in errors ("replay")."""
    known = fields(config)
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise unknown(f"setting {where}.", name, known)
        checked[name] = check(known[name], value, f"{where}.{name}")
    return config(**checked)
