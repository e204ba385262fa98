"""The classifier that is trained on the suite's own demonstrations and failures, and that reads prompts.

Its weights depend only on the settings, the suite and the drawing, and are cached by these, so that a resumed run gets
the same answers.
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
    from guidebench.methods.robofume.judges import TrainedJudge

SCHEMA = 1
ENTROPY = 25
"""Entropy of the layouts' seeds, distinct from those of training, evaluation, probes, demonstrations and datasets."""
ATTEMPTS = 5
"""Maximum attempts per episode."""
SHIFT = 2
"""Pixels by which a batch of frames is moved at most along each axis (choice: small beside a bin's 10 pixels)."""
DECAY = 1e-4
"""Weight decay of AdamW (choice)."""


class JudgedEpisode(NamedTuple):
    """The judged states of one episode."""

    instruction: str
    frames: Array  # uint8 [n, height, width, 3]
    success: Array  # bool [n]


class PromptWords(NamedTuple):
    """The words of prompts that the network knows."""

    input_words: tuple[str, ...]
    """Words that are not in the prompts of every instruction; each is one input of the network."""
    trained_words: frozenset[str]
    """All words of the prompts that it was trained with."""

    def inputs(self, prompt: str) -> Array:
        """Return a prompt as the network's input, float32 [1 + words]: a constant 1, then 1 for each of `input_words`
        that occurs in the prompt and 0 for the others. UserError for a prompt with a word that no training prompt had,
        such as another colour."""
        words = _words(prompt)
        if new := [word for word in words if word not in self.trained_words]:
            raise UserError(
                f"the classifier was trained on instructions without the word {new[0]!r}, which is in {prompt!r}: name "
                f"the tasks whose instructions have it in classifier.tasks, or train on more episodes "
                f"(classifier.demonstrations, classifier.failures)"
            )
        return np.array([1, *(word in words for word in self.input_words)], np.float32)


def _words(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())


def vocabulary(instructions: Sequence[str], joined: bool) -> PromptWords:
    """Return the words of the prompts about these instructions, and which of them distinguish the instructions.
    `joined`: whether frames show two views side by side."""
    differing: set[str] = set()
    known_words: set[str] = set()
    for wording in zip(*(prompts(instruction, joined) for instruction in instructions), strict=True):
        bags: list[set[str]] = [{*_words(str(prompt))} for prompt in wording]
        known_words |= bags[0].union(*bags)
        differing |= bags[0].union(*bags) - bags[0].intersection(*bags)
    return PromptWords(tuple(sorted(differing)), frozenset(known_words))


# Episodes


def training_episodes(settings: TrainedJudge, suite: Any, tasks: Sequence[str], draw: Drawer) -> list[JudgedEpisode]:
    """Return the classifier's training episodes: `settings.demonstrations` successes of each task, and
    `settings.failures` failures, which go through the tasks and the suite's ways to fail in turn. UserError where too
    few attempts end as they should."""
    suite = suite.in_evaluation()
    episodes = []
    for group, task in enumerate(tasks):
        attempts = ((task, suite.demonstrate(task, _seed(group, number))) for number in _attempts())
        episodes += _first(
            settings.demonstrations,
            f"demonstrations of {task}",
            attempts,
            lambda demonstration: demonstration.success[-1],
        )
    if settings.failures:
        failing: Fails = suite

        def failures() -> Iterator[tuple[str, Any]]:
            for number in _attempts():
                task = tasks[number % len(tasks)]
                ways = failing.failures(task)
                how = ways[number // len(tasks) % len(ways)]
                yield task, failing.fail(task, _seed(len(tasks), number), how)

        episodes += _first(settings.failures, "failures", failures(), lambda episode: not episode.success.any())
    return [_drawn(suite, task, episode, draw, settings.every) for task, episode in episodes]


def _attempts() -> range:
    return range(10**6)


def _first(
    count: int, purpose: str, attempts: Iterator[tuple[str, Any]], good: Callable[[Any], bool]
) -> list[tuple[str, Any]]:
    """Return the first `count` attempts, (task, episode), that are `good`, out of at most `ATTEMPTS` times as many.
    UserError if there are fewer; `purpose`: what they are, for its message."""
    successes = []
    for _ in range(ATTEMPTS * count):
        task, episode = next(attempts)
        if episode is not None and good(episode):
            successes.append((task, episode))
        if len(successes) == count:
            return successes
    raise UserError(
        f"{len(successes)} of {ATTEMPTS * count} attempts gave {purpose} for the classifier and {count} are needed: "
        f"take fewer (classifier.demonstrations, classifier.failures) or other tasks (classifier.tasks)"
    )


def _drawn(suite: Any, task: str, episode: Any, draw: Drawer, every: int) -> JudgedEpisode:
    """Return the judged states of an episode: every `every`-th one, counted back from the last, with drawn frames."""
    steps = np.arange(episode.length - 1, -1, -every)[::-1]
    snapshots = episode.snapshot[steps]
    if isinstance(suite, InstructsBySnapshot):
        instruction = suite.instruction_at(task, snapshots[0])
    else:
        instruction = suite.make(task).instruction
    return JudgedEpisode(instruction, draw(snapshots), np.asarray(episode.success[steps], bool))


def _seed(group: int, attempt: int) -> int:
    return int(np.random.SeedSequence(ENTROPY, spawn_key=(group, attempt)).generate_state(1)[0] >> 1)


# Training


def fit(episodes: Sequence[JudgedEpisode], settings: TrainedJudge) -> tuple[SuccessNetwork, PromptWords]:
    """Return the trained network and the words of its prompts. The loss is the binary cross entropy of single frames,
    each with one of the prompts about its episode. UserError if no frame, or every frame, is a success."""
    success = np.concatenate([episode.success for episode in episodes])
    if success.all() or not success.any():
        raise UserError(
            f"{'every' if success.all() else 'no'} frame of the classifier's {len(success):,} training frames shows a "
            f"success, so it cannot learn what one is; take more demonstrations (classifier.demonstrations), or "
            f"failures (classifier.failures)"
        )
    count = views_of(episodes[0].frames[0])
    words = vocabulary(list(dict.fromkeys(episode.instruction for episode in episodes)), count == 2)
    bags = np.array([
        [words.inputs(prompt) for prompt in prompts(episode.instruction, count == 2)] for episode in episodes
    ])  # fmt: skip
    owner = torch.from_numpy(np.repeat(np.arange(len(episodes)), [len(episode.success) for episode in episodes]))
    prompt_inputs, target = torch.from_numpy(bags), torch.from_numpy(success.astype(np.float32))
    with _alone(settings.seed):
        frames = torch.cat([prepared(episode.frames) for episode in episodes])
        network = SuccessNetwork(count, prompt_inputs.shape[2])
        optimiser = torch.optim.AdamW(network.parameters(), settings.lr, weight_decay=DECAY)
        for update in range(settings.updates):
            for group in optimiser.param_groups:
                group["lr"] = settings.lr * (1 - update / settings.updates)
            chosen = torch.randint(len(frames), (settings.batch_size,))
            wording = torch.randint(prompt_inputs.shape[1], (settings.batch_size,))
            down, right = torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist()
            logits = network(torch.roll(frames[chosen], (down, right), (2, 3)), prompt_inputs[owner[chosen], wording])
            loss = functional.binary_cross_entropy_with_logits(logits, target[chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return network.eval(), words


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Context in which PyTorch draws from this seed on one thread; its own generator's state is restored afterwards."""
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _one_thread() -> Iterator[None]:
    """Context in which PyTorch computes on one thread, so that numbers do not depend on the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# The judge


class TrainedClassifier:
    """A judge that answers prompts by the trained network (`harness.interfaces.ReadsPrompts`)."""

    def __init__(self, network: SuccessNetwork, words: PromptWords) -> None:
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


def obtain(settings: TrainedJudge, suite: Any, task: str, drawing: Any) -> TrainedClassifier:
    """Return the classifier for a task, from the cache or else trained. `drawing`: how judged frames are drawn; its
    perturbation is left out in training, so that a run can test the classifier on frames unlike its training frames."""
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
    cached = files.read(file, names)
    if cached is None:
        network, words = fit(training_episodes(settings, suite, tasks, drawing.spawn(tasks[0])), settings)
        weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        files.keep(file, content, [{"told": list(words.input_words), "seen": sorted(words.trained_words)}], [weights])
        return TrainedClassifier(network, words)
    (stored_words,), (arrays,) = cached.described, cached.arrays
    words = PromptWords(tuple(stored_words["told"]), frozenset(stored_words["seen"]))
    network = SuccessNetwork(arrays["shapes.weight"].shape[1] // 3, 1 + len(words.input_words))
    network.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()})
    return TrainedClassifier(network.eval(), words)
