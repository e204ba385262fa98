"""Break commands of the documentation by one slip of the hand each, and list how `bench` answers them, to be read.

    python -m tools.slips --seed 0 > slips.txt

Draws commands from README.md and docs/, breaks one word of each (a letter, a space, singular for plural, a neighbouring
kind, a missing value), and prints each broken command with its answer. `names` marks an answer that names the word that
was broken, or the command as it was; a reader decides about the others. Nothing is trained: commands that train are
only planned, in an empty directory. A broken command that is valid is no slip, and another is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from guidebench.harness.commands import cli, run_
from tests.docs.commands import PAGES, block_commands, sentence_commands

PLANNING = ("run", "pilot", "ablate", "perturb", "show")
SLIPS = ("letter", "space", "plural", "kind", "missing")
PLACEHOLDER = re.compile(r"…|\b[A-Z]{2,}\b")
NAME = re.compile(r"[a-z][a-z0-9_]{2,}")
NEIGHBOURS = {
    "suite": ("task", "method"), "task": ("suite", "profile"), "method": ("learner", "replay", "agent", "suite"),
    "profile": ("task", "method"), "learner": ("agent", "method", "replay"), "replay": ("guide", "learner"),
    "guide": ("teacher", "method", "replay"), "judge": ("chat", "embedder"), "chat": ("judge", "embedder"),
    "embedder": ("judge", "chat"), "teacher": ("guide", "chat"), "agent": ("learner", "method"),
    "dataset": ("suite", "task"), "models": ("chat", "judge"), "training": ("learner", "evaluation"),
    "evaluation": ("training", "learner"), "launcher": ("trackers",), "trackers": ("launcher",),
}  # fmt: skip
"""Kind or section -> kinds and sections with which it may be confused."""
SECONDS = 60
"""Time limit of an answer in seconds."""


class Slip(NamedTuple):
    """A command with one typing slip, and the command that was meant."""

    kind: str
    words: tuple[str, ...]
    """The words after `bench`, with the slip."""
    right: str
    """The word without the slip: a key, a name or `key=name`."""
    original: tuple[str, ...]
    """The words of the command without the slip."""


class Answer(NamedTuple):
    slip: Slip
    code: int
    text: str

    @property
    def names(self) -> bool:
        """Return whether the answer names the word that was meant."""
        right = re.escape(self.slip.right)
        pattern = rf"(?<![\w.]){right}=|(?:['=(,]|, |bench |write ){right}(?:[',);?]|$| )(?!')"
        return re.search(pattern, self.text) is not None


def commands() -> list[tuple[str, ...]]:
    """Return the words of each `bench` command in README.md and docs, without duplicates and without commands that have
    placeholders."""
    pages = [page for page in PAGES if page.name == "README.md" or "docs" in page.parts]
    distinct = dict.fromkeys(command for page in pages for command in (*block_commands(page), *sentence_commands(page)))
    return [
        words
        for words in distinct
        if words and not words[0].startswith("-") and not PLACEHOLDER.search(" ".join(words))
    ]


def slips(words: Sequence[str], kind: str, rng: random.Random) -> Iterator[Slip]:
    """Yield slips of a kind in a command, in random order; none if no word of the command allows it."""
    places = list(range(len(words)))
    rng.shuffle(places)
    for place in places:
        word, before, after = words[place], tuple(words[:place]), tuple(words[place + 1 :])
        for broken, right in _broken(word, place == 0, kind, rng):
            yield Slip(kind, (*before, *broken, *after), right, tuple(words))


def _broken(word: str, first: bool, kind: str, rng: random.Random) -> list[tuple[list[str], str]]:
    """Return (broken words, word that was broken) for each slip of this kind in one word. `first`: whether it is the
    command's first word."""
    key, assigned, value = word.partition("=")
    values = [name for name in value.split(",") if re.fullmatch(r"[a-z][a-z0-9_-]+", name)]
    if first or word.startswith("--"):
        option = word.partition("=")[0]
        if len(option.strip("-")) < 3 or "=" in word:
            return []
        slips_of_kind = {"letter": _letter(option, rng), "space": _split_word(option, rng), "plural": [_plural(option)]}
        return [([*piece] if isinstance(piece, list) else [piece], option) for piece in slips_of_kind.get(kind, [])]
    if not assigned:
        return []
    name = rng.choice(values) if values and key != "output" else ""

    def renamed(other: str) -> str:
        return f"{key}=" + ",".join(other if piece == name else piece for piece in value.split(","))

    pairs: list[tuple[list[str], str]] = []
    if kind == "letter":
        pairs += [([f"{other}={value}"], key) for other in _letter(key, rng)]
        pairs += [([renamed(other)], name) for other in _letter(name, rng)] if name else []
    elif kind == "space":
        pairs += [([key, f"={value}"], key), ([f"{key}=", value], key)]
        pairs += [([*piece[:-1], f"{piece[-1]}={value}"], key) for piece in _split_word(key, rng)]
        pairs += [(renamed(" ".join(piece)).split(" "), name) for piece in _split_word(name, rng)] if name else []
        if "," in value:
            head, _, tail = word.partition(",")
            pairs.append(([f"{head},", tail], word))
    elif kind == "plural":
        pairs += [([f"{_plural(key)}={value}"], key)]
        pairs += [([renamed(_plural(name))], name)] if name else []
    elif kind == "kind":
        section, dot, field = key.partition(".")
        pairs += [([f"{other}{dot}{field}={value}"], key) for other in NEIGHBOURS.get(section, ())]
    elif kind == "missing":
        pairs += [([f"{key}="], key), ([value], key)] if name else [([f"{key}="], key)]
        pairs += [([key], key)]
    rng.shuffle(pairs)
    return pairs


def _letter(word: str, rng: random.Random) -> list[str]:
    """Return one misspelling of a word: a letter left out, doubled, replaced or swapped with its neighbour; [] for
    short words."""
    places = [number for number, letter in enumerate(word) if letter.isalpha()][1:]
    if len(places) < 2:
        return []
    at = rng.choice(places[:-1])
    slips_of_letters = [
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + rng.choice("aeionrst") + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    ]
    return rng.sample([other for other in slips_of_letters if other != word], 1)


def _split_word(word: str, rng: random.Random) -> list[list[str]]:
    """Return one way to split a word in two by a space, within it or in place of an underscore; [] for short words."""
    if "_" in word and rng.random() < 0.5:
        return [word.split("_", 1)]
    places = range(2, len(word) - 1)
    at = rng.choice(places) if len(places) else 0
    return [[word[:at], word[at:]]] if at else []


def _plural(word: str) -> str:
    return word[:-1] if word.endswith("s") else f"{word}s"


def answer(slip: Slip) -> Answer:
    """Run `bench` with the slip's words in an empty directory and return its exit code and output; commands that train
    are only planned."""
    output = io.StringIO()

    def late(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} s")

    home, carry_out = os.getcwd(), run_.carry_out
    before = signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        os.chdir(empty)
        run_.carry_out = lambda *_, **__: 0  # type: ignore[assignment]
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = cli.main(list(slip.words))
        except SystemExit as error:
            code = int(error.code or 0)
        except TimeoutError as error:
            code = 3
            print(error)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            run_.carry_out = carry_out
            os.chdir(home)
    return Answer(slip, code, " ".join(output.getvalue().split()))


def draw(count: int, seed: int) -> list[Answer]:
    """Return the answers to `count` broken commands, equally many of each kind of slip, none broken twice by the same
    kind."""
    rng = random.Random(seed)
    every, answers = commands(), list[Answer]()
    orders = {kind: rng.sample(every, len(every)) for kind in SLIPS}
    while len(answers) < count and any(orders.values()):
        kind = SLIPS[len(answers) % len(SLIPS)]
        if not orders[kind]:
            raise ValueError(f"only {len(answers)} slips can be drawn; ask for fewer")
        words = orders[kind].pop()
        if words[0] in PLANNING and answer(Slip("", words, "", words)).code not in (0, 1):
            continue  # it needs a package that a tutorial has its reader write
        for slip in slips(words, kind, rng):
            safe = words[0] in PLANNING or slip.words[0] != words[0] or slip.words[1:2] != words[1:2]
            if slip.words == words or not (safe or any(word not in words for word in slip.words)):
                continue
            reply = answer(slip)
            if reply.code not in (0, 1):
                answers.append(reply)
                break
    return answers


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.slips", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--count", type=int, default=200, help="number of broken commands")
    options = parser.parse_args(words)
    answers = draw(options.count, options.seed)
    for number, reply in enumerate(answers, 1):
        mark = "names" if reply.names else "READ "
        print(f"{number:>3} {reply.slip.kind:<8} {mark} $ bench {' '.join(reply.slip.words)}")
        print(f"    was: {reply.slip.right}\n    {reply.text[:400]}")
    print(f"{sum(reply.names for reply in answers)} of {len(answers)} answers name the word that was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
