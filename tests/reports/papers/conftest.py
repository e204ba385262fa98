"""Studies of DoorKey with curves chosen by hand, and a shelf of their rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.records import schema
from guidebench.reports.papers import catalogue
from guidebench.reports.papers.matching import Shelf
from tests.reports.conftest import Writer, label_row, write_rows

Curve = Mapping[int, float]
EPISODES = 10


class Papers:
    """Cells of the paper profile, written to a study."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def add(self, name: str, curves: Mapping[int, Curve], **settings: Any) -> Path:
        """Write a cell from success rates, seed -> step -> rate in tenths; return its directory."""
        tenths = {
            seed: {
                step: [1] * round(rate * EPISODES) + [0] * (EPISODES - round(rate * EPISODES))
                for step, rate in curve.items()
            }
            for seed, curve in curves.items()
        }
        names = {"suite": "minigrid_doorkey", "task": "8x8", "profile": "paper", "steps": 1_000_000, **settings}
        return self._writer.cell(name, tenths, **names)

    def teach(self, name: str, right: Sequence[int], *, ablation: str = "", full: str = "full", **changes: Any) -> None:
        """Write a finished cell of RL-SaLLM-F with a run for each number of right labels, out of four, in `right`.

        Each run has an imagined segment and its path, probes of its reward, and a bill of the paper's model. `full`:
        the cell that an ablation is compared with.
        """
        role = {"kind": "ablation", "name": ablation, "reference": full} if ablation else None
        layer = f"ablation {ablation}" if ablation else "method"
        names = {
            "suite": "metaworld_pbrl", "task": "button-press", "method": "rl_sallm_f", "learner": "sac",
            "steps": 500_000, "settings": {"teacher.x": {"value": True, "layer": layer, "source": ""}},
            "backend": "openai", "model": "gpt-4o-mini-2024-07-18", "parts": {"teacher": "llm", "chat": "openai"},
            **changes,
        }  # fmt: skip
        rates = {seed: {250_000: 0.1, 500_000: share / 4} for seed, share in enumerate(right)}
        root = self.add(name, rates, matrix=role, **names)
        for seed, share in enumerate(right):
            labels = [label_row(query, float(query < share)) for query in range(4)]
            labels.append(label_row(4, None, imagined="kept", reward_imagined=9.0, reward_chosen=2.0, reward_other=1.0))
            bills = [
                dict.fromkeys(schema.LEDGER, 0)
                | {"step": step, "tokens_in": 1000 * share * step, "usd": share * step / 500_000}
                for step in (250_000, 500_000)
            ]
            measurements = [
                *((0, t, "true_reward", float(t)) for t in range(3)),
                *((0, t, "expert", 1.0) for t in range(3)),
                *((500_000, t, "reward", float(t * t)) for t in range(3)),
                (250_000, 0, "label_accuracy", 0.1),
                (500_000, 0, "label_accuracy", share / 4),
            ]
            looks = [
                dict(zip(("step", "t", "quantity", "value"), measurement, strict=True)) for measurement in measurements
            ]
            path = [
                {"step": 500_000, "query": 4, "segment": "imagined", "t": t, "name": "tcp", "x": t / 10, "y": t / 5}
                for t in range(3)
            ]
            for log, rows in (("labels", labels), ("imagined", path), ("ledger", bills), ("probes", looks)):
                write_rows(root / f"seed-{seed}", log, rows)


@pytest.fixture
def add(writer: Writer) -> Callable[..., Path]:
    """`Papers.add`."""
    return Papers(writer).add


@pytest.fixture
def taught(writer: Writer) -> Callable[..., None]:
    """`Papers.teach`."""
    return Papers(writer).teach


def shelf_of(writer: Writer, paper: str = "vlm_rb", **stand_ins: str) -> Shelf:
    """Return a shelf with the rows of all cells written so far. `stand_ins`: `_TASK=OTHER` lets a task stand in for
    another."""
    stand_ins_ = {f"{key[1:]}": value for key, value in stand_ins.items()}
    return Shelf(writer.summary().rows, catalogue.paper(paper), stand_ins_)


@pytest.fixture
def shelf(writer: Writer) -> Callable[..., Shelf]:
    """`shelf_of` the test's writer."""
    return lambda *paper, **stand_ins: shelf_of(writer, *paper, **stand_ins)
