"""Every benchmark runs, small, and what compares the figures is right. Nothing here asks how fast anything is."""

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as together
from benchmarks import continuous, turns
from tests import programs

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in ("__init__", "__main__", "benchmark_process", "table")
)


HELP = """
import importlib, sys
for module in sys.argv[1:]:
    sys.argv[:] = [module, "--help"]
    try:
        importlib.import_module(f"benchmarks.{module}").main()
    except SystemExit as ended:
        assert ended.code == 0, module
"""


def test_each_says_what_it_measures_and_how() -> None:
    process = programs.python(HELP, *MODULES, cwd=ROOT)
    assert process.code == 0, process.err
    usages = re.findall(r"^usage: (\S+)", process.out, re.MULTILINE)
    assert usages == MODULES


@pytest.mark.release
@pytest.mark.parametrize("name", together.WITHOUT_PEERS)
def test_each_benchmark_without_a_peer_runs_small_and_prints_positive_figures(name: str) -> None:
    figures = together.run(name, sys.executable, together.SMALL[name])
    if not figures.get("rounds", True):
        pytest.skip(figures["left_out"])
    for line in together.lines({name: figures}):
        assert line.figure > 0 and line.ours and line.reached in ("yes", "no", "")
    if name == "engine":
        uer, per, vlm_rb = (row["bytes"] for row in figures["checkpoint_8x8"].values())
        slots = 2000 + 2 * 5000 + 1  # the ring has room for two intervals between checkpoints more
        assert 8 * slots <= per - uer <= 8 * slots + 2000  # a priority for each, float64
        assert 9 * slots <= vlm_rb - uer <= 9 * slots + 2000  # and whether it was judged
        assert figures["transition_16x16"]["both_observations_bytes"] == 2 * 768 + 7
    else:
        assert together.lines({name: figures})


def test_without_peers_their_benchmarks_are_named_and_left_out() -> None:
    process = programs.module("benchmarks", "--small", "--only", "replay", "cartpole", cwd=ROOT)
    assert process.code == 0 and "left out" in process.out and "replay, cartpole" in process.out


def test_seeds_trained_together_count_each() -> None:
    """Four seeds together take 2, 4 and 1 s, one takes 1, 1 and 1 s: they are 2, 1 and 4 times as fast."""
    row = continuous.row("sac", "steps", 4, [2.0, 4.0, 1.0], [1.0, 1.0, 1.0])
    assert (row["ratio_lowest"], row["ratio"], row["ratio_highest"]) == (1.0, 2.0, 4.0)
    assert (row["ours_per_second"], row["peer_per_second"]) == (2.0, 1.0)
    line = together.lines({"continuous": {"rows": [row]}})[0]
    assert (line.figure, line.goal, line.reached) == (2.0, "1.4", "yes")


def test_figures_are_kept_beside_those_of_other_benchmarks(tmp_path: Path) -> None:
    output = tmp_path / "measured" / "speed.json"
    output.parent.mkdir()
    output.write_text(json.dumps({"schema": 1, "results": {"replay": {"size": 7, "rows": []}}}))
    arguments = ["--small", "--only", "models_desk", "--output", str(output)]
    assert programs.module("benchmarks", *arguments, cwd=ROOT).code == 0
    results = json.loads(output.read_text())["results"]
    assert results["replay"] == {"size": 7, "rows": []}
    assert results["models_desk"]["rows"][0]["calls"] == 30 and "packages" in results["models_desk"]["measured_on"]


@pytest.mark.parametrize(
    ("figure", "goal", "reached"),
    [(1.5, "1.5", "yes"), (1.49, "1.5", "no"), (0.25, "<0.25", "yes"), (0.26, "<0.25", "no"), (3.0, "", "")],
)
def test_a_goal_is_a_lower_bound_or_with_a_sign_an_upper_one(figure: float, goal: str, reached: str) -> None:
    assert together.Line("what", "ours", "peer", figure, goal).reached == reached


class Quick(turns.Contender):
    """A contender without a process, which only counts its turns."""

    def __init__(self, name: str, log: list[str], seconds: list[float]) -> None:
        self.name, self.log, self.turns, self._seconds = name, log, [], iter(seconds)

    def turn(self) -> None:
        self.log.append(self.name)
        self.turns.append({"seconds": next(self._seconds)})


def test_contenders_take_turns_and_ratios_are_those_of_a_round() -> None:
    """Rounds of (2, 1), (6, 2) and (4, 4) seconds are 2, 3 and 1 times as fast; 10 steps take 2, 6 and 4 seconds."""
    log: list[str] = []
    slow, fast = Quick("a", log, [2.0, 6.0, 4.0]), Quick("b", log, [1.0, 2.0, 4.0])
    turns.interleave([slow, fast], 3)
    assert "".join(log) == "baabba"
    assert turns.ratios(slow, fast) == [1.0, 2.0, 3.0]
    assert turns.rate(slow, 10) == 2.5


def test_a_turn_ends_after_its_steps_and_the_run_when_nobody_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    stop = turns.Turns(start=5, turn=3)
    assert [stop() for _ in range(11)] == [False] * 10 + [True]
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(line) for line in messages] == [set(), {"seconds", "processor"}, {"seconds", "processor"}]


def test_a_cell_trains_in_turns_and_tells_its_own_clock() -> None:
    names = {"suite": "classic", "task": "CartPole-v1", "profile": "smoke", "method": "uer"}
    contender = turns.Contender("benchmarks.turns", turns.cell_arguments(200, 100, names))
    turns.interleave([contender], 2)
    assert len(contender.turns) == 2 and contender.close()["step"] == 400


def test_updates_in_a_row_belong_to_as_many_steps_as_in_training() -> None:
    """With two updates a step from step 100, five updates belong to steps 100, 100, 101, 101 and 102."""
    steps: list[int] = []

    class Learner:
        seeds = (0,)
        config = SimpleNamespace(learning_starts=100, utd=2)

        def update(self, batch: None, active: object, step: int) -> None:
            steps.append(step)

    update = continuous.update_of(Learner(), None)
    for _ in range(5):
        update()
    assert steps == [100, 100, 101, 101, 102]
