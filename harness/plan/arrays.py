"""Array answers: the declaration by a part, and the check of a dialogue's result against it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, ArraySpec
from guidebench.harness.parts import AskingPart, CellView, Part

if TYPE_CHECKING:
    from guidebench.harness.plan.names import Chosen

DTYPES = ("float16", "float32")
MOST = 2**20
"""Maximum size of the array for one key: 4 MiB in float32."""
AXES = 8
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Declared(NamedTuple):
    """A part's declaration that the answers in a role are arrays."""

    spec: ArraySpec
    part: str
    """Description of the part: guide 'vlm_rm'."""
    role: str

    @property
    def bytes(self) -> int:
        """Return the size in bytes of the array for one key."""
        return int(np.prod(self.spec.shape)) * np.dtype(self.spec.dtype).itemsize

    def __str__(self) -> str:
        shape = ", ".join(["n", *map(str, self.spec.shape)])
        return f"{self.part} declares its answers of {self.role!r} as {self.spec.name!r}, {self.spec.dtype} [{shape}]"


def every(parts: Sequence[Chosen], view: CellView) -> list[Declared]:
    """Return the arrays that a cell's parts declare. Raise UserError for an invalid declaration."""
    declarations = []
    for part in parts:
        if getattr(type(view[part.role]), "array", AskingPart.array) is not AskingPart.array:
            needs = view[part.role].needs.items()
            declarations += [_declared(part, view, role) for role, kind in needs if kind in registry.MODELS]
    arrays = [*filter(None, declarations)]
    for first, second in itertools.combinations(arrays, 2):
        if first.role == second.role and first.spec != second.spec:
            raise UserError(f"{first}, and {second}; give both the same shape")
    return arrays


def of(parts: Sequence[Chosen], view: CellView, role: str) -> Declared | None:
    """Return the declared array of a cell's answers in a role, or None if they are JSON values."""
    return next((declared for declared in every(parts, view) if declared.role == role), None)


def _declared(named_part: Chosen, view: CellView, role: str) -> Declared | None:
    part = view[named_part.role]
    spec = part.array(view, role)
    if spec is None:
        return None
    if wrong := _misfit(spec) or _unspoken(part, role):
        raise UserError(f"{named_part} declares an array of answers in its role {role!r}: {wrong}")
    return Declared(spec, str(named_part), role)


def _misfit(spec: Any) -> str:
    if not isinstance(spec, ArraySpec):
        return f"its method `array` returned a {type(spec).__name__}; expected an ArraySpec or None"
    if not (isinstance(spec.name, str) and NAME.fullmatch(spec.name)):
        return f"the name is {spec.name!r:.60}; expected lower-case letters, digits and underscores, 40 at most"
    if spec.dtype not in DTYPES:
        return f"the dtype of {spec.name!r} is {spec.dtype!r:.60}; expected {' or '.join(DTYPES)}"
    shape = spec.shape
    if not isinstance(shape, tuple) or len(shape) > AXES or not all(type(n) is int and n > 0 for n in shape):
        return (
            f"the shape of {spec.name!r} is {shape!r:.60}; expected a tuple of at most {AXES} whole numbers above 0, "
            f"without the axis of the question's keys"
        )
    if (numbers := int(np.prod(shape, dtype=object))) > MOST:
        return f"{spec.name!r} has {numbers:,} numbers for each key of a question; at most {MOST:,} are allowed"
    return ""


def _unspoken(part: Part, role: str) -> str:
    if role in registry.spoken(part):
        return ""
    return (
        f"a {part.needs[role]} that gets clips has answers of a fixed form; only dialogues may return arrays, which a "
        f"part has with chats, embedders, and judges that it names in `puts`"
    )


def fitted(value: Any, declared: Declared, keys: int) -> tuple[Array | None, str]:
    """Return a dialogue's result cast to the declared dtype, [keys, *shape], and ""; or None and the reason if it holds
    a number that is not finite before or after the cast. Raise UserError if it is no array of floating-point numbers or
    has another shape, since every further answer would fail as well."""
    spec, shape = declared.spec, (keys, *declared.spec.shape)
    if not (isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == shape):
        returned_form = (
            f"{value.dtype} {[*value.shape]}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        )
        raise UserError(
            f"{declared}, and its dialogue returned {returned_form} for a question of {keys} keys; expected "
            f"{[*shape]}; correct the declaration (`array`) or the dialogue, or choose a model whose answers "
            f"have that shape with {declared.role}.model=…"
        )
    if not np.isfinite(value).all():
        return None, f"{spec.name} holds a number that is not finite"
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(value, spec.dtype)
    if not np.isfinite(cast).all():
        return (
            None,
            f"{spec.name} holds {np.abs(value).max():.3g}, which {spec.dtype} cannot represent; declare float32",
        )
    return cast, ""


def undeclared(value: Any, part: str, role: str) -> None:
    """Raise UserError for an array if a JSON value was expected."""
    if isinstance(value, np.ndarray):
        raise UserError(
            f"the dialogue of {part} in the role {role!r} returned {value.dtype} {[*value.shape]}, and no array is "
            f"declared for it; declare it in the part's method `array`, or return a JSON value"
        )
