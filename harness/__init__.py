"""The engine: command line, configuration, registry, training loop, checkpoints, launchers, judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.interfaces import Score
    from harness.recorder import Recorder
    from harness.study import Study

__all__ = ["Recorder", "Score", "run"]


def run(*overrides: str, **settings: Any) -> Study:
    """Train what `bench run` would, and return the study.

    `harness.run("suite=classic", "method=uer", seeds=3)`: settings as strings of the command line's grammar, or as
    keywords (`method=["uer", "per"]` sweeps; dotted names by `**{"learner.lr": 1e-4}`). Raises UserError on a mistake
    before anything starts. A run that fails does not raise: look at `study.runs`. Reports and comparisons are written
    by `bench report` and `bench compare`, so `report` and `against` do nothing here.
    """
    from harness import matrix, study
    from harness.settings import show

    texts = [
        *overrides,
        *(f"{key}={_text(value) if key != 'seeds' else show(value)}" for key, value in settings.items()),
    ]
    return study.carry_out(matrix.plan(texts))


def _text(value: Any) -> str:
    from harness.settings import show

    if isinstance(value, (list, tuple)):
        return ",".join(show(item) for item in value)
    return show(value)


def __getattr__(name: str) -> Any:
    if name == "Recorder":
        from harness.recorder import Recorder

        return Recorder
    if name == "Score":
        from harness.interfaces import Score

        return Score
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
