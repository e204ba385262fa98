"""Encoders, which turn a part of an observation into features (one per module), and the reading of whole observations.

A module directly in this folder, or a plug-in's module in the entry point group `guidebench.encoders`, adds one: it
registers an `Encoder` with `@register.encoder("name")`, and nothing else needs editing.
"""

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.baselines.encoders.codes import Codes
from guidebench.baselines.encoders.grid import Grid
from guidebench.baselines.encoders.image import Image
from guidebench.baselines.encoders.reading import Reading, read, unread
from guidebench.baselines.encoders.vector import Vector

__all__ = ["Codes", "Encoder", "Grid", "Image", "Reading", "Sizes", "Vector", "read", "unread"]
