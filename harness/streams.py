"""Random streams: every seed has one generator per purpose, so its random numbers do not depend on packing."""

from __future__ import annotations

import zlib

import numpy as np

from guidebench.harness.types import State

PURPOSES = ("environment", "initial", "explore", "sample", "noise", "judge", "evaluation", "teach")


class Streams:
    """The generators of one seed, spawned from `SeedSequence(seed)` by purpose."""

    environment: np.random.Generator
    initial: np.random.Generator
    explore: np.random.Generator
    sample: np.random.Generator
    noise: np.random.Generator
    judge: np.random.Generator
    teach: np.random.Generator

    def __init__(self, seed: int) -> None:
        self.seed = seed
        for key, purpose in enumerate(PURPOSES):
            sequence = np.random.SeedSequence(entropy=seed, spawn_key=(key,))
            setattr(self, purpose, np.random.default_rng(sequence))
        self._named: dict[str, np.random.Generator] = {}

    def named(self, name: str) -> np.random.Generator:
        """Return the generator of a part's own purpose, such as a second experience; the same generator for the same
        name."""
        if name not in self._named:
            self._named[name] = self._begun(name)
        return self._named[name]

    def branch(self, name: str) -> Branch:
        """Return separate generators for a second part of one kind, such as an agent's second learner."""
        return Branch(self, name)

    def _begun(self, name: str) -> np.random.Generator:
        key = (len(PURPOSES), zlib.crc32(name.encode()))
        return np.random.default_rng(np.random.SeedSequence(entropy=self.seed, spawn_key=key))

    def evaluation_seed(self, step: int, episode: int) -> int:
        """Return the reset seed of an evaluation episode: a function of (seed, step, episode) only, without state."""
        key = (PURPOSES.index("evaluation"), step, episode)
        return int(np.random.SeedSequence(entropy=self.seed, spawn_key=key).generate_state(1, np.uint32)[0] >> 1)

    def of_question(self, ordinal: int, role: str = "judge", scope: str = "") -> np.random.Generator:
        """Return the generator of one question: a function of (seed, role, scope, ordinal) only, without state.
        `scope`: the evaluation episode that the question belongs to; "" in training."""
        names = (role, scope) if scope else () if role == "judge" else (role,)
        key = (PURPOSES.index("judge"), ordinal, *(zlib.crc32(name.encode()) for name in names))
        return np.random.default_rng(np.random.SeedSequence(entropy=self.seed, spawn_key=key))

    def state(self) -> State:
        fixed = {purpose: getattr(self, purpose).bit_generator.state for purpose in PURPOSES}
        return {**fixed, "named": {name: generator.bit_generator.state for name, generator in self._named.items()}}

    def load_state(self, state: State) -> None:
        for purpose in PURPOSES:
            if purpose in state:  # a purpose missing from the checkpoint keeps its initial state
                getattr(self, purpose).bit_generator.state = state[purpose]
        for name in {*self._named, *state["named"]}:
            generator_state = state["named"].get(name) or self._begun(name).bit_generator.state
            self.named(name).bit_generator.state = generator_state


class Branch(Streams):
    """The generators of one part of a seed: each purpose's is the seed's own named NAME/PURPOSE, so that the seed's
    state holds it."""

    def __init__(self, trunk: Streams, name: str) -> None:
        self.seed, self._trunk, self._name = trunk.seed, trunk, name
        self._named = {}
        for purpose in PURPOSES:
            setattr(self, purpose, self.named(purpose))

    def named(self, name: str) -> np.random.Generator:
        return self._trunk.named(f"{self._name}/{name}")
