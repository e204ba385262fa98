"""Servers on loopback: real ones, each a process that serves one tiny model, and one whose answers are canned, behind a
proxy that makes faults."""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import programs
from tests.conftest import require
from tests.harness.models.canned import completion, serving
from tests.harness.models.faults import Proxy, run_proxy

require("openai")
TRANSFORMERS = "from transformers.cli.transformers import main; raise SystemExit(main())"
"""The program `transformers`, started in a process that has imported it already."""
STARTING = 600.0
"""Seconds that a server may take until it answers; most of them load a library on a busy machine."""


class ModelServer(NamedTuple):
    """A model's directory, and the URL and model name of the server that serves it."""

    directory: Path
    url: str
    name: str
    """The model's name at the server."""


@pytest.fixture(scope="session")
def yes_no_model(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny Qwen2.5-VL that answers yes or no, whichever a clip makes likelier, and then ends its text."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    directory = tmp_path_factory.mktemp("speaking") / "qwen_vl"
    shutil.copytree(tiny("qwen_vl", hidden=128), directory)  # a head size that vLLM's attention supports
    words = AutoTokenizer.from_pretrained(directory)
    reads = {number: words.convert_tokens_to_string([token]) for token, number in words.get_vocab().items()}
    weights = load_file(directory / "model.safetensors")
    answer_tokens = [number for number, text in reads.items() if text.strip().lower() in ("yes", "no")]
    heads, embeddings = weights["lm_head.weight"], weights["model.embed_tokens.weight"]
    heads[answer_tokens] *= 8
    embeddings[answer_tokens] = 20 * torch.ones(
        embeddings.shape[1]
    )  # unlike any other token; after it the end is likeliest
    heads[words.eos_token_id] = torch.ones(heads.shape[1])
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


@pytest.fixture(scope="session")
def transformers_serve(yes_no_model: Path) -> Iterator[ModelServer]:
    """Run `transformers serve`, which neither continues messages nor returns log-probabilities: its answers are read as
    text."""
    pytest.importorskip("fastapi")
    port = free_port()
    words = ["serve", yes_no_model, "--device=cpu", "--dtype=float32", "--host=127.0.0.1", f"--port={port}"]
    start = functools.partial(programs.start_python, TRANSFORMERS, *words)
    with run_server(start, port, yes_no_model.parent / "transformers.log"):
        yield ModelServer(yes_no_model, f"http://127.0.0.1:{port}/v1", str(yes_no_model))


@pytest.fixture(scope="session")
def vllm(yes_no_model: Path) -> Iterator[ModelServer]:
    """Run vLLM, if the variable VLLM names its program: it needs its own environment because of its pinned packages."""
    program = os.environ.get("VLLM", "")
    if not program:
        pytest.skip("set VLLM to the program `vllm` of an environment that has it")
    port = free_port()
    command = [program, "serve", str(yes_no_model), "--served-model-name=tiny", "--host=127.0.0.1", f"--port={port}"]
    command += ["--dtype=float32", "--max-model-len=1024", "--enforce-eager", "--max-num-seqs=8"]
    command += ['--limit-mm-per-prompt={"image": 16, "video": 0}']
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "DO_NOT_TRACK": "1"}
    start = functools.partial(subprocess.Popen, command)
    with run_server(start, port, yes_no_model.parent / "vllm.log", **settings):
        yield ModelServer(yes_no_model, f"http://127.0.0.1:{port}/v1", "tiny")


@pytest.fixture(scope="session")
def canned() -> Iterator[ModelServer]:
    """Run a server whose answer, yes or no, is a function of the request."""

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, ...]:
        if path != "/chat/completions":
            return 404, {"error": {"message": "no such page"}}
        return 200, completion("No" if zlib.crc32(json.dumps(body["messages"]).encode()) % 2 else "Yes")

    with serving(answer) as url:
        yield ModelServer(Path(), url, "canned-1")


@pytest.fixture
def proxy(canned: ModelServer) -> Iterator[Proxy]:
    """Run a proxy in front of the server `canned`."""
    with run_proxy(canned.url) as proxy:
        yield proxy


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def run_server(start: Callable[..., Any], port: int, log: Path, **settings: str) -> Iterator[None]:
    """Run a server's process and the processes it starts, while the context lasts."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | settings
    with log.open("wb") as output:
        process = start(env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + STARTING
        while not answers(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server does not answer:\n{log.read_text(errors='replace')[-2_000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
