"""Any registered environment as a task: its episodes are seeds and actions, by which they are played again."""

from __future__ import annotations

import hashlib
import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.gymnasium import server
from guidebench.suites.gymnasium.process import Host, Lost, shared

if TYPE_CHECKING:
    from guidebench.suites.gymnasium import Gymnasium

HEADER = np.dtype([("seed", "<i8"), ("step", "<i8")])
"""How a snapshot of a reproducible environment begins; the actions of its episode follow."""
SEEDS, STEPS = (1, 2, 3), 200
"""Episodes that the check of determinism plays, and most steps of each."""


class Environment:
    """An environment in another process. Its state is the seed of an episode and the actions since."""

    def __init__(self, suite: Gymnasium, task: str, renders: bool) -> None:
        self._suite, self._task, self._renders = suite, task, renders
        self._observations, actions = suite.spaces(task)
        self.action_type = "<f4" if actions.count is None else server.code_type(actions.count)
        self.width = np.dtype(self.action_type).itemsize * math.prod(actions.shape)
        """Bytes of an action."""
        self._recipe = suite.recipe(task)
        self.host: Host = shared(json.dumps([renders, self._recipe]), suite.executable)
        self._number, self._generation, self._is_placed = 0, 0, False
        self.seed: int | None = None
        self.actions = bytearray()

    def reset(self, seed: int) -> Array:
        """Begin the episode of a seed and return its first observation."""
        self.seed, self.actions, self._is_placed = seed, bytearray(), True
        return self._observation(self._robustly("reset", seed=seed)[1])

    def encoded(self, action: Any) -> bytes:
        """Return an action as it is sent, kept and put into snapshots."""
        return np.asarray(action, self.action_type).tobytes()

    def step(self, action: bytes) -> tuple[dict[str, Any], Array]:
        """Return reward and ends of a step, and the observation after it, given an encoded action. Raise Lost if the
        process is lost and the episode cannot be played again."""
        answer, arrays = self._robustly("step", action)
        self.actions += action
        return answer, self._observation(arrays)

    def render(self) -> Array:
        """Return the present frame, uint8 [height, width, 3]."""
        answer, arrays = self._robustly("render")
        if answer["shape"] != (usual := self._suite.frame):
            raise UserError(f"{self._task}: a frame has shape {answer['shape']}, and before they had {usual}")
        return np.frombuffer(arrays, np.uint8).reshape(answer["shape"])

    def place(self, seed: int | None, actions: bytes) -> None:
        """Let an episode continue after these actions, which are played when it is next stepped or drawn."""
        self.seed, self.actions, self._is_placed = seed, bytearray(actions), False

    def _observation(self, arrays: bytes) -> Array:
        return np.frombuffer(arrays, self._observations.numpy).reshape(self._observations.shape).copy()

    def _robustly(self, call: str, body: bytes = b"", **words: Any) -> tuple[dict[str, Any], bytes]:
        """Return the reply to a call. Where the process is lost, the episode is played again once in another one; then,
        and for what the environment raises, raise UserError with the call, the episode's seed and the step."""
        steps = len(self.actions) // self.width
        subject = f"{self._task}, {call} after step {steps} of the episode with seed {self.seed}"
        reason = ""
        try:
            return self._called(call, body, words)
        except Lost as error:
            if call != "reset" and not self._suite.reproduces:
                raise
            reason = str(error)
        except UserError as error:
            raise UserError(f"{subject}: {error}") from None
        try:
            return self._called(call, body, words)
        except (Lost, UserError) as error:
            raise UserError(f"{subject}: {reason}; when the episode was played again, {error}") from None

    def _called(self, call: str, body: bytes, words: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if self._generation != self.host.generation:
            description = self._suite.description
            self._number = self._exchange(
                "make", recipe=self._recipe, renders=self._renders, packages=description["packages"],
                spaces={name: description[name] for name in ("observations", "actions")},
            )[0]["env"]  # fmt: skip
            self._generation, self._is_placed = self.host.generation, False
        if not self._is_placed and call != "reset" and self.seed is not None:
            self._exchange("reset", seed=self.seed)
            if self.actions:
                self._exchange("play", bytes(self.actions), width=self.width)
        self._is_placed = True
        return self._exchange(call, body, **words)

    def _exchange(self, call: str, body: bytes = b"", **words: Any) -> tuple[dict[str, Any], bytes]:
        limit = self._suite.step_limit if call in ("step", "render") else self._suite.reset_limit
        if call == "play":
            limit += self._suite.step_limit
        return self.host.call(call, limit, body, self._suite.longest_reply, env=self._number, **words)


class GymnasiumTask:
    """A registered environment with a stream of its own, from which the seed of every episode is drawn."""

    def __init__(self, suite: Gymnasium, task: str) -> None:
        self._suite = suite
        self.instruction, self.max_steps = suite.instruction or task, suite.horizon(task)
        self._environment = Environment(suite, task, renders=not suite.reproduces and suite.frame is not None)
        self._stream = np.random.default_rng(0)
        self._clock, self._return, self._has_succeeded, self._is_cut = 0, 0.0, False, False
        self._observation: Array = np.zeros(0)

    def reset(self, seed: int | None = None) -> Array:
        """Begin the episode whose seed the task's stream draws next."""
        if seed is not None:
            self._stream = np.random.default_rng(seed)
        self._clock, self._return, self._has_succeeded, self._is_cut = 0, 0.0, False, False
        self._observation = self._environment.reset(int(self._stream.integers(2**31)))
        return self._observation

    def step(self, action: Any) -> Step:
        """Take a step. An episode that cannot go on, since its process was lost or its run was resumed and it cannot
        be played again, is truncated here without a reward."""
        if not self._is_cut:
            try:
                answer, self._observation = self._environment.step(self._environment.encoded(action))
            except Lost:
                self._is_cut = True
        if self._is_cut:
            return Step(self._observation, 0.0, False, True, self._has_succeeded)
        self._clock += 1
        self._return += answer["reward"]
        terminated = answer["terminated"]
        truncated = not terminated and (answer["truncated"] or self._clock >= self.max_steps)
        succeeds = self._suite.succeeds(answer, self._return, terminated, truncated)
        latched = self._suite.success_when == "any"
        self._has_succeeded = succeeds or (latched and self._has_succeeded)
        return Step(self._observation, answer["reward"], terminated, truncated, self._has_succeeded)

    def events(self) -> Array:
        return np.zeros(0, bool)

    def snapshot(self) -> Array:
        """Return the episode's seed and step and its actions, padded with zeros; of an environment that is not
        reproducible, the frame."""
        environment = self._environment
        packed = np.zeros(self._suite.snapshot_bytes, np.uint8)
        if not self._suite.reproduces:
            packed[:] = environment.render().ravel()
        elif environment.seed is not None:
            header = np.array((environment.seed, self._clock), HEADER)
            prefix = header.tobytes() + environment.actions
            packed[: len(prefix)] = np.frombuffer(prefix, np.uint8)
        return packed

    def position(self) -> None:
        """Return None: nothing tells whether the dynamics depend on the time."""

    def state(self) -> State:
        environment = self._environment
        return {
            "stream": self._stream.bit_generator.state,
            "seed": environment.seed,
            "actions": np.frombuffer(bytes(environment.actions), np.uint8),
            "clock": self._clock,
            "return": self._return,
            "succeeded": self._has_succeeded,
            "observation": self._observation,
            "cut": self._is_cut,
        }

    def load_state(self, state: State) -> None:
        """Continue an episode by playing its actions again; one that is not reproducible ends at its next step."""
        self._stream.bit_generator.state = state["stream"]
        self._environment.place(state["seed"], np.asarray(state["actions"], np.uint8).tobytes())
        self._clock, self._return = int(state["clock"]), float(state["return"])
        self._has_succeeded, self._observation = bool(state["succeeded"]), np.array(state["observation"])
        self._is_cut = bool(state["cut"]) or not self._suite.reproduces


class GymnasiumDrawer:
    """Draws snapshots by a copy of the environment, which plays their episodes to the step."""

    def __init__(self, suite: Gymnasium, task: str) -> None:
        self._suite = suite
        self._environment = Environment(suite, task, renders=True) if suite.reproduces else None

    def __call__(self, snapshots: Array) -> Array:
        """Draw the frames, uint8 [L, height, width, 3], of snapshots, uint8 [L, n]."""
        shape = tuple(self._suite.frame or ())
        if self._environment is None:
            return np.ascontiguousarray(snapshots).reshape(len(snapshots), *shape)
        frames = np.empty((len(snapshots), *shape), np.uint8)
        for frame, snapshot in zip(frames, np.ascontiguousarray(snapshots), strict=True):
            seed, step = snapshot[: HEADER.itemsize].view(HEADER)[0]
            copy, size = self._environment, int(step) * self._environment.width
            actions = snapshot[HEADER.itemsize :][:size].tobytes()
            if copy.seed != seed or not actions.startswith(bytes(copy.actions)):
                copy.reset(int(seed))
            for first in range(len(copy.actions), size, copy.width):
                copy.step(actions[first : first + copy.width])
            frame[:] = copy.render()
        return frames


class Check(NamedTuple):
    """What playing an environment twice shows."""

    reproduces: bool
    seconds: float
    """Seconds of a step."""


def check(suite: Gymnasium, task: str) -> Check:
    """Play episodes twice in one instance with another between, and once in a fresh process, and compare observations,
    rewards and ends."""
    environments = [Environment(suite, task, renders=False) for _ in range(2)]
    environments[1].host = Host(suite.executable)
    started = time.monotonic()
    try:
        plays = [_digest(environments[0], suite, seed) for seed in SEEDS]
        steps = sum(count for _, count in plays)
        seconds = (time.monotonic() - started) / max(steps, 1)
        again = [_digest(environments[0], suite, seed) for seed in SEEDS]
        fresh = [_digest(environments[1], suite, seed) for seed in SEEDS]
    except Lost as error:
        raise UserError(f"{task}: {error}") from None
    finally:
        environments[1].host.close()
    return Check(plays == again == fresh, seconds)


def _digest(environment: Environment, suite: Gymnasium, seed: int) -> tuple[str, int]:
    """Return a digest of an episode of random actions, and its number of steps."""
    random, space = np.random.default_rng(seed), suite.spaces("")[1]
    digest = hashlib.sha256(environment.reset(seed).tobytes())
    steps = 0
    while steps < STEPS:
        action = random.uniform(-1, 1, space.shape) if space.count is None else random.integers(space.count)
        answer, observation = environment.step(environment.encoded(action))
        steps += 1
        digest.update(json.dumps(answer).encode() + observation.tobytes())
        if answer["terminated"] or answer["truncated"]:
            break
    return digest.hexdigest(), steps
