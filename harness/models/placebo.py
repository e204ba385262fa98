"""What placebos of all kinds of models share: the place of the answers, and their digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from guidebench.harness.errors import UserError
from guidebench.harness.models import answer_files
from guidebench.harness.models.answer_files import AnswerSet
from guidebench.harness.models.backends.placebo import PLACEBO
from guidebench.harness.parts import CHOICE, EVERY_CALL, AskingPart, CellView, FilePart, ModelPart
from guidebench.harness.plan import answering
from guidebench.harness.records.answers import FILE, QUESTION
from guidebench.harness.settings import Bounds, Digest, Later, Transport, Unit


@dataclass(frozen=True, kw_only=True)
class Placebo(FilePart, ModelPart):
    """Answers that a model gave to other questions, drawn by a hash of the question and the run's seed."""

    source: str = ""
    """A file answers.parquet, or the directory of a study, a cell or a run that was trained with answers=true (choice:
    no paper has a placebo)."""
    digest: Annotated[str | None, Digest, Later] = None
    """SHA-256 of the answers in this role and of the digests of their questions. It is computed where the files are;
    null means that it is unknown (choice: files are known by their content)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 120.0
    """Timeout of one answer, after which its process is restarted (choice: ample; it takes a millisecond)."""

    citation: ClassVar[str | Path] = "% no model: the answers of another one, given to other questions"
    backend: ClassVar[str] = PLACEBO
    answers: ClassVar[tuple[str, ...]] = EVERY_CALL
    title: ClassVar[str] = "answers that were given to other questions: no information"
    file_settings: ClassVar[tuple[str, ...]] = ("source",)

    def content(self) -> str | None:
        """Return the digest of the answers of the only role that the files have; None if they are missing. Raise
        UserError for several roles."""
        sets = self.answer_sets()
        if sets is not None and len(sets) != 1:
            raise UserError(
                f"{self.source} holds answers of {', '.join(sorted(sets))}; a placebo uses those of its own role"
            )
        return None if sets is None else next(iter(sets.values())).digest

    def content_in(self, role: str) -> str | None:
        """Return the digest of the answers of a role; None if the files are missing. Raise UserError for files that
        cannot be read, and for those without answers of the role."""
        if (sets := self.answer_sets()) is None:
            return None
        if role not in sets:
            raise answer_files.lacking(role, self.source, sets)
        return sets[role].digest

    def verify(self) -> None:
        """Do nothing: the process that reads the answers compares their digest."""

    def ready(self) -> None:
        """Raise UserError if there are no files of answers, or if one cannot be read."""
        if self.answer_sets() is None:
            raise UserError(
                f"source={self.source}: no answers are there ({FILE}); restore them, or name another place, such as a "
                f"study that was trained with answers=true"
            )

    def fits(self, view: CellView) -> str:
        """Return why this placebo cannot be used in the given cell, or ""."""
        sets = self.answer_sets() or {}
        for role in [role for role, part in view.parts.items() if part == self]:
            if not self.source and self.digest is None:
                return f"a placebo gives the answers of a run; name its file or study with {role}.source=…"
            kinds = sets[role].kinds if role in sets else ()
            usual = {kind for part in view.parts.values() for kind in _calls(part, role)}
            calls = {answering.formed(kind, self.answer_form) for kind in usual}
            kept_kinds = {*map(answer_files.call_kind, kinds)}
            if kinds and QUESTION not in kinds and not calls & kept_kinds:
                other_form = {answering.USUAL["chat"], CHOICE} <= calls | kept_kinds
                remedy = f"set {role}.answer as that run had it" if other_form else "name a run of the same method"
                return (
                    f"it is asked for {' and '.join(sorted(calls))}, and {role}.source={self.source} holds answers of "
                    f"the kind {' and '.join(kinds)} in the role {role!r}; {remedy}"
                )
        return ""

    def warning(self, role: str) -> str:
        """Return a warning if a role has answers to few questions; else ""."""
        return answer_files.few(role, sets[role]) if (sets := self.answer_sets()) and role in sets else ""

    def dimensions(self) -> int | None:
        """Return how many numbers each vector has, if all vectors in the files have equally many."""
        widths = {answers.width for answers in (self.answer_sets() or {}).values()} - {None}
        return widths.pop() if len(widths) == 1 else None

    def answer_sets(self) -> dict[str, AnswerSet] | None:
        """Return role -> its answers; None if there are no files. Raise UserError for files that cannot be read."""
        sets = answer_files.summary(self.source) if self.source else None
        return None if sets is None else dict(sets)


def _calls(part: object, role: str) -> tuple[str, ...]:
    """Return the kinds of calls that a part makes in a role; () if it does not need the role."""
    needs = getattr(part, "needs", {})
    if role not in needs:
        return ()
    return (part.puts if isinstance(part, AskingPart) else {}).get(role, (answering.USUAL[needs[role]],))
