"""llama.cpp as the peer of `benchmarks.choices`: a process of the peers' environment that reads prompts as tokens.

    peers/bin/python -P -m benchmarks.llama_cpp model.gguf < requests

Each line on standard input is a JSON object of a prompt: `tokens`, the numbers of the most likely tokens that follow
(`top`), and whether the prompt before may be reused (`cache`). Each answer is a line with the processor seconds, the
tokens computed, and `[token, log p]` of those tokens. One thread is used, and the weights stay quantized. The first
line written is the version of xllamacpp, null if it is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import metadata, util
from typing import Any


def server(file: str, context: int) -> Any:
    """Return llama.cpp with a model, on one thread."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.n_ctx, parameters.n_parallel = context, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.warmup, parameters.verbosity = False, 0
    return xllamacpp.Server(parameters)


def answer(llama: Any, tokens: list[int], top: int, cache: bool) -> dict[str, Any]:
    """Return the most likely tokens after a prompt, and what they took."""
    request = {
        "prompt": tokens, "n_predict": 1, "n_probs": top, "temperature": 0.0, "cache_prompt": cache,
        "post_sampling_probs": False,
    }  # fmt: skip
    started = time.process_time()
    reply = llama.handle_completions(request)
    seconds = time.process_time() - started
    if "choices" not in reply:
        sys.exit(f"llama.cpp does not answer a prompt of {len(tokens)} tokens: {json.dumps(reply)[:300]}")
    likely = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    pairs = [[token["id"], token["logprob"]] for token in likely]
    return {"seconds": seconds, "computed": reply["timings"]["prompt_n"], "top": pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--context", type=int, default=2048, help="tokens (default %(default)s)")
    options = parser.parse_args()
    version = metadata.version("xllamacpp") if util.find_spec("xllamacpp") else None
    print(json.dumps(version), flush=True)
    if version is None:
        return
    llama = server(options.model, options.context)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(llama, request["tokens"], request["top"], request["cache"])), flush=True)


if __name__ == "__main__":
    main()
