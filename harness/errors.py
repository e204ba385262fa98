"""Errors meant for the person at the keyboard: what was given, what was expected, what to do."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable


class UserError(Exception):
    """A mistake or a fault that the user can mend; shown without a traceback."""


class MissingCall(UserError):
    """A call to a model that is to be replayed and was never recorded."""


class Notice(UserWarning):
    """Something that went wrong and was mended, which the user should see once: shown on the screen and in the log."""


class Stopped(Exception):
    """The run was asked to stop (a signal, a vanished parent); it goes on from its last checkpoint."""


class BudgetReached(Stopped):
    """A call to a model would exceed a budget of the study; the message says which. Its last checkpoint is kept."""


def of_system(error: OSError) -> str:
    """What to tell of a full disk or a place that cannot be written; "" for any other error."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error}); free some room and run the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename} cannot be written ({error.strerror}); change its permissions or name another place"
    return ""


def in_role(message: str, kind: str, role: str) -> str:
    """A part's message about its settings, with the section of its role where the part wrote that of its kind: a part
    does not know which role it has in a cell.

    >>> in_role("judge.prompt is empty; judge=openai asks a judge", "judge", "critic")
    'critic.prompt is empty; critic=openai asks a judge'
    >>> in_role("model=clip: it is not on this machine", "embedder", "seer")
    'seer.model=clip: it is not on this machine'
    """
    message = f"{role}.{message}" if message.startswith("model=") else message
    return message if role == kind else re.sub(rf"(?<![\w./]){kind}(?=[.=]\w)", role, message)


def count(number: int, singular: str) -> str:
    """A number of things in words.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


def a(noun: str) -> str:
    """A noun with its article.

    >>> a("chat"), a("embedder")
    ('a chat', 'an embedder')
    """
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def unknown(what: str, given: str, options: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest valid ones. Of dotted names those of the same section
    are named; a name without its section is found in all of them. More than 20 names are listed only if none is near.

    >>> str(unknown("method", "vlmrb", ["uer", "vlm_rb", "uer"]))
    "unknown method 'vlmrb'; did you mean 'vlm_rb'? (known: uer, vlm_rb)"
    >>> str(unknown("setting", "lr", ["seeds", "learner.lr"]))
    "unknown setting 'lr'; did you mean 'learner.lr'? (known: learner.lr, seeds)"
    """
    names = sorted(set(options))
    section, dot, _ = given.partition(".")
    names = [name for name in names if dot and name.startswith(f"{section}.")] or names
    close = [name for name in names if not dot and name.endswith(f".{given}")]
    close = close or difflib.get_close_matches(given, names, n=2, cutoff=0.8 if dot else 0.5)
    meant = f"; did you mean {' or '.join(repr(n) for n in close[:3])}?" if close else ""
    known = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    listed = "" if close and len(names) > 20 else f" (known: {known or 'none'})"
    return UserError(f"unknown {what} {given!r}{meant}{listed}")
