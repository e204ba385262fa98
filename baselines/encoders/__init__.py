"""What turns a part of an observation into features, one encoder per module, and how a whole observation is read.

A module directly in this folder, or a plug-in's in the entry point group `guidebench.encoders`, adds one: it registers
an `Encoder` with `@register.encoder("name")`, and nothing else has to be edited.
"""

from guidebench.baselines.encoders.base import Encoder, Sizes
from guidebench.baselines.encoders.codes import Codes
from guidebench.baselines.encoders.grid import Grid
from guidebench.baselines.encoders.image import Image
from guidebench.baselines.encoders.reading import Reading, read, unread
from guidebench.baselines.encoders.vector import Vector

__all__ = ["Codes", "Encoder", "Grid", "Image", "Reading", "Sizes", "Vector", "read", "unread"]
