"""Environments of other packages through whole commands of `suite=gymnasium`, each trained for a few steps.

    python -m benchmarks.any_environment --ale PYTHON --robosuite PYTHON > benchmarks/any_environment.log

`--ale` and `--robosuite` name interpreters of environments of their own, made by

    pip install gymnasium ale-py
    pip install gymnasium robosuite==1.5.2 mujoco==3.3.0 "numpy<2"

Judge and teacher are a loopback server that answers at random, so nothing but that it runs is shown.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.judged_training import served

ACROBOT = (
    "suite=gymnasium task=Acrobot-v1 suite.success=terminated 'suite.instruction=\"swing the tip above the line\"'"
)
REACH = (
    "suite=gymnasium task=FetchReach-v4 suite.module=gymnasium_robotics suite.keys=[observation,desired_goal] "
    "suite.success=info suite.success_key=is_success suite.success_when=last "
    "'suite.instruction=\"move the gripper to the red ball\"'"
)
PONG = "suite=gymnasium task=ALE/Pong-v5 suite.module=ale_py suite.max_steps=300 suite.python={ale}"
LIFT = (
    "suite=gymnasium task=Lift suite.entry=lift_env:make suite.max_steps=100 suite.success=info "
    "suite.success_key=lifted suite.python={robosuite}"
)
PROMPT = "'judge.prompt=\"Is the tip above the line at the end? Answer Yes or No.\"'"
SHORT = "training.steps=600 evaluation.every=300 evaluation.episodes=2 training.capacity=600"
PREFERENCES = (
    "learner.learning_starts=256 guide.pretraining=300 guide.every=100 guide.queries=2 guide.budget=6 "
    "guide.hidden=[16] guide.updates_after_reset=2 guide.batch_size=4"
)
SMOKE = "training.steps=400 evaluation.every=400 evaluation.episodes=1 training.capacity=400"
COMMANDS: Mapping[str, str] = {
    "doctor": f"doctor {ACROBOT}",
    "per": f"run {ACROBOT} method=per {SHORT}",
    "vlm_rb": f"run {ACROBOT} method=vlm_rb judge=openai {{served}} {PROMPT} judge.delay=8 {SHORT}",
    "reach": f"run {REACH} method=sac {SHORT}",
    "rl_vlm_f": f"run {REACH} method=rl_vlm_f chat=openai {{chat}} {PREFERENCES} {SHORT}",
    "pong": f"run {PONG} method=uer {SMOKE}",
    "lift": f"run {LIFT} method=sac {SHORT}",
}


def answer(body: bytes) -> str:
    """Return yes or no to a judge, and a label to a teacher, by the request's digest."""
    odd = hashlib.sha256(body).digest()[0] % 2
    return f"Answer: {('No', 'Yes')[odd]}" if b"Answer Yes or No" in body else str(odd)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ale", default="", help="interpreter with ale-py")
    parser.add_argument("--robosuite", default="", help="interpreter with robosuite and NumPy 1")
    parser.add_argument("--only", nargs="*", default=[*COMMANDS], help=f"some of {', '.join(COMMANDS)}")
    arguments = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).with_name("environments"))}
    environment.setdefault("OPENAI_API_KEY", "none")
    with served(0.0, answer) as judge, tempfile.TemporaryDirectory() as studies:
        settings = {key: text for key, text in judge.items() if "." in key}
        url = settings["judge.base_url"]
        words = {
            "ale": arguments.ale, "robosuite": arguments.robosuite,
            "served": " ".join(f"{key}={text}" for key, text in settings.items()),
            "chat": f"chat.model=slow chat.base_url={url}",
        }  # fmt: skip
        codes = [
            carry_out(name, COMMANDS[name].format_map(words), Path(studies), environment) for name in arguments.only
        ]
    return max(codes)


def carry_out(name: str, command: str, studies: Path, environment: Mapping[str, str]) -> int:
    """Run a command of `bench`, print it with the end of its output, and return its exit code."""
    words = shlex.split(command)
    if words[0] == "run":
        words += [f"output={studies / name}", "seeds=1", "report=false", "yes=true"]
    print(f"$ bench {command}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "guidebench", *words], env=environment, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    print(*(lines[-9:] if words[0] == "doctor" else lines[-3:]), sep="\n")
    if done.returncode:
        print(done.stderr[-2_000:])
    for line in recorded(studies / name):
        print(line)
    print(f"exit code {done.returncode} after {time.monotonic() - began:.0f} s\n", flush=True)
    return done.returncode


def recorded(study: Path) -> Iterator[str]:
    """Yield what the record of a cell says of the environment."""
    for path in study.glob("*/*/*/cell.json"):
        settings = json.loads(path.read_text())["settings"]
        environment = json.loads(settings["suite.environment"]["value"])
        yield f"packages: {environment['packages']}; under {settings['suite.interpreter']['value']}"
        yield f"episodes: {settings['suite.episodes']['value']}"


if __name__ == "__main__":
    sys.exit(main())
