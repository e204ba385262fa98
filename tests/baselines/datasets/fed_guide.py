"""A guide of another package that learns from a dataset before it acts, and logs what its phases find."""

GUIDE = """
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    from guidebench.baselines.guiding import BaseGuide
    from guidebench.harness.interfaces import RunPhase
    from guidebench.harness.logs import Log, amount, count
    from guidebench.harness.parts import AskingPart
    from guidebench.harness.recipes import Method
    from guidebench.harness.registry import register


    class Feeding(BaseGuide):
        def __init__(self, build, first):
            self.rows, self.first, self.was = build.rows, first, ""
            self.followed = np.zeros(build.rows)

        def phases(self, steps):
            offline, online = RunPhase("pretrain", 30, "offline", updates=2), RunPhase("online", steps - 60)
            again = RunPhase("again", 30, "offline", updates=1)
            return (online, offline, again) if self.first == "environment" else (offline, online, again)

        def observed(self, slot, transition, store, ctx):
            self.followed += transition.next_observation.reshape(self.rows, -1).sum(1, dtype=np.float64)

        def before_update(self, store, learner, ctx):
            if ctx.phase.name != self.was:
                self.was, live = ctx.phase.name, store.live
                slots = live.slots(np.arange(live.count))
                for row in range(self.rows):
                    batch = store.gather(np.stack([slots] * self.rows))
                    astray = abs(batch.next_observation[row].sum(dtype=np.float64) - self.followed[row])
                    reward = float(batch.task_reward[row].sum())
                    ctx.note("fed", row, {"stored": live.count, "reward": reward, "astray": float(astray)})
            return 0

        def state(self, row):
            return {"was": self.was, "followed": float(self.followed[row])}

        def load_state(self, row, state):
            self.was, self.followed[row] = state["was"], state["followed"]


    @register.guide("feeding")
    @dataclass(frozen=True)
    class FeedingPart(AskingPart):
        first: str = "dataset"

        version: ClassVar[int] = 1
        citation: ClassVar[str] = "% a test"
        needs: ClassVar = {"offline": "dataset"}
        logs: ClassVar = {
            "fed": Log(
                "as a phase begins",
                {"stored": count("transitions"), "reward": amount("their sum"),
                 "astray": amount("by how much what follows them is not what did")},
            )
        }

        def spawn(self, build):
            return Feeding(build, self.first)


    register.method("feeding")(Method(summary="is fed", guide="feeding", citation="% a test"))
"""
