"""The classifier that is trained on the suite's own demonstrations and failures, and asked with each prompt.

Its weights follow from the settings, the suite and the drawing alone, and are cached by content, so that a resumed run
gets the same answers.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from guidebench.harness.capabilities import Fails, InstructsBySnapshot
from guidebench.harness.episodes import files
from guidebench.harness.errors import UserError
from guidebench.harness.identity.provenance import packages
from guidebench.harness.interfaces import Array, Drawer
from guidebench.methods.robofume.dialogue import prompts
from guidebench.methods.robofume.network import SuccessNetwork, prepared, views_of

if TYPE_CHECKING:
    from guidebench.methods.robofume.judges import Trained

SCHEMA = 1
ENTROPY = 25
"""Entropy of the layouts' seeds, distinct from those of training, evaluation, probes, demonstrations and datasets."""
ATTEMPTS = 5
"""Maximum attempts per episode."""
SHIFT = 2
"""Pixels by which a batch of frames is moved at most along each axis (choice: small beside a bin's 10 pixels)."""
DECAY = 1e-4
"""Weight decay of AdamW (choice)."""


class Shown(NamedTuple):
    """The judged states of one episode."""

    instruction: str
    frames: Array  # uint8 [n, height, width, 3]
    success: Array  # bool [n]


class Words(NamedTuple):
    """What the network knows of prompts."""

    told: tuple[str, ...]
    """Words in which prompts about two instructions differ; each is one input."""
    seen: frozenset[str]
    """All words of the prompts that it was trained with."""

    def inputs(self, prompt: str) -> Array:
        """Return a one and the presence of each told word, float32 [1 + words]. UserError for a prompt with a word that
        no prompt in training had, such as another colour."""
        found = _words(prompt)
        if new := [word for word in found if word not in self.seen]:
            raise UserError(
                f"the classifier was trained on instructions without the word {new[0]!r}, which is in {prompt!r}: name "
                f"the tasks whose instructions have it in classifier.tasks, or train on more episodes "
                f"(classifier.demonstrations, classifier.failures)"
            )
        return np.array([1, *(word in found for word in self.told)], np.float32)


def _words(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())


def vocabulary(instructions: Sequence[str], joined: bool) -> Words:
    """Return the words by which prompts tell instructions apart, sorted; `joined`: whether frames show two views."""
    told: set[str] = set()
    seen: set[str] = set()
    for wording in zip(*(prompts(each, joined) for each in instructions), strict=True):
        bags: list[set[str]] = [{*_words(str(prompt))} for prompt in wording]
        seen |= bags[0].union(*bags)
        told |= bags[0].union(*bags) - bags[0].intersection(*bags)
    return Words(tuple(sorted(told)), frozenset(seen))


# Episodes


def shown(settings: Trained, suite: Any, tasks: Sequence[str], draw: Drawer) -> list[Shown]:
    """Return the demonstrations of each task and the failures, of the tasks in turn and of the suite's ways in turn.
    UserError where too few attempts end as they should."""
    suite = suite.in_evaluation()
    found = []
    for group, task in enumerate(tasks):
        attempts = ((task, suite.demonstrate(task, _seed(group, number))) for number in _attempts())
        found += _first(settings.demonstrations, f"demonstrations of {task}", attempts, lambda each: each.success[-1])
    if settings.failures:
        failing: Fails = suite

        def failures() -> Iterator[tuple[str, Any]]:
            for number in _attempts():
                task = tasks[number % len(tasks)]
                ways = failing.failures(task)
                how = ways[number // len(tasks) % len(ways)]
                yield task, failing.fail(task, _seed(len(tasks), number), how)

        found += _first(settings.failures, "failures", failures(), lambda each: not each.success.any())
    return [_drawn(suite, task, episode, draw, settings.every) for task, episode in found]


def _attempts() -> range:
    return range(10**6)


def _first(
    count: int, what: str, attempts: Iterator[tuple[str, Any]], good: Callable[[Any], bool]
) -> list[tuple[str, Any]]:
    """Return the first `count` good episodes of at most `ATTEMPTS` times as many attempts."""
    found = []
    for _ in range(ATTEMPTS * count):
        task, episode = next(attempts)
        if episode is not None and good(episode):
            found.append((task, episode))
        if len(found) == count:
            return found
    raise UserError(
        f"{len(found)} of {ATTEMPTS * count} attempts gave {what} for the classifier and {count} are needed: take "
        f"fewer (classifier.demonstrations, classifier.failures) or other tasks (classifier.tasks)"
    )


def _drawn(suite: Any, task: str, episode: Any, draw: Drawer, every: int) -> Shown:
    """Return every k-th state of an episode, and its last one."""
    steps = np.arange(episode.length - 1, -1, -every)[::-1]
    snapshots = episode.snapshot[steps]
    if isinstance(suite, InstructsBySnapshot):
        instruction = suite.instruction_at(task, snapshots[0])
    else:
        instruction = suite.make(task).instruction
    return Shown(instruction, draw(snapshots), np.asarray(episode.success[steps], bool))


def _seed(group: int, attempt: int) -> int:
    return int(np.random.SeedSequence(ENTROPY, spawn_key=(group, attempt)).generate_state(1)[0] >> 1)


# Training


def fit(episodes: Sequence[Shown], settings: Trained) -> tuple[SuccessNetwork, Words]:
    """Return the network, trained by the binary cross entropy of single frames, each with one of the prompts about its
    episode, and its words. UserError where no frame, or every frame, is a success."""
    success = np.concatenate([each.success for each in episodes])
    if success.all() or not success.any():
        raise UserError(
            f"{'every' if success.all() else 'no'} frame of the classifier's {len(success):,} training frames shows a "
            f"success, so it cannot learn what one is; take more demonstrations (classifier.demonstrations), or "
            f"failures (classifier.failures)"
        )
    count = views_of(episodes[0].frames[0])
    words = vocabulary(list(dict.fromkeys(each.instruction for each in episodes)), count == 2)
    bags = np.array([[words.inputs(each) for each in prompts(one.instruction, count == 2)] for one in episodes])
    owner = torch.from_numpy(np.repeat(np.arange(len(episodes)), [len(each.success) for each in episodes]))
    asked, target = torch.from_numpy(bags), torch.from_numpy(success.astype(np.float32))
    with _alone(settings.seed):
        frames = torch.cat([prepared(each.frames) for each in episodes])
        network = SuccessNetwork(count, asked.shape[2])
        optimiser = torch.optim.AdamW(network.parameters(), settings.lr, weight_decay=DECAY)
        for update in range(settings.updates):
            for group in optimiser.param_groups:
                group["lr"] = settings.lr * (1 - update / settings.updates)
            drawn = torch.randint(len(frames), (settings.batch_size,))
            wording = torch.randint(asked.shape[1], (settings.batch_size,))
            down, right = torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist()
            logits = network(torch.roll(frames[drawn], (down, right), (2, 3)), asked[owner[drawn], wording])
            loss = functional.binary_cross_entropy_with_logits(logits, target[drawn])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return network.eval(), words


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Draw random numbers from this seed, and restore the process's own generator afterwards."""
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread, so that no result depends on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# The judge


class TrainedClassifier:
    """A judge that reads prompts (`harness.interfaces.ReadsPrompts`)."""

    def __init__(self, network: SuccessNetwork, words: Words) -> None:
        self._network, self._words, self._views = network, words, network.views

    def judge(self, clip: Array, prompt: str) -> float:
        """Return P(success) of the last frame of a clip. UserError for frames of another number of views, or a prompt
        with words that no prompt in training had."""
        frame = clip[-1:]
        if (views := views_of(frame[0])) != self._views:
            raise UserError(
                f"a frame of {frame.shape[1]} × {frame.shape[2]} pixels shows {views} views, and the classifier was "
                f"trained on {self._views}; draw frames by the same drawing.camera"
            )
        inputs = torch.from_numpy(self._words.inputs(prompt)[None])
        with _one_thread(), torch.inference_mode():
            return float(torch.sigmoid(self._network(prepared(frame), inputs))[0])


def obtain(settings: Trained, suite: Any, task: str, drawing: Any) -> TrainedClassifier:
    """Return the classifier, trained unless it is cached. `drawing` is that of the judged frames, of which a
    perturbation is left out: it is to show what the classifier makes of frames unlike those it was trained on."""
    tasks = settings.tasks or (task,)
    if any(field.name == "perturbation" for field in dataclasses.fields(drawing)):
        drawing = dataclasses.replace(drawing, perturbation="none")
    trained = {name: value for name, value in asdict(settings).items() if name not in ("delay", "timeout")}
    content = {
        "schema": SCHEMA,
        "classifier": {**trained, "tasks": list(tasks), "version": settings.version},
        "suite": {"part": type(suite).__module__, "version": suite.version, "settings": asdict(suite)},
        "drawing": asdict(drawing),
        "packages": packages(),
    }
    file = files.root("classifiers") / f"{files.key(content)}.json"
    names = tuple(SuccessNetwork(1, 1).state_dict())
    found = files.read(file, names)
    if found is None:
        network, words = fit(shown(settings, suite, tasks, drawing.spawn(tasks[0])), settings)
        weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        files.keep(file, content, [{"told": list(words.told), "seen": sorted(words.seen)}], [weights])
        return TrainedClassifier(network, words)
    (said,), (arrays,) = found.described, found.arrays
    words = Words(tuple(said["told"]), frozenset(said["seen"]))
    network = SuccessNetwork(arrays["shapes.weight"].shape[1] // 3, 1 + len(words.told))
    network.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()})
    return TrainedClassifier(network.eval(), words)
