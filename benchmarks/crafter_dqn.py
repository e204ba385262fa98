"""DQN on Crafter: against Stable-Baselines3's DQN on an equal vector, and with sentences against symbols alone.

    python -m benchmarks.crafter_dqn [--rounds 10]                    training steps per second of our agents
    PYTHONPATH=. peers/bin/python -P -m benchmarks.crafter_dqn        the same, and Stable-Baselines3's

The peer sees what `symbols` show as one float32 vector of ones and zeros, and so does our contender `flat`: the same
environment, network (one hidden layer of 512), batch, schedule and ordinary Q-learning, with settings of ELLM. The
other contenders are `symbols` with our encoder of grids, and the agent `language_conditioned` on `text`, which has the
sentences embedded by hand-written code (`scripted`) or by a BERT of the shape of paraphrase-MiniLM-L3 with random
weights (`sbert_shape`); these need no peers. All contenders alternate in training (benchmarks/turns.py), one thread
each; a model process is another thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.cartpole import after_each_step
from benchmarks.table import Line
from benchmarks.turns import Contender, Turns, interleave, rate, ratios, tell, train
from guidebench.harness.interfaces import Actions, Array, Observations, RunPhase, Step
from guidebench.harness.loop import training
from guidebench.harness.plan import config, roles
from guidebench.harness.plan.names import Names
from guidebench.harness.registry import register
from guidebench.harness.run.study import ring_bytes
from guidebench.harness.settings import cite
from guidebench.suites.crafter import Crafter
from guidebench.suites.crafter.observations import KINDS

PEER = "stable_baselines3"
CELL = {"task": "game", "profile": "benchmark", "method": "uer"}
LEARNER = {"learner": "dqn"}
"""The learner that is the peer's; the suite's own is dueling, with three-step returns."""
SCRIPTED = {"text_embedder": "scripted", "text_embedder.width": "384"}
LANGUAGE = {"suite": "crafter_dqn", "suite.observation": "text", "agent": "language_conditioned"}
CELLS: Mapping[str, Mapping[str, str]] = {
    "flat": {"suite": "crafter_dqn_flat"},
    "symbols": {"suite": "crafter_dqn"},
    "scripted": LANGUAGE | SCRIPTED,
    "sbert_shape": LANGUAGE | {"text_embedder": "transformers_text_embedder"},
}
"""Contender -> the parts and settings of its cell."""
LAYERS: Mapping[str, Any] = {
    "learner.dqn.double": cite(False, "Stable-Baselines3's DQN"),
    "training.capacity": cite(20_000, "as the peer's, whose buffer keeps two float32 vectors for each transition"),
    "training.steps": cite(100_000, "more than a benchmark trains"),
}


@register.suite("crafter_dqn")
@dataclass(frozen=True, kw_only=True)
class Measured(Crafter):
    """The suite `crafter` with ELLM's settings of DQN and a small replay."""

    defaults: ClassVar[Mapping[str, Any]] = {**Crafter.defaults, **LAYERS}
    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {"benchmark": {}}


@register.suite("crafter_dqn_flat")
@dataclass(frozen=True, kw_only=True)
class Flat(Measured):
    """`symbols` as a vector of ones and zeros, with the daylight at its end."""

    def spaces(self, task: str) -> tuple[Observations, Actions]:
        symbols, actions = super().spaces(task)
        return Observations((sum(map(int, counts(symbols))) + 1,), "float32"), actions

    def make(self, task: str) -> Any:
        return FlatTask(super().make(task), super().spaces(task)[0])


def counts(symbols: Observations) -> Array:
    """Return the number of values of each code of `symbols`, in the order of its parts, int64 [codes]."""
    local, inventory, status = (symbols.parts[name] for name in ("local", "inventory", "status"))
    cells = np.tile(local.categories or (), local.shape[0] * local.shape[1])
    return np.concatenate([cells, inventory.categories or (), status.categories or ()]).astype(np.int64)


class FlatTask:
    """A task whose symbols are one vector."""

    def __init__(self, task: Any, symbols: Observations) -> None:
        self._task = task
        sizes = counts(symbols)
        self._starts = np.cumsum(sizes) - sizes
        self._width = int(sizes.sum()) + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def reset(self, seed: int | None = None) -> Array:
        return self._vector(self._task.reset(seed))

    def step(self, action: Any) -> Step:
        step: Step = self._task.step(action)
        return step._replace(observation=self._vector(step.observation))

    def _vector(self, record: Array) -> Array:
        codes = np.concatenate([record["local"].ravel(), record["inventory"], record["status"]])
        vector = np.zeros(self._width, np.float32)
        vector[self._starts + codes] = 1
        vector[-1] = record["daylight"][0]
        return vector


def peer(seed: int) -> Any:
    """Return Stable-Baselines3's DQN on the flat task with the settings of our contender."""
    import gymnasium
    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    task = Flat().make("game")

    class Environment(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 1, Flat().spaces("game")[0].shape, np.float32)
        action_space = gymnasium.spaces.Discrete(17)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
            return task.reset(seed), {}

        def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
            step = task.step(int(action))
            return step.observation, step.reward, step.terminated, step.truncated, {}

    cell_names = {**CELL, **CELLS["flat"]}
    names = Names(**cell_names, parts=roles.parts_of(chosen=LEARNER, **cell_names))
    hparams = {key: value.value for key, value in config.base_settings(names).items()}
    return DQN(
        "MlpPolicy", Environment(), policy_kwargs={"net_arch": list(hparams["learner.hidden"])}, seed=seed,
        device="cpu", learning_rate=hparams["learner.lr"], buffer_size=hparams["training.capacity"],
        batch_size=hparams["learner.batch_size"], learning_starts=hparams["learner.learning_starts"],
        gamma=hparams["learner.discount"], train_freq=hparams["learner.train_every"],
        gradient_steps=hparams["learner.gradient_steps"], target_update_interval=hparams["learner.target_every"],
        exploration_fraction=hparams["learner.exploration_share"],
        exploration_initial_eps=hparams["learner.epsilon_start"], exploration_final_eps=hparams["learner.epsilon_end"],
        max_grad_norm=hparams["learner.max_grad_norm"],
    )  # fmt: skip


def sbert_shape(directory: Path) -> Path:
    """Save a BERT of the shape of paraphrase-MiniLM-L3-v2 (3 layers of 384, 12 heads) with random weights, and return
    its directory. A letter is a token here, so its texts are about four times as long."""
    from transformers import BertConfig, BertModel

    from tests.harness.models import tiny_models

    words = tiny_models.tokenizer(["[PAD]", "[CLS]", "[SEP]"], "[SEP]", "[PAD]", around=("[CLS]", "[SEP]"))
    shape = BertConfig(
        vocab_size=30_522, hidden_size=384, num_hidden_layers=3, num_attention_heads=12, intermediate_size=1_536
    )
    BertModel(shape).save_pretrained(directory)
    words.save_pretrained(directory)
    (directory / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    return directory


def contend(name: str, start: int, turn: int) -> None:
    """Train one contender in its own process."""
    if name == "peer":
        model = peer(0)
        model.learn(100_000, callback=after_each_step(Turns(start, turn)))
        tell({})
        return
    with tempfile.TemporaryDirectory() as folder:
        model = {"text_embedder.model": str(sbert_shape(Path(folder)))} if name == "sbert_shape" else {}
        tell(train({**CELL, **LEARNER, **CELLS[name], **model}, after_each_advance(Turns(start, turn))))


def after_each_advance(turns: Turns) -> Callable[[], bool]:
    """Return a stop function for a worker that counts steps of its training loop. `Turns` itself would also count the
    loop's checks while it waits for a vector."""
    advance, ended = training.Loop.advance, False

    def advanced(loop: training.Loop, phase: RunPhase) -> None:
        nonlocal ended
        advance(loop, phase)
        ended = turns()

    training.Loop.advance = advanced  # type: ignore[method-assign]
    return lambda: ended


def stored_bytes() -> dict[str, int]:
    """Return the bytes of a stored transition of each kind of observation with pictures of 84 pixels; sentences are
    stored as the agent `language_conditioned` reads them, with a goal and without."""
    sizes = {}
    home = {"suite": "crafter", "task": "game", "profile": "smoke", "method": "uer"}
    for kind in KINDS:
        observation_settings: dict[str, Any] = {"suite.observation": kind, "suite.size": 84}
        variants: dict[str, tuple[dict[str, str], dict[str, Any]]] = {kind: ({}, observation_settings)}
        if "text" in kind:
            chosen = {"agent": LANGUAGE["agent"], "text_embedder": "scripted"}
            embedded = observation_settings | {"text_embedder.width": 384}
            variants = {
                f"{kind}, embedded": (chosen, embedded),
                f"{kind}, embedded, without goal": (chosen, embedded | {"agent.goal": False}),
            }
        for name, (chosen, settings) in variants.items():
            names = Names(**home, parts=roles.parts_of(chosen=chosen, **home))
            cell = config.resolve(names, settings, {})
            sizes[name] = ring_bytes(cell) // cell.section("training").capacity
    return sizes


def measure(rounds: int, start: int, turn: int, names: list[str]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    contenders = {
        name: Contender("benchmarks.crafter_dqn", ["--contend", name, "--start", str(start), "--turn", str(turn)])
        for name in names
    }
    interleave([*contenders.values()], rounds)
    for contender in contenders.values():
        contender.close()
    figures: dict[str, Any] = {
        "rounds": rounds, "start": start, "turn": turn, "load": [load, os.getloadavg()[0]],
        "steps_per_second": {name: rate(contender, turn) for name, contender in contenders.items()},
        "ratios": {}, "stored_bytes": stored_bytes(),
    }  # fmt: skip
    pairs = [("peer", "flat")] if "peer" in names else []
    pairs += [("symbols", name) for name in ("scripted", "sbert_shape") if name in names]
    for slow, fast in pairs:
        pair = contenders[slow], contenders[fast]
        speedups = ratios(*pair)
        figures["ratios"][f"{fast} / {slow}"] = {
            "ratio": statistics.median(speedups), "lowest": speedups[0], "highest": speedups[-1],
            "processor": statistics.median(ratios(*pair, "processor")),
        }  # fmt: skip
    return figures


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    for pair, row in figures["ratios"].items():
        rates = [f"{figures['steps_per_second'][who]:,.0f} steps/s" for who in pair.split(" / ")]
        yield Line(f"DQN on Crafter: {pair}", *rates, row["ratio"], "1.2" if pair.endswith("peer") else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="turns of each (default %(default)s)")
    parser.add_argument("--start", type=int, default=6_000, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=400, help="steps of a turn (default %(default)s)")
    parser.add_argument("--only", nargs="+", help="contenders; by default all that can run here")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--contend", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contend:
        contend(options.contend, options.start, options.turn)
        return
    needs = {"peer": PEER, "sbert_shape": "transformers"}
    available = [name for name in ("peer", *CELLS) if name not in needs or importlib.util.find_spec(needs[name])]
    figures = measure(options.rounds, options.start, options.turn, options.only or available)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"DQN on Crafter, {options.rounds} turns of {options.turn:,} training steps, load {figures['load']}")
    for name, figure in figures["steps_per_second"].items():
        print(f"{name:12}{figure:8,.0f} steps/s")
    for name, row in figures["ratios"].items():
        spread = f"{row['lowest']:.2f} to {row['highest']:.2f}; processor {row['processor']:.2f}"
        print(f"{name:24}{row['ratio']:6.2f}  ({spread})")
    print("bytes of a stored transition: " + "; ".join(f"{k} {v:,}" for k, v in figures["stored_bytes"].items()))


if __name__ == "__main__":
    main()
