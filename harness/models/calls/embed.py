"""The call `embed`: texts or images that the model maps to vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from guidebench.harness.models.calls.arrays import Form
from guidebench.harness.models.calls.base import Call, Json, part
from guidebench.harness.registry import register
from guidebench.harness.types import Array


@register.call("embed")
@dataclass(frozen=True, eq=False)
class EmbedCall(Call):
    """n texts, or n images uint8 [height, width, 3], each mapped to one vector: the answer is float32 [n, d]."""

    items: tuple[str, ...] | tuple[Array, ...]

    kind: ClassVar[str] = "embed"
    tolerance: ClassVar[float] = 0.01
    measure: ClassVar[str] = "cosine distance"
    array: ClassVar[Form | None] = Form("float32", 2)

    def form(self, named: Callable[[Array], Json]) -> dict[str, Json]:
        return {"items": [item if isinstance(item, str) else named(item) for item in self.items]}

    @classmethod
    def read(cls, form: Mapping[str, Json], image: Callable[[str], Array]) -> Self:
        match form:
            case {"items": list(items)}:
                parts: Any = tuple(part(json_part, image) for json_part in items)
                return cls(parts)
        raise ValueError("a call to embed has items")

    @classmethod
    def small(cls) -> Self:
        return cls(("The door is open.",))

    @property
    def purpose(self) -> str:
        return "texts" if self.items and isinstance(self.items[0], str) else "frames"

    def images(self) -> Sequence[Array]:
        return [item for item in self.items if not isinstance(item, str)]

    def fault(self, value: Any) -> str:
        fits = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.shape[:-1] == (len(self.items),)
        if not fits:
            return f"expected float32 [{len(self.items)}, d], got {getattr(value, 'shape', type(value).__name__)}"
        return "" if np.isfinite(value).all() else "a vector holds a number that is not finite"

    def distance(self, recorded: Any, now: Any) -> float:
        """Return 1 minus the smallest cosine between corresponding vectors; infinite if their shapes differ or only one
        of a pair is zero."""
        return cosine_distance(recorded, now)

    @classmethod
    def words(cls, value: Any) -> str:
        return f"{len(value)} vectors of {value.shape[1]} numbers"


def cosine_distance(recorded: Array, now: Array) -> float:
    """Return 1 minus the smallest cosine between corresponding vectors [n, d]; infinite if the shapes differ or only
    one of a pair is zero."""
    if np.shape(recorded) != np.shape(now):
        return float("inf")
    lengths = np.linalg.norm(recorded, axis=1), np.linalg.norm(now, axis=1)
    if ((lengths[0] == 0) != (lengths[1] == 0)).any():
        return float("inf")
    product = np.where(lengths[0] == 0, 1.0, lengths[0] * lengths[1])
    cosine = np.where(lengths[0] == 0, 1.0, np.einsum("nd,nd->n", recorded, now) / product)
    return float((1.0 - cosine).max(initial=0.0))
