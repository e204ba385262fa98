"""Seconds of a choice by likelihood on one CPU thread: SmolLM2 135M beside llama.cpp on the same file.

    python -m benchmarks.choices [--peers peers/bin/python] [--rounds 5] [--model smollm2_135m]

A call asks for one of 20 candidates of about three tokens after a prompt of `--tokens` tokens, once with nothing kept
but the chat template's beginning (`new`), then with another ending of which the last `--ending` tokens are new
(`ending`). llama.cpp reads the same prompts as tokens and keeps the prompt before too; it computes the prompt and the
logits after it, but not the candidates, which its completion API does not score. In each round the contenders take
turns in changing order, and the product of two 256 x 256 matrices is timed beside them. All seconds are those of the
processor, so that other work distorts them less.

Our share of that product's rate counts 2 x parameters without embeddings x tokens computed, attention to all tokens
before, and the output layer where logits are needed.

`agreement` compares log p after each beginning of a few sentences: of the likeliest token, and of the sentence's next
token where llama.cpp lists it among its `TOP`. Both compute with the same weights, but llama.cpp multiplies quantized
weights with activations that it rounds to 8 bits, and keeps keys and values in 16.

Without the model's package, or without gguf and transformers (`make extra E=tiny`), nothing is measured, and without
`--peers` or xllamacpp there, only ours is; a line on standard error says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import benchmark_process
from benchmarks.table import Line
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import packages, recipes
from guidebench.harness.models.backends.transformers_.choosing import Choosing, Tree
from guidebench.harness.models.backends.transformers_.loaded_model import LoadedModel, Source
from guidebench.harness.models.backends.transformers_.model import TransformersModel
from guidebench.harness.models.backends.transformers_.prefixes import CHUNK
from guidebench.harness.models.calls import ChoiceCall, Message

VERBS = "take open drop push find leave use watch move lift carry hold reach close turn touch hide throw kick clean"
CANDIDATES = tuple(f" {verb} the key" for verb in VERBS.split())
WORDS = ("red", "door", "key", "left", "of", "the", "room", "is", "green", "ball", "and", "wall", "near", "you")
SENTENCES = (
    "The capital of France is Paris, and the capital of Italy is Rome.",
    "You are in a room with a key, a door and a goal. The next action is to open the door.",
    "Once upon a time there was a robot who liked to sing.",
    "The agent should pick up the key and then open the door.",
    "def add(a, b):\n    return a + b\n",
)
TOP = 1_000
"""Tokens of which llama.cpp returns log p."""
SIDE = 256
"""Rows of the matrices whose product is timed."""


class Work(NamedTuple):
    """What a call needs at least."""

    tokens: int
    """Tokens computed, those of the candidates included."""
    flop: int


class LlamaCpp:
    """llama.cpp in the peers' environment, on one thread."""

    def __init__(self, python: str, file: str) -> None:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self._process = benchmark_process.start(python, "benchmarks.llama_cpp", [file], **pipes)
        self.version: str | None = self._read()

    def answer(self, tokens: Sequence[int], top: int, cache: bool) -> dict[str, Any]:
        """Return `benchmarks.llama_cpp`'s answer to a prompt."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"tokens": [*tokens], "top": top, "cache": cache}) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = self._read()
        return reply

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"llama.cpp ended with exit code {self._process.wait()}; what went wrong is above")
        return json.loads(line)


def prompts(choosing: Choosing, tokens: int, ending: int, number: int) -> tuple[ChoiceCall, ChoiceCall]:
    """Return two calls whose prompts have about as many tokens, and share all but the last `ending` of them. `number`:
    that of the round, whose words are its own."""
    random = np.random.default_rng(number)

    def call(words: Sequence[str]) -> ChoiceCall:
        return ChoiceCall((Message("user", (" ".join(words),)),), "Action:", CANDIDATES)

    template = choosing.choice(call(["you"])).length - 1
    start = random.choice(WORDS, tokens - template - ending).tolist()
    first, second = ([*start, *random.choice(WORDS, ending).tolist()] for _ in range(2))
    return call(first), call(second)


def inner_parameters(network: Any) -> int:
    """Return the parameters of a network without those of its embeddings and of its output layer."""
    outer = {id(layer.weight) for layer in (network.get_input_embeddings(), network.get_output_embeddings())}
    return sum(part.numel() for part in network.parameters() if id(part) not in outer)


def work(config: Any, parameters: int, prompt: int, present: int, tree: Tree) -> Work:
    """Return the work for a prompt of `prompt` tokens, the first `present` of which are kept, and for the candidates.
    `parameters`: those of `inner_parameters`."""
    tokens = prompt - present + len(tree.tokens)
    pairs = sum(range(present + 1, prompt + 1)) + len(tree.tokens) * prompt + int(tree.sees.sum())
    attention = 4 * config.num_attention_heads * config.head_dim * pairs * config.num_hidden_layers
    head = 2 * config.hidden_size * config.vocab_size * (1 + len(tree.tokens))
    return Work(tokens, 2 * parameters * tokens + attention + head)


def product_rate(repeats: int = 300) -> float:
    """Return the floating-point operations a second in products of two matrices, by processor time."""
    first, second = torch.rand(2, SIDE, SIDE)
    started = time.process_time()
    for _ in range(repeats):
        first @ second
    return 2 * SIDE**3 * repeats / (time.process_time() - started)


def our_turn(model: TransformersModel, calls: Sequence[ChoiceCall]) -> dict[str, Any]:
    """Return the processor seconds of each call."""
    seconds = []
    for call in calls:
        started = time.process_time()
        asyncio.run(model.answer(call))
        seconds.append(time.process_time() - started)
    return {"seconds": seconds}


def peer_turn(llama: LlamaCpp, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return llama.cpp's processor seconds and computed tokens for each prompt; nothing is kept before the first."""
    replies = [llama.answer(prompt, 1, number > 0) for number, prompt in enumerate(rows)]
    return {f"peer_{key}": [reply[key] for reply in replies] for key in ("seconds", "computed")}


def one_round(model: TransformersModel, llama: LlamaCpp | None, options: argparse.Namespace, number: int) -> Any:
    """Return the figures of a round: lists of that of the new prompt and that of the other ending."""
    choosing, network = model._choosing, model._loaded.model
    calls = prompts(choosing, options.tokens, options.ending, number)
    choices = [choosing.choice(call) for call in calls]
    tokens = [choice.inputs["input_ids"][0].tolist() for choice in choices]
    shared = next(place for place, pair in enumerate(zip(*tokens, strict=False)) if len(set(pair)) > 1)
    tree, parameters = Tree.of(choices[0].candidates), inner_parameters(network)
    sizes = [
        work(network.config, parameters, len(prompt), present, tree)
        for prompt, present in zip(tokens, (0, shared // CHUNK * CHUNK), strict=True)
    ]
    turns: list[Callable[[], dict[str, Any]]] = [lambda: our_turn(model, calls)]
    if llama is not None:
        turns.append(lambda: peer_turn(llama, tokens))
    row: dict[str, Any] = {"prompt": [*map(len, tokens)], "computed": [size.tokens for size in sizes]}
    rates = [product_rate()]
    for turn in turns[:: 1 if number % 2 else -1]:
        row |= turn()
        rates.append(product_rate())
    row["rate"] = statistics.median(rates)
    row["share"] = [size.flop / seconds / row["rate"] for size, seconds in zip(sizes, row["seconds"], strict=True)]
    return row


def agreement(loaded: LoadedModel, llama: LlamaCpp) -> dict[str, Any]:
    """Return by how many nats log p differs from llama.cpp's after each beginning of the sentences."""
    likeliest, following, equal = [], [], []
    for sentence in SENTENCES:
        tokens = loaded.tokenizer(sentence).input_ids
        with torch.inference_mode():
            rows = loaded.model(torch.tensor([tokens]).to(loaded.device)).logits[0].double().log_softmax(-1)
        for place in range(1, len(tokens)):
            top = dict(llama.answer(tokens[:place], TOP, False)["top"])
            first, log_p = max(top.items(), key=lambda pair: pair[1])
            likeliest.append(abs(log_p - float(rows[place - 1, first])))
            equal.append(int(rows[place - 1].argmax()) == first)
            if tokens[place] in top:
                following.append(abs(top[tokens[place]] - float(rows[place - 1, tokens[place]])))
    return {"positions": len(likeliest), "equal": sum(equal)} | {
        name: {"count": len(gaps), "mean": statistics.mean(gaps), "most": max(gaps)}
        for name, gaps in (("likeliest", likeliest), ("next", following))
        if gaps
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    try:
        file = packages.located(recipes.repository(options.model))
        model = TransformersModel(Source(file, dtype="float32"))
    except UserError as error:
        return left_out(f"choices are not measured: {error}") | {"rounds": []}
    llama = LlamaCpp(options.peers, file) if options.peers else None
    figures: dict[str, Any] = {"model": options.model, "xllamacpp": llama and llama.version}
    if llama is None or llama.version is None:
        reason = f"{options.peers} has no xllamacpp" if options.peers else "no --peers is given"
        figures |= left_out(f"llama.cpp is not measured: {reason} (see benchmarks/peers.txt)")
        llama = None
    taken = [one_round(model, llama, options, number) for number in range(options.rounds + 1)]
    figures["rounds"] = taken[1:]  # the first warms up
    if llama is not None:
        figures["agreement"] = agreement(model._loaded, llama)
        llama.close()
    return figures


def left_out(message: str) -> dict[str, Any]:
    """Print what is not measured, and return it as a figure."""
    print(message, file=sys.stderr, flush=True)
    return {"left_out": message}


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    taken = figures["rounds"]
    for number, goal in enumerate(("<2.5", "<0.8") if taken else ()):

        def median(key: str, number: int = number) -> float:
            return float(statistics.median(row[key][number] for row in taken))

        label = f"a choice after {median('prompt'):.0f} tokens, {median('computed'):.0f} computed with candidates"
        seconds, share = median("seconds"), median("share")
        yield Line(f"{label}, processor time", f"{seconds:.2f} s", "", seconds, goal)
        yield Line(f"{label}: share of the rate of a product", f"{share:.2f}", "", share, "0.6")
        if "peer_seconds" in taken[0]:
            ratio = statistics.median(row["peer_seconds"][number] / row["seconds"][number] for row in taken)
            peer = f"llama.cpp, {median('peer_computed'):.0f} computed without candidates"
            yield Line(f"{label}: {peer}", f"{seconds:.2f} s", f"{median('peer_seconds'):.2f} s", ratio, "")
    for token in ("likeliest", "next"):
        if gaps := figures.get("agreement", {}).get(token):
            label = f"log p of the {token} token at {gaps['count']} places: llama.cpp, mean difference"
            yield Line(label, f"{gaps['mean']:.4f} nats", f"at most {gaps['most']:.4f}", gaps["mean"], "<0.05")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2_135m", help="recipe or GGUF file (default %(default)s)")
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter of the peers' environment")
    parser.add_argument("--tokens", type=int, default=500, help="tokens of a prompt (default %(default)s)")
    parser.add_argument("--ending", type=int, default=100, help="new tokens of the second prompt (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures))
        return
    for line in lines(figures):
        print(f"{line.label}: {line.ours} {line.peer} {line.figure:.4f} {line.reached}".rstrip())


if __name__ == "__main__":
    main()
