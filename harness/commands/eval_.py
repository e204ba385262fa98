"""Evaluate a finished run again: on new layouts, on another task its spaces fit, with video if asked."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

HELP = "evaluate a finished run again, with --video if asked"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="directory of a run (…/seed-0)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="suite=… and task=… to test it elsewhere")
    parser.add_argument("--episodes", type=int, default=32, help="episodes (32)")
    parser.add_argument("--seed", type=int, default=0, help="of the layouts; none of them was seen in the run (0)")
    parser.add_argument("--video", type=Path, metavar="FILE", help="draw the first episodes to FILE (.mp4 or .gif)")
    parser.add_argument("--video-episodes", type=int, default=4, help="episodes in the video (4)")
    parser.add_argument("--json", action="store_true", help="one object per episode")


def run(args: argparse.Namespace) -> int:
    from harness import reevaluation
    from harness.errors import UserError

    chosen = dict(text.split("=", 1) for text in args.overrides if "=" in text)
    extra = sorted(set(chosen) - {"suite", "task"})
    if extra or len(chosen) != len(args.overrides):
        wrong = extra[0] if extra else next(text for text in args.overrides if "=" not in text)
        raise UserError(f"{wrong!r}: only suite=… and task=… can be given to `bench eval`")
    if args.episodes < 1:
        raise UserError(f"--episodes {args.episodes}: at least 1")
    if args.video_episodes < 1 or args.seed < 0:
        raise UserError(f"--video-episodes {args.video_episodes}, --seed {args.seed}: at least 1, and at least 0")
    film = reevaluation.Film(args.video, args.video_episodes) if args.video else None
    results = reevaluation.evaluate_run(
        args.run, chosen.get("suite"), chosen.get("task"), episodes=args.episodes, seed=args.seed, film=film
    )
    if args.json:
        print(
            json.dumps(
                [{"episode": r.episode, "return": r.ret, "success": r.success, "length": r.length} for r in results]
            )
        )
    else:
        successes = sum(result.success for result in results)
        mean = sum(result.ret for result in results) / len(results)
        length = sum(result.length for result in results) / len(results)
        print(f"{successes} of {len(results)} episodes succeed; mean return {mean:.3f}, mean length {length:.1f}")
        if film:
            print(f"video: {args.video}")
    return 0
