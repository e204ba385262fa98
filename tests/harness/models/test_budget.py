"""A budget is never exceeded, whoever spends it, and spending is never forgotten."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from guidebench.harness.errors import BudgetReached, UserError
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Usage
from tests import programs

CENT = Usage(calls=1, seconds=2.0, usd=0.01)


def spend(budget: Budget, usage: Usage = CENT, took: Usage | None = None) -> None:
    assert budget.reserve(usage)
    budget.settle(usage, usage if took is None else took)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(usd=0.03), r"models.budget_usd=0.03 is reached: 0.03 USD are spent and the next call may take 0.01"),
        (Limits(calls=3), r"models.budget_calls=3 is reached: 3 calls"),
        (Limits(seconds=6.5), r"models.budget_seconds=6.5 is reached: 6 seconds of models' time .* may take 2; raise"),
    ],
)
def test_the_call_that_would_exceed_it_is_refused_and_raising_it_continues(tmp_path: Path, limits, says: str) -> None:
    file = tmp_path / "models" / "budget.json"
    budget = Budget(file, limits)
    for _ in range(3):
        spend(budget)
    for _ in range(2):
        with pytest.raises(BudgetReached, match=says):
            budget.reserve(CENT)
    budget.close()
    raised = Budget(file, Limits(*(None if limit is None else 2 * limit for limit in limits)))
    assert raised.spent == pytest.approx({"usd": 0.03, "calls": 3, "seconds": 6.0})
    spend(raised)
    assert raised.spent["calls"] == 4


def test_what_a_call_really_took_counts(tmp_path: Path) -> None:
    budget = Budget(tmp_path / "budget.json", Limits(usd=0.1))
    for _ in range(20):
        spend(budget, Usage(calls=1, usd=0.05), took=Usage(calls=1, usd=0.002))
    assert budget.spent["usd"] == pytest.approx(0.04)
    spend(budget, Usage(calls=1, usd=0.05), took=Usage(calls=1, usd=0.06))
    with pytest.raises(BudgetReached):
        budget.reserve(Usage(usd=0.001))


def test_what_is_reserved_keeps_others_waiting_and_does_not_end_the_study(tmp_path: Path) -> None:
    first, second = (Budget(tmp_path / "budget.json", Limits(usd=0.1)) for _ in range(2))
    dear = Usage(calls=1, usd=0.06)
    assert first.reserve(dear) and not second.reserve(dear)
    first.settle(dear, Usage(calls=1, usd=0.01))
    assert second.reserve(dear)


HOLD = """
import sys, time
from pathlib import Path
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Usage
budget = Budget(Path(sys.argv[1]), Limits(calls=4))
for _ in range(3):
    assert budget.reserve(Usage(calls=1))
print("held", flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_had_reserved_is_released(tmp_path: Path) -> None:
    file = tmp_path / "budget.json"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        budget = Budget(file, Limits(calls=4))
        assert budget.reserve(Usage(calls=1)) and not budget.reserve(Usage(calls=1))
        os.kill(holder.pid, signal.SIGKILL)
        while Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            pass  # a zombie, since nobody waits for it, counts as ended
        for _ in range(3):
            assert budget.reserve(Usage(calls=1))
    finally:
        holder.kill()
        holder.communicate()
    assert budget.spent["calls"] == 0


SPEND = """
import sys
from pathlib import Path
from guidebench.harness.errors import BudgetReached
from guidebench.harness.models.budget import Budget, Limits
from guidebench.harness.models.calls import Usage
budget, made = Budget(Path(sys.argv[1]), Limits(calls=300, usd=2.0)), 0
try:
    while True:
        if budget.reserve(Usage(calls=1, usd=0.01)):
            made += 1
            budget.settle(Usage(calls=1, usd=0.01), Usage(calls=1, usd=0.01))
except BudgetReached:
    print(made)
"""


def test_processes_that_share_it_spend_exactly_what_there_is(tmp_path: Path) -> None:
    spenders = [programs.start_python(SPEND, tmp_path / "budget.json") for _ in range(3)]
    assert sum(int(spender.stdout.read()) for spender in spenders) == 200
    assert Budget(tmp_path / "budget.json", Limits()).spent["usd"] == pytest.approx(2.0)


@pytest.mark.parametrize("content", ["{", "[]", '{"spent": {"usd": "a"}, "reserved": {}}', '{"spent": {}}'])
def test_a_file_that_is_no_account_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "budget.json").write_text(content)
    with pytest.raises(UserError, match=r"budget.json is not what this program wrote .* delete it"):
        Budget(tmp_path / "budget.json", Limits(usd=1.0))
    assert (tmp_path / "budget.json").read_text() == content
