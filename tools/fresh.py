"""Follow the documentation as a newcomer does (`make fresh`; not part of `make test`).

In a clone with an empty environment, run `make run` and then the commands of README.md and docs/getting_started.md.

Commands that neither train nor submit run literally, and must succeed; one that reads another study than `runs/doorkey`
may say that there is none. Commands that train are planned with `--dry-run`; they must succeed, or name what a newcomer
lacks. A command with a placeholder such as PATH must say that this is missing. Everything is printed, so the output is
the log.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.commands import blocks, lines

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/getting_started.md")
STUDY = "runs/doorkey"
TRAINING = ("run", "pilot", "ablate", "perturb")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")
INSTALLATION = 3600.0
"""Seconds that `make run` may take, installation included."""
COMMAND = 900.0
"""Seconds that another command may take."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+\S*")


class Step(NamedTuple):
    """A command of a page, and how it is run."""

    command: str
    """The line as the page shows it, without its comment."""
    dry: bool = False
    """Whether `--dry-run` is added."""
    placeholder: str = ""
    """The word that a reader has to replace; the command must then name it as missing."""
    serves: bool = False
    """Whether it serves a page until it is stopped."""


def steps(pages: Mapping[str, str]) -> list[Step]:
    """Return the steps that pages (name -> Markdown) show, each command once; `bench submit` and lines that are no
    `bench` command are left out."""
    steps: dict[str, Step] = {}
    for text in pages.values():
        shell = [block.text for block in blocks(text) if block.language in ("sh", "bash", "")]
        shell += re.findall(r"(?<=\n\n)(?: {4}bench .*\n)+", text)
        for line in (line for part in shell for line in lines(part) if line.startswith("bench ")):
            command = re.split(r"\s+#\s", line)[0].strip()
            name = command.split()[1]
            if name == "submit":
                continue
            placeholder = PLACEHOLDER.search(command)
            steps.setdefault(
                command,
                Step(command, name in TRAINING and "--dry-run" not in command, placeholder[0] if placeholder else "",
                     name == "watch"),
            )  # fmt: skip
    return list(steps.values())


def failure(step: Step, code: int, output: str) -> str:
    """Return why a step failed, judged by its exit code and output; "" if it behaved as it must."""
    if step.placeholder:
        named = step.placeholder in output and (code or "missing" in output)
        return "" if named else f"it does not say that {step.placeholder} is missing"
    absent = [word for word in step.command.split() if word.startswith("runs/") and not word.startswith(STUDY)]
    if any(f"no study at {word}" in output for word in absent):
        return ""  # another study, which the page lets the newcomer train before
    planned = step.dry or "--dry-run" in step.command
    if planned and code == 1 and "missing: " in output:
        return ""  # a machine without the model, the key or the scheduler that the plan needs
    return f"it ended with exit code {code}" if code else ""


def run(step: Step, directory: Path, environment: Mapping[str, str]) -> str:
    """Run a step in the clone `directory`, print its command and output, and return why it failed; "" if it did not."""
    command = f"{step.command} --dry-run" if step.dry else step.command
    print(f"\n$ {command}", flush=True)
    start = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output = _fetch_page(process) if step.serves else process.communicate(timeout=COMMAND)[0]
    except (subprocess.TimeoutExpired, OSError) as error:
        os.killpg(process.pid, signal.SIGKILL)
        return f"it was ended: {error}"
    print(output, end="")
    reason = failure(step, 0 if step.serves else process.returncode, output)
    print(f"# {time.monotonic() - start:.1f} s, {reason or 'as it must'}", flush=True)
    return reason


def _fetch_page(process: subprocess.Popen[str]) -> str:
    """Fetch the page that a process serves, stop the process, and return its output. Raise OSError if it prints no
    address or the page cannot be fetched."""
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if address := ADDRESS.search(line):
            with urllib.request.urlopen(address[0], timeout=60) as page:
                output += f"# {address[0]} answers with {len(page.read()):,} bytes\n"
            break
    else:
        raise OSError(f"it printed no address: {output}")
    process.send_signal(signal.SIGINT)
    return output + process.communicate(timeout=60)[0]


def main(words: Sequence[str]) -> int:
    """Run all steps in a fresh clone and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fresh", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="clone into this new directory, and keep it")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="guidebench-fresh-") as temporary:
        clone = options.keep or Path(temporary) / "guidebench"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        print("$ make run", flush=True)
        start = time.monotonic()
        options: dict[str, Any] = {"cwd": clone, "env": environment, "stdin": subprocess.DEVNULL}
        subprocess.run(["make", "run"], timeout=INSTALLATION, check=True, **options)
        print(f"# {time.monotonic() - start:.1f} s", flush=True)
        environment["PATH"] = os.pathsep.join([str(clone / ".venv" / "bin"), environment["PATH"]])
        pages = {page: (clone / page).read_text(encoding="utf-8") for page in PAGES}
        failures = {step.command: reason for step in steps(pages) if (reason := run(step, clone, environment))}
    print(f"\n{len(failures)} commands failed" if failures else "\nevery command did what it must")
    for command, reason in failures.items():
        print(f"- {shlex.join(shlex.split(command))}: {reason}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
