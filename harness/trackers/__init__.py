"""Trackers: where people watch runs (TensorBoard, W&B, trackio, MLflow). Each follows the logs of a study's runs.

To add a tracker, register a `Tracker` with `@register.tracker("name")` in a module directly in this folder, or in a
plug-in under the entry point group `guidebench.trackers`; no other file has to be edited.
"""

from guidebench.harness.trackers.base import START, Offset, Report, Table, Tracker
from guidebench.harness.trackers.points import FollowedRun, Point

__all__ = ["START", "FollowedRun", "Offset", "Point", "Report", "Table", "Tracker"]
