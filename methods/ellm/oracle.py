"""Privileged goals: the deeds that the task measures as possible next, in the form of the dialogue's answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from guidebench.harness.interfaces import Question
from guidebench.methods.ellm.goals import Words


class KnownGoals:
    """Answers questions for goals by the state's measures, in the form of `dialogue.GoalsDialogue`."""

    def __init__(self, names: Sequence[str], deeds: Sequence[str], senseless: float) -> None:
        """`names`: the suite's measures, in the order of a question's columns; `deeds`: what steps can achieve;
        `senseless`: probability that a goal is replaced."""
        self._deeds, self._columns = tuple(deeds), [list(names).index(deed) for deed in deeds]
        words = Words.of(deeds)
        pairs = (f"{verb} {noun}" for verb in words.verbs for noun in words.nouns)
        self._wild, self._senseless = [pair for pair in pairs if pair not in deeds], senseless

    def __call__(self, question: Question, generator: np.random.Generator) -> list[str]:
        """Return the deeds whose measure in the question is above 0, in the suite's order; with probability `senseless`
        each is replaced by a senseless goal."""
        assert question.measures is not None, "the guide sends an oracle what the task measured"
        possible = question.measures[0, self._columns] > 0
        goals = []
        for deed in (deed for deed, may in zip(self._deeds, possible.tolist(), strict=True) if may):
            spoilt = self._wild and generator.random() < self._senseless
            goals.append(self._wild[int(generator.integers(len(self._wild)))] if spoilt else deed)
        return [*dict.fromkeys(goals)]
