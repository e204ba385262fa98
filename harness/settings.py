"""Fields of configuration dataclasses: type, bounds, unit, meaning and source, and the check of their values.

A registered dataclass documents a field by the string under it. A closing parenthesis at the end of that string gives
the source (paper and table); `Annotated` carries bounds and unit:

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
    """Closed interval of permitted numbers; None leaves a side unbounded."""

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
    """Unit of a number."""

    name: str


class Transport:
    """Marks a field that decides how a service is reached and cannot change a result. It is excluded from the cell
    id."""


class Later:
    """Marks a field that was added when cells without it were on record. At its default it is excluded from the cell
    id, and a record that lacks it has its default."""


class Digest:
    """Marks the field of a part that reads files (`FilePart`) which identifies their content: a SHA-256, or null where
    it is unknown."""


DIGEST = "digest"
"""Name of the field marked `Digest`."""
SHA256 = re.compile(r"[0-9a-f]{64}")


class Variable:
    """Marks a field that names an environment variable. An invalid name is an error whose message does not repeat the
    value, since it may be a secret key."""


VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class Text:
    """Marks a text field, whose value the command line may read from a file: `judge.prompt=file:PATH`."""


LONGEST_TEXT = 65_536
"""Maximum size in bytes of a text file given as `file:PATH`."""


class Cited(NamedTuple):
    """A default value with its source, for layers of settings."""

    value: Any
    source: str


def cite(value: Any, source: str) -> Cited:
    """Return a value with its source, which `bench show` prints: `cite(0.95, "VLM-RB, table 3")`."""
    return Cited(value, source)


def cited(prefix: str, source: str, **values: Any) -> dict[str, Cited]:
    """Return a layer of settings from one source: `cited("learner.sac", "table 2", utd=1)` sets `learner.sac.utd`."""
    return {f"{prefix}.{name}": cite(value, source) for name, value in values.items()}


class Field(NamedTuple):
    """One field of a configuration dataclass, for `bench show` and for checks."""

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
    later: bool = False
    located: bool = False
    """Whether the field says where files are (`FilePart.file_settings`). It counts as `Transport` where the part's
    field `digest` is known."""
    digest: bool = False


@functools.cache
def fields(config: type) -> Mapping[str, Field]:
    """Return the fields of a configuration dataclass by name, in order of definition, `Transport` fields last."""
    hints = typing.get_type_hints(config, include_extras=True)
    documents = _documents(config)
    fields_by_name = {}
    for attribute in dataclasses.fields(config):
        annotation: Any = hints[attribute.name]
        extras: tuple[Any, ...] = ()
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *rest = typing.get_args(annotation)
            extras = tuple(rest)
        meaning = documents.get(attribute.name, "")
        cited = re.search(r"\s*\(([^()]+(?:\([^()]*\)[^()]*)*)\)\.?$", meaning)
        fields_by_name[attribute.name] = Field(
            name=attribute.name,
            type=annotation,
            default=attribute.default,
            bounds=next((e for e in extras if isinstance(e, Bounds)), Bounds()),
            unit=next((e.name for e in extras if isinstance(e, Unit)), ""),
            meaning=(meaning[: cited.start()] if cited else meaning).rstrip("."),
            source=cited.group(1) if cited else "",
            transport=Transport in extras,
            text=Text in extras,
            variable=Variable in extras,
            later=Later in extras,
            located=attribute.name in getattr(config, "file_settings", ()),
            digest=Digest in extras,
        )
    return dict(sorted(fields_by_name.items(), key=lambda pair: pair[1].transport))


def is_transport(field: Field, digest: object) -> bool:
    """Return whether a field cannot change a result: a `Transport` field, or the place of files whose content `digest`
    identifies (None where it is unknown)."""
    return field.transport or (field.located and digest is not None)


def identity(config: Any) -> dict[str, Any]:
    """Return name -> value of the fields of a configuration that can change a result."""
    kind: type = type(config)
    digest = getattr(config, DIGEST, None)

    def counts(field: Field) -> bool:
        return not is_transport(field, digest) and not (field.digest and digest is None)

    return {name: getattr(config, name) for name, field in fields(kind).items() if counts(field)}


def _documents(config: type) -> dict[str, str]:
    """Return field -> the string literal under it, base classes first."""
    docstrings: dict[str, str] = {}
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
                docstrings[statement.target.id] = " ".join(following.value.value.split())
    return docstrings


def from_command(field: Field, value: Any, key: str) -> Any:
    """Return a command-line value as the field's type, or raise UserError (`check`). For a `Text` field, `file:PATH` is
    replaced by the text in that file, so stored settings never depend on the file. `key`: the setting in errors."""
    if field.text and isinstance(value, str) and value.startswith("file:"):
        value = _read(Path(value.removeprefix("file:")).expanduser(), f"{key}={value}")
    return check(field, value, key)


def typed(config: type, words: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the fields of a configuration that a command's words `section.FIELD` set, as `from_command` does; words of
    no field are left out."""
    return {
        name: from_command(field, words[key], key)
        for name, field in fields(config).items()
        if (key := f"{section}.{name}") in words
    }


def _read(path: Path, key: str) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST_TEXT + 1)
    except OSError as error:
        raise UserError(f"{key}: {path} cannot be read ({error.strerror}); name a file of plain text") from None
    if len(content) > LONGEST_TEXT:
        raise UserError(f"{key}: {path} is longer than {LONGEST_TEXT:,} bytes; name a file that holds only the text")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{key}: {path} is not text in UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text:
        raise UserError(f"{key}: {path} is empty; write the text into it")
    return text


def check(field: Field, value: Any, key: str) -> Any:
    """Return `value` as the field's type, or raise a UserError that names the setting `key`, the value and what is
    expected."""
    try:
        typed = _coerce(field.type, value)
    except (ValueError, OverflowError):  # OverflowError: an integer too large for a float
        raise UserError(f"{key}={show(value)}: expected {describe(field)}") from None
    if field.variable and not VARIABLE.fullmatch(typed):
        raise UserError(
            f"{key} takes the name of an environment variable, in capital letters, digits and underscores. The given "
            f"value is no such name (it is not repeated here, since it may be a key). Export the key as a variable "
            f"such as {field.default}, and give its name"
        )
    if field.digest and typed is not None and not SHA256.fullmatch(typed):
        raise UserError(f"{key}={show(value)}: expected a SHA-256, 64 hexadecimal digits in small letters, or null")
    numbers = typed if isinstance(typed, tuple) else (typed,)
    for number in numbers:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            low, high = field.bounds
            outside = (low is not None and number < low) or (high is not None and number > high)
            if outside or (isinstance(number, float) and not math.isfinite(number)):
                raise UserError(f"{key}={show(value)}: expected {describe(field)}")
    return typed


def describe(field: Field) -> str:
    """Describe the values that a field accepts."""
    bounds = "" if field.bounds == Bounds() else f" {field.bounds}"
    return f"{type_name(field.type)}{bounds}{f' ({field.unit})' if field.unit else ''}"


def type_name(annotation: Any) -> str:
    """Describe a field's type: `float`, `one of 'small', 'maximum'`, `int or null`."""
    if annotation is type(None):
        return "null"
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(option) for option in typing.get_args(annotation))
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(type_name(option) for option in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"list of {type_name(typing.get_args(annotation)[0])}"
    return str(getattr(annotation, "__name__", annotation))


def options(annotation: Any) -> tuple[Any, ...]:
    """Return the values that a field's type lists; () for a type that lists none."""
    if typing.get_origin(annotation) is Literal:
        return typing.get_args(annotation)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return tuple(value for option in typing.get_args(annotation) for value in options(option))
    return ()


def show(value: Any) -> str:
    """Format a value as it is written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(show(element) for element in value) + "]"
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
            return tuple(_coerce(typing.get_args(annotation)[0], element) for element in value)
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


def check_settings(config: Any, section: str) -> None:
    """Raise UserError for the first setting of a configuration that `check` refuses. Called by `__post_init__`, so that
    configurations made in Python are checked like those of the command line."""
    kind: type = type(config)
    for name, field in fields(kind).items():
        check(field, getattr(config, name), f"{section}.{name}")


def build(config: type, values: Mapping[str, Any], section: str) -> Any:
    """Return an instance of the dataclass `config` made of checked `values`. `section` prefixes field names in errors
    ("replay"). Raise UserError for an unknown field or an invalid value."""
    declared = fields(config)
    checked = {}
    for name, value in values.items():
        if name not in declared:
            raise unknown("setting", f"{section}.{name}", [f"{section}.{field}" for field in declared])
        checked[name] = check(declared[name], value, f"{section}.{name}")
    return config(**checked)
