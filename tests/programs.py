"""Processes that tests start: `bench`, or a program given as text, forked from an interpreter that has imported torch.

They are ordinary processes, with signals, exit codes and standard streams, and start within a tenth of a second. What a
new interpreter does when it starts is tested with `subprocess` and `sys.executable`."""

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from guidebench.harness import fork_server


class Exit(NamedTuple):
    """Exit code and output of a process that has ended."""

    code: int
    out: str
    err: str


def bench(*words: str, **options: Any) -> Exit:
    """Run `bench` with these words to its end; `options` are keywords of `run`."""
    return run("tests.programs", "bench", *words, **options)


def python(source: str, *words: str, **options: Any) -> Exit:
    """Run a program given as source text to its end; `words` are its `sys.argv[1:]`, and `options` keywords of
    `run`."""
    return run("tests.programs", "python", source, *words, **options)


def module(name: str, *words: str, **options: Any) -> Exit:
    """Run a module as `python -m` does, to its end; `options` are keywords of `run`."""
    return run("tests.programs", "module", name, *words, **options)


def run(
    module: str,
    *words: str,
    input: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 600.0,
) -> Exit:
    """Run `main(*words)` of a module in a new process to its end and return its exit code and output; kill it after
    `timeout` seconds. `input`: text for its standard input; `cwd`: its working directory."""
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as err,
    ):
        stdin.write(input)
        stdin.seek(0)
        process = start(module, *words, stdin=stdin, stdout=out, stderr=err, env=env, cwd=cwd)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return Exit(code, out.read(), err.read())


def start(module: str, *words: str, cwd: Path | None = None, **options: Any) -> fork_server.Process:
    """Start `main(*words)` of a module in a new process with working directory `cwd`; `options` are those of
    `fork_server.start`."""
    home = os.getcwd()
    try:
        os.chdir(cwd or home)
        return fork_server.start(module, *words, **options)
    finally:
        os.chdir(home)


def start_bench(*words: str, **options: Any) -> fork_server.Process:
    """Start `bench` with these words; by default its output is discarded."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return start("tests.programs", "bench", *words, **(streams | options))


def start_python(source: str, *words: object, **options: Any) -> fork_server.Process:
    """Start a program given as source text, as `python` runs it; by default its output can be read from its
    `stdout`."""
    return start(
        "tests.programs", "python", source, *map(str, words), **({"stdout": subprocess.PIPE, "text": True} | options)
    )


def main(kind: str, *words: str) -> int:
    """Run `bench`, a module, or a program given as text, as `kind` says; called in the forked process."""
    if "HF_ENDPOINT" in os.environ:  # the client of the Hub reads its settings when it is imported
        for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
            del sys.modules[name]
    if kind == "bench":
        from guidebench.harness.commands import cli

        return cli.main(list(words))
    source, *rest = words
    if kind == "module":
        sys.argv[:] = words
        runpy.run_module(source, run_name="__main__", alter_sys=True)
        return 0
    sys.argv[:] = ["-c", *rest]
    exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    return 0
