"""What DSADF's tasks 11 to 13 ask to put in order (app. A.1.1), by Housekeep's names of objects."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "blender": "blender_jar",
    "cutting board": "chopping_board",
    "coffee mug": "mug",
    "hand soap": "soap_dispenser",
    "kitchen towel": "dishtowel",
    "vitamin bottle": "dietary_supplement",
}
"""The paper's name -> Housekeep's, where they differ by more than spaces."""


def named(*words: str) -> tuple[str, ...]:
    """Return Housekeep's names of objects for the paper's.

    >>> named("salt shaker", "hand soap")
    ('salt_shaker', 'soap_dispenser')
    """
    return tuple(NAMES.get(word, word.replace(" ", "_")) for word in words)


TASKS: Mapping[str, tuple[str, ...]] = {
    "adjustment_1": named("spatula", "pressure cooker", "peppermint", "plate", "fork", "blender", "salt shaker"),
    "adjustment_2": named("lamp", "sparkling water", "plant", "candle holder", "mustard bottle"),
    "adjustment_3": named(
        "salt shaker", "coffee mug", "cutting board", "vitamin bottle", "hand soap", "butter dish", "kitchen towel"
    ),
}
"""Task -> its items; the paper's titles are Item adjustment I, II and III."""
ALIASES: Mapping[str, str] = dict(zip(("task11", "task12", "task13"), TASKS, strict=True))
MOST = max(map(len, TASKS.values()))
"""Items of the longest task."""
OTHERS = ("apple", "bowl", "knife", "pan", "sponge", "teapot")
"""Objects that are only distractors (choice, from Housekeep's list)."""
OBJECTS = tuple(dict.fromkeys(item for items in TASKS.values() for item in items)) + OTHERS
"""Every object that may lie in a room; its place here is its place in observations, in every task."""
