"""DQN's training steps per second with a working judge (`vlm_rb` and `sprite`) against uniform replay (`uer`).

    python -m benchmarks.judged_training [--pairs 10] [--profile quick] [--latency 0.5]

The task is DoorKey 8x8, with one thread each; the judge has its own process and needs a spare core. Every pair is two
new processes that alternate (see benchmarks/turns.py), because a process's memory layout makes it some percent slower
or faster than an identical one for its whole life. A pair's ratio is over all its turns. Turns begin after `--start`
steps, when learning is under way and the judge's first answers are applied.

With `--latency` the judge is a served model instead (`judge=openai`): a loopback server that delays each answer and
says yes or no depending on the request's size. This measures the cost of waiting for a remote model with concurrent
calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from benchmarks.table import Line
from benchmarks.turns import Contender, cell_arguments, interleave

METHODS = ("uer", "vlm_rb")


def yes_or_no(body: bytes) -> str:
    """Return a judge's answer to a request, by its length."""
    return "Answer: Yes" if len(body) % 2 else "Answer: No"


@contextlib.contextmanager
def served(latency: float, says: Callable[[bytes], str] = yes_or_no) -> Iterator[dict[str, str]]:
    """Yield the settings of a judge behind a server that answers every chat after `latency` seconds. `says`: a request
    -> the answer's text."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            time.sleep(latency)
            message = {"role": "assistant", "content": says(body)}
            content = json.dumps(
                {
                    "id": "", "object": "chat.completion", "created": 0, "model": "slow",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": length // 4, "completion_tokens": 3, "total_tokens": length // 4 + 3},
                }
            ).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield {"judge": "openai", "judge.model": "slow", "judge.base_url": address, "judge.scoring": "literal"}
        server.shutdown()


def pair(start: int, turn: int, rounds: int, cell_names: dict[str, str], judge: dict[str, str]) -> dict[str, Any]:
    """Run one process per method; return seconds per step by wall clock and processor, and the judge's figures."""
    contenders = {
        method: Contender(
            "benchmarks.turns", cell_arguments(start, turn, {**cell_names, **judge_settings, "method": method})
        )
        for method, judge_settings in zip(METHODS, ({}, judge), strict=True)
    }
    interleave(list(contenders.values()), rounds)
    figures: dict[str, Any] = {}
    for method, contender in contenders.items():
        for clock in ("seconds", "processor"):
            figures[f"{method}_{clock}"] = sum(taken[clock] for taken in contender.turns) / (rounds * turn)
        figures[f"{method}_clock"] = contender.close()
    return figures


def measure(
    pairs: int, start: int, turn: int, rounds: int, profile: str, task: str, latency: float | None
) -> dict[str, Any]:
    """Return rates of both methods, ratios over pairs, the judge's seconds per clip and the share of time spent
    waiting."""
    cell_names = {"suite": "minigrid_doorkey", "task": task, "profile": profile}
    with served(latency) if latency is not None else contextlib.nullcontext({"judge": "sprite"}) as judge:
        pairs_seconds = [pair(start, turn, rounds, cell_names, judge) for _ in range(pairs)]
    ratios = sorted(row["uer_seconds"] / row["vlm_rb_seconds"] for row in pairs_seconds)
    clocks = [row["vlm_rb_clock"] for row in pairs_seconds]
    trained = statistics.mean(row["vlm_rb_seconds"] for row in pairs_seconds) * (start + rounds * turn)
    return {
        "task": task,
        "profile": profile,
        "latency": latency,
        "pairs": pairs,
        "steps": rounds * turn,
        **{f"{method}_steps_per_second": 1 / _median(pairs_seconds, f"{method}_seconds") for method in METHODS},
        "ratio": statistics.median(ratios),
        "ratio_mean": statistics.mean(ratios),
        "ratio_standard_error": statistics.stdev(ratios) / pairs**0.5 if pairs > 1 else None,
        "ratio_lowest": ratios[0],
        "ratio_highest": ratios[-1],
        "processor_ratio": statistics.median(row["uer_processor"] / row["vlm_rb_processor"] for row in pairs_seconds),
        "judge_seconds_per_clip": statistics.median(clock["judge_seconds"] / clock["clips"] for clock in clocks),
        "clips_per_run": _median(clocks, "clips"),
        "waiting_share": statistics.mean(clock["wait_seconds"] for clock in clocks) / trained,
    }


def _median(rows: list[dict[str, Any]], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def lines(figures: dict[str, Any]) -> Iterator[Line]:
    """Yield the lines of the table of all benchmarks."""
    rates = [f"{figures[f'{name}_steps_per_second']:.0f} steps/s" for name in ("vlm_rb", "uer")]
    yield Line(f"DoorKey {figures['task']}, vlm_rb + sprite: uer", *rates, figures["ratio"], "0.98")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--start", type=int, default=1_200, help="steps before the first turn (default %(default)s)")
    parser.add_argument("--turn", type=int, default=200, help="steps of a turn (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each in a pair (default %(default)s)")
    parser.add_argument("--profile", default="quick", help="paper has the wider network (default %(default)s)")
    parser.add_argument("--task", default="8x8")
    parser.add_argument(
        "--latency", type=float, metavar="SECONDS", help="latency of a served judge, which replaces sprite"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    figures = measure(
        options.pairs, options.start, options.turn, options.rounds, options.profile, options.task, options.latency
    )
    if options.json:
        print(json.dumps(figures))
        return
    print(f"DoorKey {options.task}, {options.profile}, {options.pairs} pairs, ", end="")
    print(f"{figures['steps']:,} steps each, one thread each")
    for method in METHODS:
        print(f"{method:8}{figures[f'{method}_steps_per_second']:9,.0f} steps/s")
    error = figures["ratio_standard_error"] or float("nan")
    print(
        f"ratio   {figures['ratio']:9.3f}  (pairs {figures['ratio_lowest']:.3f} to {figures['ratio_highest']:.3f};",
        end="",
    )
    print(f" mean {figures['ratio_mean']:.3f}, standard error {error:.3f})")
    print(f"        {figures['processor_ratio']:9.3f}  by the training process's own processor time")
    print(f"judge   {1e3 * figures['judge_seconds_per_clip']:9.2f} ms a clip, drawn and judged in its own process")
    print(f"waiting {100 * figures['waiting_share']:9.3f} % of the training's time")


if __name__ == "__main__":
    main()
