"""Evaluate a finished run again: on new layouts, or on another task with the same spaces; optionally with video or
judged frames.

Files in RUN/gallery, RUN/videos, RUN/frames, RUN/logged, RUN/questions and RUN/acted appear on the run's page.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from guidebench.harness.errors import count

HELP = "evaluate a finished run again, optionally with --video or --frames"
RUNS_CODE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="directory of a run (…/seed-0)")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="suite=… and task=… to test it elsewhere; models.mode=record to call models; suite.module=… as it was "
        "trained with, for code that you trust",
    )
    parser.add_argument("--episodes", type=int, default=32, help="number of episodes (32)")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the layouts, which differ from those of the run (0)"
    )
    parser.add_argument("--video", type=Path, metavar="FILE", help="draw the first episodes to FILE (.mp4 or .gif)")
    parser.add_argument("--video-episodes", type=int, default=4, help="episodes in the video (4)")
    parser.add_argument(
        "--frames",
        action="store_true",
        help="draw the first episode to RUN/frames, with the judge's score of each clip; and episodes of the run's own "
        "last evaluation to RUN/acted, if a log tells their actions",
    )
    parser.add_argument(
        "--gallery",
        action="store_true",
        help="draw small animated episodes for the run's page to RUN/gallery, failures first: of the run's own last "
        "evaluation if a log tells their actions, with the model's words; else of this evaluation",
    )
    parser.add_argument("--json", action="store_true", help="print one object per episode as JSON")


def run(args: argparse.Namespace) -> int:
    from guidebench.harness import consent, settings
    from guidebench.harness.errors import UserError
    from guidebench.harness.execution import Models
    from guidebench.harness.plan import grammar
    from guidebench.harness.playback import acted_frames, filmstrips, gallery, reevaluation

    words = consent.separated(args.overrides)[1]
    overrides = dict(text.split("=", 1) for text in words if "=" in text)
    model_words = {
        name.removeprefix("models."): overrides.pop(name) for name in [*overrides] if name.startswith("models.")
    }
    extra = sorted(set(overrides) - {"suite", "task"})
    if extra or len(overrides) + len(model_words) != len(words):
        wrong = extra[0] if extra else next(text for text in words if "=" not in text)
        raise UserError(f"{wrong!r}: only suite=…, task=… and models.… can be given to `bench eval`")
    plain = grammar.single([f"{name}={value}" for name, value in model_words.items()]) if model_words else {}
    models = settings.build(Models, {"mode": "replay", **plain}, "models")
    if args.episodes < 1:
        raise UserError(f"--episodes {args.episodes}: at least 1")
    if args.video_episodes < 1 or args.seed < 0:
        raise UserError(f"--video-episodes {args.video_episodes}, --seed {args.seed}: at least 1, and at least 0")
    recordings: list[reevaluation.Recording] = []
    if args.video:
        recordings.append(reevaluation.Film(args.video, args.video_episodes))
    if args.frames:
        if message := acted_frames.write(args.run):  # before the play, which may lack answers of a model
            print(message, file=sys.stderr if args.json else sys.stdout)
        recordings.append(filmstrips.Filmstrips(args.run, args.seed, models))
    spoken, gallery_recording = gallery.write_spoken(args.run) if args.gallery else None, None  # likewise
    if spoken:
        print(spoken.message, file=sys.stderr if args.json or spoken.empty else sys.stdout)
    elif args.gallery:
        gallery_recording = gallery.GalleryRecording(args.run, args.seed, models)
        recordings.append(gallery_recording)
    results = reevaluation.evaluate_run(
        args.run,
        overrides.get("suite"),
        overrides.get("task"),
        episodes=args.episodes,
        seed=args.seed,
        recordings=recordings,
        models=models,
    )
    if args.json:
        print(
            json.dumps(
                [
                    {
                        "episode": r.episode,
                        "return": r.ret,
                        "success": r.success,
                        "length": r.length,
                        "score": r.score,
                    }
                    for r in results
                ]
            )
        )
    else:
        successes = sum(result.success for result in results)
        mean = sum(result.ret for result in results) / len(results)
        length = sum(result.length for result in results) / len(results)
        worth = sum(result.score for result in results) / len(results)
        score = reevaluation.score_of(args.run, overrides.get("suite"), overrides.get("task")).name
        parts = [f"mean return {mean:.3f}", f"mean length {length:.1f}"]
        if score == "success" or successes:
            parts.insert(0, f"{successes} of {len(results)} episodes succeed")
        else:
            parts.insert(0, count(len(results), "episode"))
        if score not in ("success", "return"):
            parts.insert(1, f"mean {score} {worth:.3f}")
        print("; ".join([parts[0], ", ".join(parts[1:])]))
        for recording in recordings:
            if recording is not gallery_recording or not gallery_recording.empty:
                print(recording.message)
    if gallery_recording is not None and (gallery_recording.empty or args.json):
        print(gallery_recording.message, file=sys.stderr)
    return 1 if any(outcome.empty for outcome in (spoken, gallery_recording) if outcome is not None) else 0
