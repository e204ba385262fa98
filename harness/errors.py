"""Errors for the user: they say what was given, what was expected and what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from guidebench.harness import spelling

GPU_FULL = ("out of memory", "ALLOC_FAILED")
"""What errors of PyTorch, CUDA and its libraries say where the memory of a GPU does not suffice."""
MACHINE_FULL = ("can't allocate memory", "not enough memory", "Unable to allocate", "Cannot allocate memory")
"""What PyTorch, NumPy and the system say where the machine's memory does not suffice."""

LISTED, LISTED_BESIDE = 60, 20
"""Maximum number of valid names that an error lists where none is near, and beside one that is."""


class UserError(Exception):
    """An error that the user can correct; printed without a traceback."""


class Unusable(UserError):
    """This machine cannot carry out a job that another may."""


class MissingCall(UserError):
    """A call to a model must be replayed, but no answer to it was recorded."""


class NoMemory(UserError):
    """A foundation model found too little memory. With fewer seeds at the same time there may be enough."""


class Notice(UserWarning):
    """A problem that was handled automatically; reported once, on the screen and in the log."""


class Stopped(Exception):
    """The run was stopped by a signal or because its parent process ended; it can resume from its last checkpoint."""


class BudgetReached(Stopped):
    """A call to a model would exceed a budget of the study, which the message names. The last checkpoint is kept."""


def of_system(error: OSError) -> str:
    """Return a message for a full disk or a path without write permission; "" for any other error."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error}); free some room and run the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename} cannot be written ({error.strerror}); change its permissions or choose another path"
    return ""


def full(error: BaseException) -> Literal["", "GPU", "machine"]:
    """Return whether the memory of the GPU or that of the machine did not suffice; "" for an error of another cause.

    >>> full(RuntimeError("CUDA error: out of memory")), full(MemoryError()), full(ValueError("out of memory"))
    ('GPU', 'machine', '')
    """
    is_runtime_error = isinstance(error, RuntimeError | OSError)
    if isinstance(error, MemoryError) or (is_runtime_error and any(text in str(error) for text in MACHINE_FULL)):
        return "machine"
    return "GPU" if isinstance(error, RuntimeError) and any(text in str(error) for text in GPU_FULL) else ""


def too_large(model: str, error: BaseException) -> NoMemory | None:
    """Return the error that a foundation model found too little memory; None if `error` has another cause."""
    if not (device := full(error)):
        return None
    first = (str(error).splitlines() or [""])[0] or type(error).__name__
    return NoMemory(
        f"model={model}: it needs more memory than the {device} has free for it ({first}); choose a smaller model or "
        f"dtype, or another device for it"
    )


def in_role(message: str, kind: str, role: str) -> str:
    """Return a part's message about its settings with the section named after its role instead of its kind, since a
    part does not know its role in a cell.

    >>> in_role("judge.prompt is empty; judge=openai asks a judge", "judge", "critic")
    'critic.prompt is empty; critic=openai asks a judge'
    >>> in_role("model=clip: it is not on this machine", "embedder", "seer")
    'seer.model=clip: it is not on this machine'
    """
    message = f"{role}.{message}" if message.startswith(("model=", "source=")) else message
    return message if role == kind else re.sub(rf"(?<![\w./]){kind}(?=[.=]\w)", role, message)


def count(number: int, singular: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> count(1, "run"), count(3, "run")
    ('1 run', '3 runs')
    """
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Return a number of bytes in words.

    >>> size(3 * 2**20), size(5 * 2**29)
    ('3.0 MiB', '2.5 GiB')
    """
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.1f} MiB"


def a(noun: str) -> str:
    """Return a noun with its article.

    >>> a("chat"), a("embedder")
    ('a chat', 'an embedder')
    """
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def unknown(kind: str, word: str, options: Iterable[str], hint: str = "") -> UserError:
    """Return the error for an unknown name, with the nearest valid names (`guidebench.harness.spelling`). A dotted name
    is compared within its section, a name without a section in all sections. Where none is near, the valid names are
    listed unless there are more than 60, with `hint`; where one is, more than 20 are not.

    >>> str(unknown("method", "vlmrb", ["uer", "vlm_rb", "uer"]))
    "unknown method 'vlmrb'; did you mean 'vlm_rb'? (known: uer, vlm_rb)"
    >>> str(unknown("setting", "lr", ["seeds", "learner.lr"]))
    "unknown setting 'lr'; did you mean 'learner.lr'? (known: learner.lr, seeds)"
    """
    names = sorted(set(options))
    section, dot, _ = word.partition(".")
    names = [name for name in names if dot and name.startswith(f"{section}.")] or names
    near = nearest(word, names)
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    listed = f" (known: {', '.join(names) or 'none'})" if len(names) <= (LISTED_BESIDE if near else LISTED) else ""
    return UserError(f"unknown {kind} {word!r}{meant}{listed}{f'; {hint}' if hint and not near else ''}")


def nearest(word: str, names: Sequence[str]) -> list[str]:
    """Return the valid names that a word may stand for; its section may be missing or another one.

    >>> nearest("tilesize", ["drawing.tile_size"]), nearest("lr", ["learner.actor_lr", "learner.critic_lr", "suite"])
    (['drawing.tile_size'], ['learner.actor_lr', 'learner.critic_lr'])
    >>> nearest("learner.lrr", ["learner.lr", "learner.utd"]), nearest("train.steps", ["training.steps"])
    (['learner.lr'], ['training.steps'])
    """
    section, dot, field = word.rpartition(".")
    within = [name for name in names if dot and name.startswith(f"{section}.")]
    if not dot or within:
        fields: dict[str, list[str]] = {}
        for name in within or names:
            fields.setdefault(name.rpartition(".")[2] if within or "." in name else name, []).append(name)
        matches = [name for short in spelling.close(field, fields) for name in fields[short]]
        matches = matches or [name for name in within or names if dot and name.endswith(f"_{field}")]
        matches = matches or [name for name in names if "." in name and name.endswith(f"_{field}")]
        return matches[: spelling.MOST]
    return spelling.close(word, names) or [name for name in names if name.endswith(f".{field}")][: spelling.MOST]
