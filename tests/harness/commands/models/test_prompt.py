"""`bench models prompt` prints the request for a judging prompt, and accepts a model's draft only in the right form."""

import json
from pathlib import Path
from typing import Any

import pytest

from guidebench.harness.commands import cli
from guidebench.harness.models import prompts
from tests.harness.models.canned import completion, serving


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str]):
    """Return a function: `bench("suite=classic")` runs `bench models prompt` and returns (exit code, stdout,
    stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        return cli.main(["models", "prompt", *words]), *capsys.readouterr()

    return run


def test_without_a_model_the_request_is_printed_with_tasks_and_other_suites_prompts(bench) -> None:
    code, out, _ = bench("suite=minigrid_doorkey")
    assert code == 0 and "The suite: MiniGrid DoorKey" in out and prompts.CLOSING in out
    assert "- 5x5, 6x6, 7x7, 8x8, 12x12, 16x16: use the key to open the door and then get to the goal" in out
    assert "For OGBench Scene:" in out and "For MiniGrid DoorKey:" not in out
    assert "- 8x8: use the key" in bench("suite=minigrid_doorkey", "task=8x8")[1]


def test_a_file_is_written_once(bench, tmp_path: Path) -> None:
    file = tmp_path / "request.txt"
    assert bench("suite=minigrid_doorkey", "--output", str(file))[0] == 0
    assert "The suite: MiniGrid DoorKey" in file.read_text()
    code, _, err = bench("suite=minigrid_doorkey", "--output", str(file))
    assert code == 2 and "exists already" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("task=5x5",), "no suite named"),
        (("suite=minigrid_doorkey", "task=9x9"), "unknown task"),
        (("suite=nowhere",), "unknown suite"),
        (("suite=minigrid_doorkey,classic",), "suite= has several values"),
        (("suite=minigrid_doorkey", "judge.model=gpt-4o"), "add judge="),
        (("suite=minigrid_doorkey", "judge=sprite"), "sprite (scripted) stands for no foundation model"),
        (("suite=minigrid_doorkey", "judge=transformers", "judge.modell=x"), "did you mean 'judge.model'"),
    ],
)
def test_a_mistake_is_named(bench, words: tuple[str, ...], says: str) -> None:
    code, out, err = bench(*words)
    assert code == 2 and says in err and not out


def test_a_model_is_put_the_request_and_its_draft_is_kept(bench, tmp_path: Path) -> None:
    draft = f"Does the pole stay upright? Do not guess. {prompts.CLOSING}"
    bodies: list[dict[str, Any]] = []

    def answers(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
        bodies.append(body)
        return 200, completion(json.dumps({"prompt": draft}))

    file = tmp_path / "cartpole.txt"
    with serving(answers) as url:
        judge = ("judge=openai", "judge.model=any", f"judge.base_url={url}")
        code, out, err = bench("suite=classic", "task=CartPole-v1", *judge, "--output", str(file))
    assert code == 0, err
    assert file.read_text() == draft + "\n" and f"judge.prompt=file:{file}" in out
    assert "keep the pole upright" in bodies[0]["messages"][0]["content"] and len(bodies) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({"prompt": "Does the pole stay upright?"}), "cannot be used: it does not end by asking"),
        (json.dumps({"prompt": f"\x1b[31m{prompts.CLOSING}"}), "cannot be used: it holds characters"),
        ("I would rather not.", "drafted no prompt (malformed)"),
        ("", "drafted no prompt (empty)"),
    ],
)
def test_a_draft_without_the_form_is_not_written(bench, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "prompt.txt"
    with serving(lambda *_: (200, completion(text))) as url:
        judge = ("judge=openai", "judge.model=any", f"judge.base_url={url}")
        code, out, err = bench("suite=classic", "task=CartPole-v1", *judge, "--output", str(file))
    assert code == 2 and says in err and "\x1b" not in err and not out and not file.exists()
