"""Which valid names a mistyped one may stand for: one rule for all messages about unknown words."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 3
"""Maximum number of names that are suggested for one word."""
BEGINNING, PIECE = 3, 2
"""Minimum characters of a word that is taken for the beginning of a name, and for one of its pieces."""


def close(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that `word` may stand for, the nearest first; [] if it resembles none.

    Names that differ in case, hyphens, underscores or spaces alone come before all others. The next are its singular
    or plural, then names that differ by few letters, then names that begin with the word, then those of which it is
    a piece. Only the first of these groups that holds a name is returned, at most three of it.

    >>> close("VLM-RB", ["vlm_rb", "vlm_rm"]), close("suites", ["suite", "task"]), close("metod", ["method", "models"])
    (['vlm_rb'], ['suite'], ['method'])
    >>> close("minigrid", ["classic", "minigrid_doorkey"]), close("doorkey", ["minigrid_doorkey"])
    (['minigrid_doorkey'], ['minigrid_doorkey'])
    >>> close("nope", ["per", "uer"]), close("9x9", ["5x5", "8x8"])
    ([], [])
    """
    candidates = list(dict.fromkeys(names))
    plain = _plain(word)
    if not plain:
        return []
    by_plain = {name: _plain(name) for name in candidates}
    for group in (
        [name for name, other in by_plain.items() if other == plain],
        [name for name, other in by_plain.items() if singular(other) == singular(plain)],
        _misspelt(plain, by_plain),
        [name for name, other in by_plain.items() if other.startswith(plain)] if _beginning(plain) else [],
        [name for name in candidates if plain in re.split(r"[^a-z0-9]+", name.lower())] if len(plain) >= PIECE else [],
    ):
        if group:
            return group[:MOST]
    return []


def singular(word: str) -> str:
    """Return a noun in lower case without the ending of its plural.

    >>> singular("replays"), singular("classes"), singular("classic")
    ('replay', 'class', 'classic')
    """
    word = word.lower()
    return word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s")


def distance(one: str, other: str) -> int:
    """Return how many letters must be added, left out, replaced or swapped with their neighbour to turn one word into
    the other.

    >>> distance("sedes", "seeds"), distance("kitchn", "kitchen"), distance("nope", "per")
    (1, 1, 3)
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, mine in enumerate(one, 1):
        present = [row]
        for column, theirs in enumerate(other, 1):
            least = min(last[column] + 1, present[-1] + 1, last[column - 1] + (mine != theirs))
            if row > 1 and column > 1 and mine == other[column - 2] and one[row - 2] == theirs:
                least = min(least, before[column - 2] + 1)
            present.append(least)
        before, last = last, present
    return last[-1]


def _misspelt(plain: str, names: dict[str, str]) -> list[str]:
    """Return the names within the smallest distance of a word: one letter of a word of up to five, two of longer ones,
    three from twelve letters on."""
    allowed = 1 if len(plain) <= 5 else 2 if len(plain) < 12 else 3
    near = {
        name: distance(plain, other)
        for name, other in names.items()
        if abs(len(other) - len(plain)) <= allowed and len(plain) > 1 and _alike(plain, other)
    }
    least = min(near.values(), default=allowed + 1)
    return [name for name, letters in near.items() if letters == least <= allowed]


def _alike(plain: str, other: str) -> bool:
    """Return whether two words share enough letters to be within a few edits; cheaper than `distance`."""
    return len(set(plain) & set(other)) * 2 >= len(set(plain))


def _beginning(plain: str) -> bool:
    """Return whether a word is long enough to be the beginning of a name, or a number."""
    return len(plain) >= BEGINNING or plain.isdigit()


def _plain(word: str) -> str:
    return re.sub(r"[\s_\-]+", "", word.lower())
