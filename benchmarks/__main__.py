"""Run all benchmarks in sequence; print tables and write results/measured/speed.json.

    python -m benchmarks [--peers peers/bin/python] [--only cartpole engine] [--output results/measured/speed.json]

Benchmarks against peer libraries (replay, cartpole, crafter_dqn, continuous, also on MetaWorld) run under the Python of
the peers' environment, made from benchmarks/peers.txt; without it they are skipped with a message. Other load on the
machine distorts the figures, so the load average before each benchmark is recorded with it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import benchmark_process
from benchmarks.trackers import never_stopped
from guidebench.harness.identity.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
WITH_PEERS = ("replay", "cartpole", "crafter_dqn", "continuous", "continuous_metaworld")
ALSO = {
    "crafter_dqn": ("crafter_dqn", "--only", "peer", "flat"),
    "crafter_language": ("crafter_dqn", "--only", "symbols", "scripted", "sbert_shape"),
    "continuous_metaworld": ("continuous", "--suite", "metaworld_pbrl", "--task", "button-press", "--learners", "sac"),
}
"""Benchmarks that run another benchmark with other arguments."""
WITHOUT_PEERS = (
    "command_line",
    "engine",
    "doorkey_steps",
    "crafter_steps",
    "housekeep_steps",
    "bin_sorting_steps",
    "frames",
    "statistics",
    "report",
    "watch",
    "trackers",
    "env_workers",
    "leaderboard",
    "judged_training",
    "judging",
    "samplers",
    "replays",
    "models_desk",
    "arrays",
    "consulting",
    "ellm_questions",
    "model_as_agent",
    "dual_system",
    "observations",
    "preferences",
    "lagea",
    "apt_neighbours",
    "cal_ql",
    "kagi_rewards",
    "crafter_language",
)
SMALL = {
    "replay": ["--size", "20000", "--turns", "20", "--repeats", "2"],
    "cartpole": ["--rounds", "2", "--start", "1024", "--turn", "256"],
    "crafter_dqn": ["--rounds", "1", "--start", "5002", "--turn", "8"],
    "crafter_language": ["--rounds", "1", "--start", "20", "--turn", "8"],
    "command_line": ["--repeats", "1", "--cells", "4"],
    "continuous": ["--rounds", "1", "--turn", "8", "--warm-up", "8"],
    "continuous_metaworld": ["--rounds", "1", "--turn", "8", "--warm-up", "8"],
    "engine": ["--repeats", "1", "--run-steps", "600", "--slots", "2000", "--transitions", "500"],
    "doorkey_steps": ["--rounds", "1", "--sizes", "8"],
    "crafter_steps": ["--rounds", "1", "--steps", "40"],
    "housekeep_steps": ["--rounds", "1", "--steps", "40"],
    "bin_sorting_steps": ["--rounds", "1", "--steps", "40"],
    "frames": ["--rounds", "1", "--size", "48", "--moments", "2"],
    "statistics": ["--reps", "200", "--rliable-reps", "2", "2", "2", "--points", "2"],
    "report": ["--methods", "2", "--tasks", "1", "--seeds", "2", "--evaluations", "3", "--repeats", "1"],
    "trackers": ["--rounds", "1", "--start", "120", "--turn", "30", "--every", "15", "task=5x5", "profile=smoke"],
    "env_workers": [
        *("--rounds", "1", "--episodes", "3", "--steps", "5", "--start", "260", "--turn", "4"),
        *("--only", "minigrid_doorkey"),
    ],
    "watch": ["--methods", "2", "--seeds", "2", "--rows", "1"],
    "leaderboard": ["--methods", "2", "--suites", "2", "--seeds", "2", "--evaluations", "3", "--repeats", "1"],
    "judged_training": [
        *("--pairs", "1", "--rounds", "2", "--start", "200", "--turn", "64", "--task", "5x5", "--profile", "smoke"),
    ],
    "judging": ["--rounds", "1", "--clips", "4", "--plain", "1", "--length", "4", "--batches", "2", "--hidden", "32"],
    "samplers": ["--size", "5000", "--batch", "16", "--rounds", "3"],
    "models_desk": ["--calls", "30", "--large-calls", "4"],
    "arrays": ["--numbers", "16", "--stretch", "4", "--questions", "4", "--transitions", "2000", "--repeats", "1"],
    "ellm_questions": ["--steps", "100", "--questions", "1", "--latency", "0.02"],
    "consulting": ["--episodes", "4", "--steps", "1", "--latency", "0.02"],
    "model_as_agent": ["--episodes", "2", "--steps", "1", "--latency", "0.02", "--saving-steps", "3"],
    "dual_system": ["--episodes", "2", "--steps", "1", "--latency", "0.02", "--rounds", "1"],
    "observations": ["--rounds", "2", "--start", "1024", "--turn", "256"],
    "preferences": [
        *("--profile", "smoke", "--pairs", "1", "--turns", "1", "--every", "60", "--pretraining", "150"),
        *("--labels", "64", "--transitions", "1000", "--rounds", "1"),
    ],
    "lagea": [
        *("--pairs", "1", "--turns", "1", "--profile", "smoke", "--widths", "32", "--batches", "2", "--size", "32"),
        *("--frames", "4", "--episodes", "2", "--start", "140", "--turn", "16", "--methods", "lagea"),
    ],
    "apt_neighbours": ["--rounds", "1"],
    "cal_ql": ["--rounds", "1", "--turn", "1", "--batch", "16", "--hidden", "16", "--image", "20"],
    "kagi_rewards": ["--rounds", "1", "--states", "400"],
    "replays": [
        *("--rounds", "1", "--start", "150", "--turn", "32", "--task", "5x5", "--profile", "smoke"),
        *("--replays", "vlm_rb"),
    ],
}
"""Arguments for tiny runs of seconds, which test that a benchmark works and measure nothing."""


class Line(NamedTuple):
    """One line of the table; a goal that begins with < is an upper bound, any other a lower bound."""

    label: str
    ours: str
    peer: str
    figure: float
    goal: str

    @property
    def reached(self) -> str:
        """Return "yes" or "no", or "" without a goal."""
        if not self.goal:
            return ""
        bound = float(self.goal.lstrip("<"))
        return "yes" if (self.figure <= bound if self.goal.startswith("<") else self.figure >= bound) else "no"


def lines(results: dict[str, Any]) -> list[Line]:
    """Return the figures that have goals, of the benchmarks that were run."""
    table = []
    if replay := results.get("replay"):
        ours = {row["compares"]: row for row in replay["rows"] if row["contender"].startswith("guidebench")}
        for row in replay["rows"]:
            if not row["contender"].startswith("guidebench"):
                goal = "5" if row["contender"].startswith("TorchRL") else "2"
                mine = ours[row["compares"]]["microseconds"]
                label = f"sample + update, {replay['size']:,}, {row['compares']}: {row['contender']}"
                table.append(Line(label, f"{mine:.0f} µs", f"{row['microseconds']:.0f} µs", row["ratio"], goal))
    if doorkey := results.get("doorkey_steps"):
        for name, entry in doorkey["sizes"].items():
            for kind, goal in (("steps", "15"), ("frames", "")):
                row = entry[kind]
                rates = [f"{row[key]:,.0f}/s" for key in ("ours_per_second", "peer_per_second")]
                table.append(Line(f"DoorKey {name}, {kind}: MiniGrid", *rates, row["ratio"], goal))
    if steps := results.get("crafter_steps"):
        for kind, goal in (("symbols", "4"), ("pixels", ""), ("pictures", "1.5")):
            row = steps["kinds"][kind]
            table.append(
                Line(
                    f"Crafter, steps with {kind}: package",
                    f"{row['per_second']:,.0f}/s",
                    f"{steps['package_per_second']:,.0f}/s",
                    row["ratio"],
                    goal,
                )
            )
    if steps := results.get("housekeep_steps"):
        for kind, goal in (("symbols", "20000"), ("text", ""), ("agent", "")):
            row = steps["kinds"][kind]
            table.append(
                Line(
                    f"Housekeep, steps a second with {kind}", f"{row['per_second']:,.0f}/s", "", row["per_second"], goal
                )
            )
    if steps := results.get("bin_sorting_steps"):
        for kind, label, goal in (
            ("random", "steps a second at 10 Hz, random actions", "250"),
            ("policy", "steps a second at 10 Hz, scripted policy", "250"),
            ("coarse_meshes", "frames a second, 100 px", ""),
        ):
            rate = steps["kinds"][kind]["per_second"]
            table.append(Line(f"bin sorting, {label}", f"{rate:,.0f}/s", "", rate, goal))
    if frames := results.get("frames"):
        times = [f"{1e3 * frames[f'{name}_seconds']:.0f} ms" for name in ("ours", "peer")]
        label = f"OGBench frame from a snapshot, {frames['size']} px, {frames['opengl']}: env.render()"
        table.append(Line(label, *times, frames["ratio"], "8"))
    if statistics := results.get("statistics"):
        wording = {
            "aggregates": "four aggregates",
            "curves": "IQM curves of 50 points",
            "improvement": "P(improvement), pairs",
        }
        for work, row in statistics["rows"].items():
            times = f"{row['ours_seconds']:.2f} s", f"{row['rliable_seconds']:,.0f} s"
            label = f"{wording[work]}, {statistics['reps']:,} resamples: rliable"
            table.append(Line(label, *times, row["ratio"], "50" if work == "aggregates" else "200"))
    if report := results.get("report"):
        size = f"{report['peak_bytes'] / 2**30:.1f} GiB"
        label = f"bench report, {report['runs']:,} runs of {report['rows_per_run']} rows, seconds"
        table.append(Line(f"{label} ({size} at most)", f"{report['seconds']:.1f} s", "", report["seconds"], "<10"))
    if watch := results.get("watch"):
        label = f"bench watch, {watch['runs']:,} runs, seconds from a row on disk"
        for name, place in (("client", "to a client"), ("page", "to the page"), ("curve", "to its curve")):
            if (took := watch.get(f"{name}_seconds")) is not None:
                worst = watch[f"{name}_worst_seconds"]
                table.append(Line(f"{label} {place}", f"{took:.2f} s, at most {worst:.2f} s", "", worst, "<2"))
    if trackers := results.get("trackers"):
        for name, label in (("tensorboard", "TensorBoard"), ("hanging", "a client that hangs")):
            ratio, (_, most) = (never_stopped(trackers[f"processor_{name}{kind}"]) for kind in ("", "_interval"))
            label = (
                f"DQN on DoorKey 8x8 beside {label}, processor time by that without; at most, with confidence 97.5 %"
            )
            table.append(Line(label, f"{ratio:.4f} of it", "", most, "<1.01"))
    if beside := results.get("env_workers"):
        cores = f"{beside['processes'] + 1} processes step its tasks"
        for kind, tasks in (("training", f"{beside['seeds']} seeds"), ("evaluation", f"{beside['episodes']} episodes")):
            for row in beside[kind]:
                rates = [f"{rate:,.0f} steps/s" for rate in reversed(row["steps_per_second"])]
                label = f"{kind} of {tasks}, {row['suite']} {row['task']}, {cores}: one"
                table.append(Line(label, *rates, row["ratio"], ""))
    if board := results.get("leaderboard"):
        label = f"bench leaderboard, {board['rows']:,} rows of {board['runs']:,} runs"
        size = f"{board['peak_bytes'] / 2**30:.1f} GiB"
        table.append(
            Line(f"{label}, seconds ({size} at most)", f"{board['seconds']:.1f} s", "", board["seconds"], "<30")
        )
        megabytes = board["page_bytes"] / 10**6
        table.append(Line("its page, megabytes", f"{megabytes:.1f} MB", "", megabytes, "<5"))
        for name, value in board["browser"].items():
            goal = "<1000" if name.startswith("usable") else "<100"
            table.append(Line(f"in Chromium, ms: {name.replace('_', ' ')}", f"{value:.0f} ms", "", value, goal))
    if lagea := results.get("lagea"):
        for width, rows in lagea["training"].items():
            rates = [f"{rows[method]['steps_per_second']:.1f} steps/s" for method in ("lagea", "sac")]
            table.append(Line(f"LaGEA, vectors of {width}: sac", *rates, rows["lagea"]["ratio"], "0.8"))
        for width, row in lagea["relabelling"].items():
            rates = [f"{row[f'{way}_per_second']:,.0f}/s" for way in ("episodes", "batches")]
            table.append(
                Line(f"LaGEA's rewards anew, vectors of {width}: loop over batches", *rates, row["ratio"], "5")
            )
        for count, rate in lagea["frames_per_second"].items():
            table.append(Line(f"frames drawn and embedded, {count} at once", f"{rate:.0f}/s", "", rate, ""))
    if cal_ql := results.get("cal_ql"):
        for row in cal_ql["rows"]:
            rates = [f"{row[f'{who}_per_second']:.1f} updates/s" for who in ("ours", "plain")]
            table.append(Line(f"Cal-QL, {row['observations']}: plain PyTorch", *rates, row["ratio"], "1.2"))
    if rewards := results.get("kagi_rewards"):
        label = f"KAGI's rewards of {rewards['states']:,} stored states, milliseconds"
        table.append(Line(label, f"{rewards['milliseconds']:.1f} ms", "", rewards["milliseconds"], "<50"))
    if neighbours := results.get("apt_neighbours"):
        for row in neighbours["rows"]:
            rates = [f"{row[f'{way}_per_second']:,.0f}/s" for way in ("ours", "loop")]
            label = (
                f"APT's reward, {row['points']} points of {row['features']} among {row['among']:,}: a loop over points"
            )
            table.append(Line(label, *rates, row["ratio"], "5"))
    if judged := results.get("judged_training"):
        rates = [f"{judged[f'{name}_steps_per_second']:.0f} steps/s" for name in ("vlm_rb", "uer")]
        table.append(Line(f"DoorKey {judged['task']}, vlm_rb + sprite: uer", *rates, judged["ratio"], "0.98"))
    if judging := results.get("judging"):
        for of in judging["runs"]:
            best = {row["clips"]: row for row in sorted(of["rows"], key=lambda row: row["ratio"])}
            for row in best.values():
                rates = [f"{1 / row[f'{name}seconds_per_clip']:.1f} clips/s" for name in ("", "plain_")]
                label = f"{of['model']} judging {row['clips']}, {row['batch']} clips at a time: a loop over generate"
                table.append(Line(label, *rates, row["ratio"], "5"))
    if cartpole := results.get("cartpole"):
        rates = [f"{cartpole[f'{name}_steps_per_second']:,.0f} steps/s" for name in ("ours", "peer")]
        table.append(Line("DQN on CartPole: Stable-Baselines3", *rates, cartpole["ratio"], "1.5"))
    for name in ("crafter_dqn", "crafter_language"):
        for pair, row in results.get(name, {"ratios": {}})["ratios"].items():
            rates = [f"{results[name]['steps_per_second'][who]:,.0f} steps/s" for who in pair.split(" / ")]
            label = f"DQN on Crafter: {pair}"
            table.append(Line(label, *rates, row["ratio"], "1.2" if name == "crafter_dqn" else ""))
    for name, place in (("continuous", "Pendulum"), ("continuous_metaworld", "MetaWorld")):
        for row in results.get(name, {"rows": ()})["rows"]:
            rates = [f"{row[f'{who}_per_second']:,.0f}/s" for who in ("ours", "peer")]
            label = f"{row['learner']} on {place}, {row['what']} of {row['seeds']} seeds: Stable-Baselines3"
            table.append(Line(label, *rates, row["ratio"], "1.2" if row["seeds"] == 1 else "1.4"))
    if preferences := results.get("preferences"):
        row = preferences["training"]
        rates = [f"{row[f'{method}_steps_per_second']:.0f} steps/s" for method in ("pebble", "sac")]
        table.append(Line(f"MetaWorld {row['task']}, pebble with a session a turn: sac", *rates, row["ratio"], "0.85"))
        row = preferences["updates"]
        times = f"{1e3 * row['ours_seconds']:.0f} ms", f"{1e3 * row['loop_seconds']:.0f} ms"
        label = f"reward ensemble, an epoch over {row['labels']:,} labels: a loop over its members"
        table.append(Line(label, *times, row["ratio"], "2"))
        row = preferences["relabelling"]
        label = f"relabelling {row['transitions']:,} transitions, seconds a member"
        table.append(Line(label, f"{row['per_member']:.2f} s", "", row["per_member"], "<2"))
    if samplers := results.get("samplers"):
        for row in samplers["rows"]:
            label = f"draw + feedback, {samplers['size']:,}, S = {row['seeds']}: {row['replay']}"
            table.append(Line(label, f"{row['microseconds']:.0f} µs", "", row["microseconds"], ""))
    if replays := results.get("replays"):
        for row in replays["rows"]:
            label = f"{row['learner']} on DoorKey {replays['task']}, {row['replay']}: uer"
            table.append(Line(label, f"{row['steps_per_second']:.0f} steps/s", "", row["ratio"], ""))
    if arrays := results.get("arrays"):
        wording = {"live": "asked, recorded and stored", "replay": "from the cassette and stored"}
        for way in ("float16", "float32"):
            for label, words in wording.items():
                figures = [
                    f"{arrays['answers'][encoding][f'{label}_microseconds']:,.0f} µs" for encoding in (way, "JSON")
                ]
                ratio = arrays["ratios"][way][f"{label}_microseconds"]
                table.append(Line(f"an answer of {arrays['numbers']:,} {way}, {words}: JSON", *figures, ratio, ""))
        row = arrays["checkpoint"]
        label = f"checkpoint of {row['seeds']} × {row['transitions']:,} answers of {row['numbers']:,} float16: in JSON"
        times = f"{row['late_column_seconds']:.2f} s", f"{row['json_seconds']:,.0f} s"
        table.append(Line(label, *times, row["json_seconds"] / row["late_column_seconds"], ""))
    if consulting := results.get("consulting"):
        size = f"{consulting['episodes']} episodes, {consulting['latency']:g} s an answer"
        ways = [f"{consulting[f'{way}_seconds']:.2f} s" for way in ("batch", "one_by_one")]
        table.append(
            Line(f"an evaluation that asks at each step ({size}): one by one", *ways, consulting["ratio"], "8")
        )
    if ellm := results.get("ellm_questions"):
        for rows, took in ellm["guide_microseconds"].items():
            label = f"ELLM's guide, known texts, µs per step and seed, {rows} at once"
            table.append(Line(label, f"{took:.1f} µs", "", took, "<100"))
    if acting := results.get("model_as_agent"):
        size = f"{acting['episodes']} episodes, {acting['latency']:g} s an answer"
        ways = [f"{acting[f'{way}_per_minute']:,.0f} episodes/min" for way in ("batch", "one_by_one")]
        table.append(Line(f"model_as_agent on Crafter ({size}): one by one", *ways, acting["ratio"], "8"))
    if dual := results.get("dual_system"):
        for name, words in (("routing", "evaluations"), ("remembering", "training")):
            took = dual[f"{name}_microseconds"]
            label = f"DSADF's routing and memory, {dual['subgoals']} sub-goals, µs per step of {words}"
            table.append(Line(label, f"{took:.1f} µs", "", took, "<100"))
        size = f"{dual['episodes']} episodes, {dual['latency']:g} s an answer"
        ways = [f"{dual[f'{way}_per_minute']:,.0f} episodes/min" for way in ("batch", "one_by_one")]
        table.append(
            Line(f"dsadf on Crafter, each step the performer's ({size}): one by one", *ways, dual["ratio"], "8")
        )
    if observations := results.get("observations"):
        rates = [f"{observations[f'{kind}_steps_per_second']:,.0f} steps/s" for kind in ("record", "array")]
        table.append(Line("DQN on CartPole, one named part: an array", *rates, observations["ratio"], "0.97"))
    if desk := results.get("models_desk"):
        for row in desk["rows"]:
            small = row["bytes"] < 2**17  # larger frames are hashed and packed by other threads
            took, again = row["live"], row["replay"]
            parts = f"{took['total']:,.0f} µs, {took['hash']:,.0f} hashing, {took['png']:,.0f} PNG"
            label = f"model call asked and recorded, {row['what']}, µs beyond hashing and PNG"
            table.append(Line(label, parts, "", took["beyond"], "<200" if small else ""))
            label = f"model calls from the cassette, {row['what']}, per second beyond hashing"
            rate = f"{again['calls_per_second']:,.0f}/s"
            table.append(Line(label, rate, "", again["beyond_hashing"], "5000" if small else ""))
    if command := results.get("command_line"):
        for name, goal in (("help", "<0.25"), ("dry_run", "<2")):
            taken = command[f"{name}_seconds"]
            table.append(Line(f"bench --{name.replace('_', '-')}, seconds", f"{taken:.3f} s", "", taken, goal))
    return table


def show(results: dict[str, Any]) -> None:
    print("| what: peer | ours | peer | ratio or figure | goal | reached |\n| --- | --- | --- | --- | --- | --- |")
    for line in lines(results):
        goal = line.goal.replace("<", "≤ ") if line.goal.startswith("<") else f"≥ {line.goal}" if line.goal else ""
        figure = f"{line.figure:.{3 if line.figure < 10 else 0}f}"
        print(f"| {line.label} | {line.ours} | {line.peer} | {figure} | {goal} | {line.reached} |")


def run(name: str, python: str, arguments: list[str]) -> Any:
    """Run one benchmark in a new process and return its figures; if it fails, its error is on stderr, and return
    None."""
    quiet = {"RL_LOGGING_LEVEL": "ERROR"}  # TorchRL logs to standard output otherwise
    module, *extra = ALSO.get(name, (name,))
    words = ["--json", *extra, *arguments]
    process = benchmark_process.start(python, f"benchmarks.{module}", words, quiet, stdout=subprocess.PIPE)
    with process.stdout as output:
        printed = output.read()
    return json.loads(printed) if process.wait() == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter of the peers' environment")
    parser.add_argument(
        "--only", nargs="+", choices=[*WITHOUT_PEERS, *WITH_PEERS], metavar="NAME", help=", ".join(SMALL)
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes: a test that they work, not a measurement")
    parser.add_argument("--output", type=Path, help="default results/measured/speed.json; with --small, none")
    options = parser.parse_args()
    chosen = [name for name in (*WITHOUT_PEERS, *WITH_PEERS) if name in (options.only or SMALL)]
    if options.peers is None:
        left_out = [name for name in chosen if name in WITH_PEERS]
        chosen = [name for name in chosen if name not in WITH_PEERS]
        if left_out:
            print(f"left out, since no --peers is given (see benchmarks/peers.txt): {', '.join(left_out)}")
    output = options.output or (None if options.small else ROOT / "results" / "measured" / "speed.json")
    present = json.loads(output.read_text()) if output and output.exists() else {}
    results: dict[str, Any] = present.get("results", {})
    failed = []
    for name in chosen:
        load = os.getloadavg()[0]
        print(f"{name} (load average {load:.2f}) …", flush=True)
        python = options.peers if name in WITH_PEERS else sys.executable
        figures = run(name, python, SMALL[name] if options.small else [])
        if figures is None:
            failed.append(name)
            continue
        results[name] = {**figures, "load_average_before": round(load, 2), "measured_on": provenance("cpu")}
    show(results)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps({"schema": 1, "results": results}, indent=1) + "\n")
        print(f"written to {output}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
