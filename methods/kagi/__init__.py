"""KAGI: waypoints that a model chooses in annotated images, and the dense reward of following them (Lee et al.)."""

from __future__ import annotations

from guidebench.methods.kagi import chats as chats  # registers the hand-written chats
from guidebench.methods.kagi import segmenters as segmenters  # registers the hand-written segmenter and tracker
from guidebench.methods.kagi import waypoints as waypoints  # registers the guide and the method
