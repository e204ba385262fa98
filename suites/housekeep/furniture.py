"""Receptacles as boxes: size, how they hold objects, and where in a room they stand.

The names are all 32 receptacles of Housekeep's annotations (`yashkant/housekeep`, amt_data/room_recep.txt); sizes are
choices near common furniture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Holds = Literal["top", "open", "closed"]
"""`top`: objects lie on it; `open`: in it, seen from the front; `closed`: in it, seen from the front within reach."""
Stands = Literal["wall", "hung", "stacked", "free", "flat"]
"""`wall`: on the floor at a wall; `hung`: over something at a wall; `stacked`: on a closed one at a wall; `free`: away
from walls; `flat`: on the floor, where one can walk."""


class Furniture(NamedTuple):
    """One receptacle's kind; lengths in metres."""

    width: float
    depth: float
    bottom: float
    top: float
    holds: Holds = "top"
    stands: Stands = "wall"


FURNITURE: Mapping[str, Furniture] = {
    "basket": Furniture(0.5, 0.4, 0.0, 0.4),
    "bathtub": Furniture(1.6, 0.7, 0.0, 0.55),
    "bed": Furniture(1.4, 1.2, 0.0, 0.5),
    "bottom cabinet": Furniture(1.0, 0.6, 0.0, 0.85, "closed"),
    "carpet": Furniture(1.0, 0.7, 0.0, 0.01, "top", "flat"),
    "chair": Furniture(0.5, 0.5, 0.4, 0.45, "top", "free"),
    "chest": Furniture(0.9, 0.5, 0.0, 0.7, "closed"),
    "coffee machine": Furniture(0.35, 0.35, 0.0, 0.35, "top", "stacked"),
    "coffee table": Furniture(0.9, 0.6, 0.35, 0.4, "top", "free"),
    "console table": Furniture(1.0, 0.4, 0.7, 0.75),
    "cooktop": Furniture(0.6, 0.6, 0.0, 0.9),
    "counter": Furniture(1.5, 0.6, 0.0, 0.9),
    "dishwasher": Furniture(0.6, 0.6, 0.0, 0.85, "closed"),
    "dryer": Furniture(0.6, 0.6, 0.0, 0.85, "closed"),
    "fridge": Furniture(0.7, 0.7, 0.0, 1.8, "closed"),
    "loudspeaker": Furniture(0.4, 0.4, 0.0, 1.0),
    "microwave": Furniture(0.5, 0.4, 0.0, 0.35, "closed", "stacked"),
    "office chair": Furniture(0.5, 0.5, 0.4, 0.45, "top", "free"),
    "oven": Furniture(0.6, 0.6, 0.0, 1.6, "closed"),
    "piano": Furniture(1.4, 0.6, 0.0, 1.1),
    "shelf": Furniture(0.9, 0.4, 0.0, 1.8, "open"),
    "sink": Furniture(0.8, 0.6, 0.0, 0.85),
    "sofa": Furniture(1.6, 0.8, 0.0, 0.45),
    "sofa chair": Furniture(0.8, 0.8, 0.0, 0.45),
    "speaker system": Furniture(0.5, 0.4, 0.0, 1.2),
    "stool": Furniture(0.4, 0.4, 0.45, 0.5, "top", "free"),
    "stove": Furniture(0.6, 0.6, 0.0, 0.9),
    "table": Furniture(1.2, 0.8, 0.7, 0.75, "top", "free"),
    "toilet": Furniture(0.5, 0.6, 0.0, 0.8),
    "top cabinet": Furniture(0.9, 0.35, 1.45, 2.1, "closed", "hung"),
    "treadmill": Furniture(1.5, 0.7, 0.0, 0.2),
    "washer": Furniture(0.6, 0.6, 0.0, 0.85, "closed"),
}
