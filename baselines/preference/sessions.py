"""Sessions of one seed: the queries sent to its teacher, their verdicts, and the accuracy of the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from guidebench.baselines.preference.teaching import Pair, Verdict
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State


@dataclass(eq=False)
class Query:
    """A pair sent to a teacher, with its verdict once that has arrived."""

    pair: Pair
    step: int
    """Environment step of the query."""
    session: int
    learned: Array
    """float32 [2], the segments' learnt return before the session."""
    segments: Array
    """[2, H, …], the reward's input for the segments."""
    verdict: Verdict | None = None

    @property
    def returns(self) -> Array:
        """float64 [2], the segments' return by the task's own reward."""
        return np.asarray(self.pair.rewards.sum(1, dtype=np.float64))

    @property
    def truth(self) -> float:
        """The perfect teacher's label: 0, 1, or ½ for equal returns."""
        first, second = self.returns
        return 0.5 if first == second else float(second > first)

    @property
    def preferred(self) -> int:
        """Index of the segment that the verdict's label prefers."""
        assert self.verdict is not None and self.verdict.label is not None
        return int(self.verdict.label > 0.5)

    def row(self) -> dict[str, Any]:
        """Return the record of `labels`; UserError if a teacher notes a column that the guide itself writes."""
        assert self.verdict is not None
        outcome, label, is_used, _, notes = self.verdict
        told = {
            "asked": self.step,
            "session": self.session,
            "query": self.pair.number,
            "outcome": outcome,
            "truth": self.truth,
            "kept": is_used,
            **{f"reward_{number}": float(value) for number, value in enumerate(self.returns)},
            **{f"learned_{number}": float(value) for number, value in enumerate(self.learned)},
            **({} if label is None else {"preference": float(label)}),
        }
        if taken := told.keys() & notes:
            raise UserError(
                f"a teacher notes {', '.join(sorted(taken))} of a query, which the guide itself writes in the log "
                f"'labels'; give what the teacher notes another name"
            )
        return {**told, **notes}

    def state(self) -> State:
        verdict = self.verdict
        return {
            "number": self.pair.number,
            "observations": self.pair.observations,
            "rewards": self.pair.rewards,
            "asked": self.step,
            "session": self.session,
            "learned": self.learned,
            "seen": self.segments,
            "verdict": None
            if verdict is None
            else {
                "outcome": verdict.outcome,
                "label": verdict.label,
                "kept": verdict.is_used,
                "imagined": verdict.imagined,
                "notes": dict(verdict.notes),
            },
        }

    @staticmethod
    def of(row: int, state: State) -> Query:
        """Restore the query of seed row `row` from `state`. Its snapshots were sent with the question and are not
        kept."""
        pair = Pair(row, int(state["number"]), state["observations"], state["rewards"])
        verdict = state["verdict"]
        if verdict is not None:
            verdict = Verdict(*(verdict[name] for name in ("outcome", "label", "kept", "imagined", "notes")))
        return Query(pair, int(state["asked"]), int(state["session"]), state["learned"], state["seen"], verdict)


class Sessions:
    """Open sessions of one seed and counts of all its queries by outcome."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.session_count = 0
        """Sessions begun."""
        self.query_count = 0
        """Queries asked."""
        self.tally: Counter[str] = Counter()
        """Queries by outcome; `kept` and `imagined` pairs; labels `judged` against the truth, and how many of them were
        `right`."""
        self._open: dict[int, list[Query]] = {}

    def begin(self, queries: list[Query]) -> None:
        """Begin a session with these queries, possibly none."""
        self._open[self.session_count] = queries
        self.session_count += 1
        self.query_count += len(queries)

    def query(self, number: int) -> Query:
        """Return the pending query with this number."""
        return next(query for queries in self._open.values() for query in queries if query.pair.number == number)

    def finished(self) -> list[list[Query]]:
        """Remove and return the sessions whose answers are complete, the oldest first."""
        done = [number for number, queries in self._open.items() if all(query.verdict for query in queries)]
        sessions = [self._open.pop(number) for number in done]
        for query in [query for queries in sessions for query in queries]:
            self._count(query)
        return sessions

    def _count(self, query: Query) -> None:
        verdict = query.verdict
        assert verdict is not None
        self.tally[verdict.outcome] += 1
        self.tally["kept"] += verdict.is_used
        self.tally["imagined"] += verdict.imagined is not None
        if verdict.label in (0, 1) and query.truth != 0.5:
            self.tally["judged"] += 1
            self.tally["right"] += verdict.label == query.truth

    def metrics(self) -> Mapping[str, float]:
        """Return counts over the run so far."""
        tally, judged = self.tally, self.tally["judged"]
        return {
            "queries": self.query_count,
            "labels": tally["kept"],
            "imagined": tally["imagined"],
            "label_accuracy": tally["right"] / judged if judged else np.nan,
        }

    def state(self) -> State:
        return {
            "held": self.session_count,
            "asked": self.query_count,
            "tally": dict(self.tally),
            "open": {
                str(number): {str(query.pair.number): query.state() for query in queries}
                for number, queries in self._open.items()
            },
        }

    def load_state(self, state: State) -> None:
        self.session_count, self.query_count = int(state["held"]), int(state["asked"])
        self.tally = Counter(state["tally"])
        self._open = {
            int(number): [Query.of(self.row, query) for query in queries.values()]
            for number, queries in state["open"].items()
        }
