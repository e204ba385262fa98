"""DSADF's slow system: a planner that reflects on its plans, and a performer that acts towards their sub-goals.

The method `model_as_agent` is made of these parts alone.
"""

from __future__ import annotations

from guidebench.methods.dsadf import chats as chats  # registers the hand-written chats
