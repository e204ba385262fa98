"""The dual system: it trains System 1 by progressive rewards and remembers its proficiencies (DSADF, algorithm 1).

Its evaluations are played by `guidebench.methods.dsadf.dual_acting`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from guidebench.baselines.instructions import Instructions
from guidebench.baselines.text_acting import RecallingAgent, sentences
from guidebench.baselines.text_vectors import TextVectors
from guidebench.harness.capabilities import INSTRUCTION, NamesActions
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import (
    Actor,
    Array,
    Build,
    Context,
    Episode,
    Guide,
    Learner,
    Metrics,
    Place,
    RunPhase,
    State,
    Transition,
    Update,
)
from guidebench.harness.logs import TEXT
from guidebench.harness.texts import one_line
from guidebench.methods.dsadf import scoring
from guidebench.methods.dsadf.course import Course
from guidebench.methods.dsadf.deeds import Deeds, done
from guidebench.methods.dsadf.deliberation import PLANNER, Moment, deliberate, question, replans, towards
from guidebench.methods.dsadf.dual_acting import DualActor
from guidebench.methods.dsadf.dual_system import GOAL, SCORER, DualSystem
from guidebench.methods.dsadf.memory import Memory, Skill, divided
from guidebench.methods.dsadf.plans import Subgoal
from guidebench.methods.dsadf.rewards import Terms, advance, proximity
from guidebench.methods.dsadf.targets import History, Tried, packed, unpacked

if TYPE_CHECKING:
    from guidebench.baselines.experience import Drawn, Experience, Uneven

MEMORY, TARGET = "memory", "target"
"""Names of M and T among the parameters of a policy."""
UNREMEMBERED = "this policy has no memory of proficiencies"


class Pursuit:
    """The state of a seed's current training episode: its course, its plans and sums of rewards."""

    def __init__(self) -> None:
        self.course, self.plans, self.goal = Course(), 0, ""
        """The course of its present plan, the number of plans so far, and the episode's instruction, "" where the task
        has a single one."""
        self.succeeded = False
        self.completed, self.proximity, self.reward = 0, 0.0, 0.0
        """Sums of R_sub, R_proxi and R over the episode's steps so far."""

    def follow(self, plan: Sequence[Subgoal], partial: bool) -> None:
        """Begin to follow a new plan. `partial`: whether it covers only a part of the task (`Course`)."""
        self.course, self.plans = Course(plan, partial), self.plans + 1

    def state(self) -> State:
        course = self.course
        return {
            "plans": self.plans, "partial": course.partial,
            "plan": [[name, times] for name, times in course.plan], "at": course.at, "done": course.done,
            "steps": course.steps, "succeeded": self.succeeded, "completed": self.completed,
            "proximity": self.proximity, "reward": self.reward, "goal": self.goal,
        }  # fmt: skip

    @classmethod
    def restored(cls, state: State) -> Pursuit:
        """Return the pursuit that `state` describes."""
        pursuit, plan = cls(), [Subgoal(str(name), int(times)) for name, times in state["plan"]]
        pursuit.course, pursuit.plans = Course(plan, bool(state["partial"])), int(state["plans"])
        course = pursuit.course
        course.at, course.done, course.steps = int(state["at"]), int(state["done"]), int(state["steps"])
        pursuit.succeeded, pursuit.completed = bool(state["succeeded"]), int(state["completed"])
        pursuit.proximity, pursuit.reward = float(state["proximity"]), float(state["reward"])
        pursuit.goal = str(state["goal"])
        return pursuit


class DualAgent(RecallingAgent):
    """Trains System 1 of S seeds, and plays evaluations with both systems."""

    deterministic = False

    def __init__(
        self,
        config: DualSystem,
        build: Build,
        learner: Learner,
        experience: Experience,
        guide: Guide,
        adds: tuple[str, ...] = (),
    ) -> None:
        """`build.observations` are those of the learner; the others as of StandardAgent."""
        super().__init__(build, learner, experience, guide, adds)
        suite = build.parts["suite"]
        assert isinstance(suite, NamesActions), "`fits` refuses other suites"
        self.config, self.streams, self.suite, self.task = config, build.streams, suite, build.task
        self.names, self.mask = suite.action_names(build.task), build.observations.masking
        self.deeds = Deeds(build.parts["suite"], build.task)
        self.repeatable, self.wants_words = True, self.wants_words or config.trains
        self.vectors = TextVectors(config.width, build.directories)
        self.memories = [Memory() for _ in range(build.rows)]
        self._instructions = Instructions(build)
        self._sees, self._score_every = build.observations.numpy, build.parts["evaluation"].every
        self._pursuits = [Pursuit() for _ in range(build.rows)]
        self._episodes = np.zeros(build.rows, np.int64)
        """Number of training episodes that have begun, [S]."""
        self._targets, self._histories = [""] * build.rows, [History(config.sampled) for _ in range(build.rows)]
        self._inferring = np.full(build.rows, config.infer and config.trains)
        """Which seeds have not inferred their target yet, bool [S]; these make no plans in training."""

    def phases(self) -> tuple[RunPhase, ...]:
        """Return the guide's run phases, or one without transitions and updates if the run does not train."""
        return super().phases() if self.config.trains else (RunPhase("evaluate", self._steps, "none", 0),)

    # What the learner sees

    def pursued(self, course: Course, goal: str, row: int) -> str:
        """Return the text whose vector the learner observes: the name of the present sub-goal or, without one, that of
        an episode's `goal` (`stated`)."""
        return self.stated(goal, row) if course.present is None else course.present.name

    def stated(self, goal: str, row: int) -> str:
        """Return an episode's `goal` (`goals`) in words, where "" stands for the instruction of the seed's task."""
        return goal or self._instructions.fixed[row]

    def goals(self, observation: Array, rows: Sequence[int]) -> list[str]:
        """Return the goals of episodes that begin with observations [n] of these seed rows: the target T that a seed
        has inferred, or the episode's own instruction; "" where the task has a single one."""
        changing = self._instructions.changing(observation)
        return [self._targets[row] or goal for row, goal in zip(rows, changing, strict=True)]

    def _goal(self, row: int) -> str:
        """Return the goal of a seed's present episode of training, as `goals` does."""
        return self._targets[row] or self._pursuits[row].goal

    def learner_observation(self, observation: Array, vectors: Array, **others: Array) -> Array:
        """Return the learner's observations, records [n], made of the task's observations [n], the vectors of sub-goals
        [n, width] and further parts [n, …] by name."""
        records, parts = np.empty(len(observation), self._sees), {GOAL: vectors, **others}
        for name in self._sees.names or ():
            records[name] = parts[name] if name in parts else observation[name]
        return records

    def embedded(self, texts: Sequence[str], places: Sequence[Place], ctx: Context) -> Array:
        """Return the vectors of texts, float32 [n, width], after asking for new ones; `places`: where each text was
        read."""
        return self.vectors.of([text.encode() for text in texts], places, self.active, ctx)

    def fast(self, observation: Array, goals: Sequence[str], places: Sequence[Place], ctx: Context) -> Array:
        """Return System 1's greedy actions, int64 [n], for observations [n] of the task at `places`, with these
        sub-goals."""
        rows = np.array([place.row for place in places])
        records = self.learner_observation(observation, self.embedded(goals, places, ctx))
        return self.learner.act(records, rows, None, ctx.step)

    def _goals(self) -> list[str]:
        """Return the present sub-goal's text of each seed's episode of training."""
        return [self._pursued(row) for row in range(len(self._pursuits))]

    def _pursued(self, row: int) -> str:
        return self.pursued(self._pursuits[row].course, self._goal(row), row)

    def _present(self, observation: Array, ctx: Context) -> Array:
        """Return the learner's observations, records [S], made of the task's observations [S] and the vectors of the
        present sub-goals of training."""
        return self.learner_observation(observation, self.embedded(self._goals(), self._places(), ctx))

    def _places(self) -> list[Place]:
        return [Place(row, 0) for row in range(len(self._pursuits))]

    # Algorithm 1

    def begin(self, rows: Array, observation: Array, ctx: Context) -> None:
        """Make a plan for each of these seeds' episodes (lines 4 to 6)."""
        super().begin(rows, observation, ctx)
        for row, goal in zip(rows.tolist(), self._instructions.changing(observation), strict=True):
            self._pursuits[row] = Pursuit()
            self._pursuits[row].goal = goal
            self._episodes[row] += 1
        planning = ~self._inferring[rows]
        self._plan(rows[planning].tolist(), observation[planning], ctx)

    def _plan(self, rows: Sequence[int], observation: Array, ctx: Context) -> None:
        """Make a plan for the present episode of each of these seeds, given their observations [n]."""
        if not rows:
            return
        moments = [
            Moment(Place(row, 0), text, self._pursuits[row].plans, int(self._episodes[row]) - 1, self._goal(row))
            for row, text in zip(rows, sentences(observation), strict=True)
        ]
        plans, possible = deliberate(moments, self.config, ctx), self.deeds.possible(observation)
        for row, plan, deeds in zip(rows, plans, possible, strict=True):
            self._pursuits[row].follow(plan, self.config.partial)
            self._pursuits[row].course.look(deeds)

    def _replan(self, transition: Transition, ctx: Context) -> None:
        """If plans are partial, make further plans for the continuing episodes that need one
        (`deliberation.replans`)."""
        ended = transition.terminated | transition.truncated
        replanned = [
            row
            for row, pursuit in enumerate(self._pursuits)
            if self.config.partial and self.active[row] and not (ended[row] or self._inferring[row])
            and replans(pursuit.course, pursuit.plans, self.config)
        ]  # fmt: skip
        for row in replanned:
            self._attempted(row, False)
        self._plan(replanned, transition.next_observation[replanned], ctx)

    def _attempted(self, row: int, completed: bool) -> None:
        """Record in the seed's memory that the attempt at its episode's present sub-goal ends now."""
        course = self._pursuits[row].course
        if course.present is not None and course.steps:
            self._skill(row, course.present.name).attempted(course.steps, completed)

    def _skill(self, row: int, name: str) -> Skill:
        """Return what a seed's memory has of a sub-goal, by the instruction of its present episode where that
        changes."""
        return self.memories[row].skill(name, self._pursuits[row].goal)

    def act(self, observation: Array, ctx: Context) -> Array:
        return super().act(self._present(observation, ctx), ctx)

    def observe(self, transition: Transition, ctx: Context) -> None:
        """Store a transition with the progressive reward and the learner's observations before and after it (lines 15
        to 18)."""
        before_step = self._present(transition.observation, ctx)
        captions = transition.words.captions if transition.words is not None else ("",) * len(before_step)
        caption_vectors = self.embedded(captions, self._places(), ctx)
        before, after = map(self.deeds.possible, (transition.observation, transition.next_observation))
        rewards = np.zeros(len(before_step), np.float32)
        for row, action in enumerate(transition.action.tolist()):
            closeness = proximity(caption_vectors[row], before_step[GOAL][row], self.config.beta)
            did = done(action, before[row])
            rewards[row] = self._rewarded(row, did, bool(transition.success[row]), closeness, after[row])
        self._try(transition, captions, ctx)
        self._replan(transition, ctx)
        self._arrive(transition, ctx)
        after_step = self._present(transition.next_observation, ctx)
        super().observe(transition._replace(observation=before_step, next_observation=after_step, reward=rewards), ctx)

    def _arrive(self, transition: Transition, ctx: Context) -> None:
        """Hook for subclasses: handle the states after a step before the learner's observations of them are made."""

    def _rewarded(self, row: int, did: Sequence[str], success: bool, closeness: float, after: Collection[str]) -> float:
        """Return the progressive reward R of a seed's step; advance its course and mark rewarded sub-goals in memory.

        `did`: the step's deeds; `success`: whether the task is solved after it; `closeness`: its R_proxi; `after`: the
        deeds that are possible after it."""
        pursuit = self._pursuits[row]
        present = pursuit.course.present
        solved = success and not pursuit.succeeded
        pursuit.succeeded |= success
        if present is not None and (closeness > 0 or solved):
            self._skill(row, present.name).rewarded = True
        completed = advance(pursuit.course, did, after)
        for name, steps in completed:
            skill = self._skill(row, name)
            skill.rewarded = True
            skill.attempted(steps, True)
        terms = Terms(float(solved), len(completed), closeness)
        reward = terms.total(self.config.gammas)
        pursuit.completed += terms.subgoals
        pursuit.proximity += terms.proximity
        pursuit.reward += reward
        return reward

    def end(self, episodes: Sequence[Episode], ctx: Context) -> None:
        """Record the attempts that ended with these episodes, and log the episodes."""
        super().end(episodes, ctx)
        for episode in episodes:
            row, pursuit = episode.row, self._pursuits[episode.row]
            course = pursuit.course
            self._attempted(row, course.last and pursuit.succeeded)
            ctx.note(
                "progress", row,
                {
                    "episode": int(self._episodes[row]) - 1, "length": episode.length, "plan": len(course.plan),
                    "completed": pursuit.completed, "proximity": pursuit.proximity, "reward": pursuit.reward,
                    "succeeded": pursuit.succeeded,
                },
            )  # fmt: skip

    def learn(
        self, learner: Learner, experience: Experience | Uneven, ctx: Context, **arguments: Any
    ) -> tuple[Drawn, Update]:
        arguments = {"observation": self._present(ctx.observation, ctx), **arguments}
        return super().learn(learner, experience, ctx, **arguments)

    def update(self, ctx: Context) -> Metrics:
        """Train the learner; in the last step before an evaluation, have the scorer rate the memory (line 22)."""
        if not self.config.trains:
            return {}
        metrics = super().update(ctx)
        if ctx.step >= min(self.config.history, self._steps):
            self._infer(ctx)
        if ctx.step % self._score_every == 0 or ctx.step == self._steps:
            self._score(ctx)
        if not metrics:
            return {}
        memories = [memory.skills.values() for memory in self.memories]
        scores = [[skill.proficiency for skill in skills if skill.proficiency is not None] for skills in memories]
        proficient = [sum(p >= self.config.threshold for p in skills) for skills in scores]
        return {
            **metrics, "texts/distinct": self.vectors.met, "texts/failed": self.vectors.failed,
            "memory/pursued": np.array([pursuit.course.present is not None for pursuit in self._pursuits], np.float64),
            "memory/subgoals": np.array([*map(len, memories)], np.float64),
            "memory/proficient": np.array(proficient, np.float64),
            "memory/unscored": np.array([*map(len, memories)], np.float64) - [*map(len, scores)],
        }  # fmt: skip

    def _try(self, transition: Transition, captions: Sequence[str], ctx: Context) -> None:
        """Add this step to the histories of the seeds that have not inferred their target yet."""
        if not self._inferring.any():
            return
        texts, actions = sentences(transition.observation), transition.action.tolist()
        for row in np.flatnonzero(self._inferring).tolist():
            reward = float(transition.reward[row])
            self._histories[row].add(Tried(ctx.step, texts[row], self.names[actions[row]], captions[row], reward))

    def _infer(self, ctx: Context) -> None:
        """Ask the planner, in one batch, for the targets of the seeds that have not inferred theirs (§5.4). Without a
        usable answer the task's instruction stays the seed's goal."""
        rows = np.flatnonzero(self._inferring & self.active).tolist()
        histories = [self._histories[row].text() for row in rows]
        questions = [
            question(PLANNER, Place(row, 0), {"history": history}) for row, history in zip(rows, histories, strict=True)
        ]
        for row, history, answer in zip(rows, histories, ctx.consult(questions) if questions else (), strict=True):
            inferred = answer or {"target": "", "fault": "failed", "retries": 0}
            self._targets[row], self._inferring[row] = inferred["target"], False
            ctx.note(
                "targets", row,
                {
                    "steps": len(self._histories[row]), "told": one_line(history)[:TEXT],
                    "target": inferred["target"], "fault": inferred["fault"], "retries": inferred["retries"],
                },
            )  # fmt: skip
            self._histories[row] = History(self.config.sampled)

    def _score(self, ctx: Context) -> None:
        """Ask the scorer, in one batch, about the sub-goals in memory with attempts since their last score. Without a
        usable answer the former proficiency stands, or the sub-goal stays unscored, and the scorer is asked again the
        next time. UserError, before anything is asked, if the sub-goals exceed the memory's room."""
        self._check_room()
        unscored = [
            (row, *divided(key), skill, scoring.behaviour(skill))
            for row, memory in enumerate(self.memories)
            for key, skill in memory.skills.items()
            if self.active[row] and not skill.scored
        ]
        questions = [
            question(
                SCORER, Place(row, 0),
                {"subgoal": name, "behaviour": behaviour, **towards(self._targets[row] or goal)},
            )
            for row, goal, name, _, behaviour in unscored
        ]  # fmt: skip
        for (row, goal, name, skill, behaviour), answer in zip(unscored, ctx.consult(questions), strict=True):
            if answer is not None:
                skill.proficiency, skill.scored = float(answer[scoring.FIELD]), True
            verb, _, noun = name.partition(" ")
            ctx.note(
                "memory", row,
                {
                    "verb": verb, "noun": noun, "attempts": skill.attempts, "completed": skill.completed,
                    "told": behaviour, "failed": answer is None, **towards(goal),
                    **({} if (p := skill.proficiency) is None else {"proficiency": p}),
                },
            )  # fmt: skip
        self._check_room()

    def _check_room(self) -> None:
        """Raise UserError if a seed's memory takes more bytes than `config.memory`, so that a run fails early."""
        for memory in self.memories:
            memory.packed(self.config.memory)

    # Algorithm 2

    def actor(self, places: Sequence[Place]) -> Actor:
        return DualActor(self, places)

    # Diagnostics, state and policy

    def recall(self, observation: Array, rows: Array) -> tuple[Array, Array]:
        """Return the learner's observations [n] with the sub-goals of training, and for which of them the sub-goal's
        vector is known, bool [n]."""
        texts = [self._pursued(row).encode() for row in rows.tolist()]
        vectors, is_known = self.vectors.look_up(texts, rows.tolist())
        return self.learner_observation(observation, vectors), is_known

    def state(self, row: int) -> State:
        return {
            **super().state(row),
            "texts": self.vectors.state(row),
            "memory": self.memories[row].state(),
            "pursuit": self._pursuits[row].state(),
            "episodes": int(self._episodes[row]),
            "target": self._targets[row],
            "inferring": bool(self._inferring[row]),
            "history": self._histories[row].state(),
        }

    def load_state(self, row: int, state: State) -> None:
        super().load_state(row, state)
        self.vectors.load_state(row, state["texts"])
        self.memories[row].load_state(state["memory"])
        self._pursuits[row] = Pursuit.restored(state["pursuit"])
        self._episodes[row] = state["episodes"]
        self._targets[row], self._inferring[row] = state["target"], state["inferring"]
        self._histories[row].load_state(state["history"])

    def parameters(self, row: int) -> Mapping[str, Array]:
        """Return the learner's parameters, the memory M as JSON in `memory`, uint8 [config.memory], and, if targets are
        inferred, T in `target`, uint8 [4000]."""
        target = {TARGET: packed(self._targets[row])} if self.config.infer else {}
        return {**super().parameters(row), MEMORY: self.memories[row].packed(self.config.memory), **target}

    def load_parameters(self, row: int, parameters: Mapping[str, Array]) -> None:
        """Load a policy's network, its memory and, if `config.infer`, its target. UserError where the memory is missing
        or unreadable, or where the target is and the run does not train (a run that trains infers one)."""
        if MEMORY not in parameters:
            raise UserError(f"{UNREMEMBERED}; it is not one of agent dual_system")
        if self.config.infer and not self.config.trains and TARGET not in parameters:
            raise UserError("this policy has no target, since its run inferred none; set agent.infer=false")
        network = {name: array for name, array in parameters.items() if name not in (MEMORY, TARGET)}
        super().load_parameters(row, network)
        self.memories[row].unpack(parameters[MEMORY])
        if self.config.infer and TARGET in parameters:
            self._targets[row] = unpacked(parameters[TARGET])

    def adopted(self, policy: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the policy of a pre-training stage in this agent's form. A policy that has a memory is returned as it
        is; one without, such as ELLM's, gets an empty memory and weights of 0 for the sub-goal's vector, so that at
        first it acts as before. UserError for a policy without a memory if the run does not train."""
        if MEMORY in policy:
            return policy
        if not self.config.trains and self.config.router != "model":  # where the performer alone acts, nothing reads it
            raise UserError(f"{UNREMEMBERED}; agent.trains=false evaluates what a stage of method=dsadf has learnt")
        wider = self._reading.widened(policy, self.parameters(0), INSTRUCTION, GOAL) if self._reading else policy
        target = {TARGET: packed("")} if self.config.infer else {}
        return {**wider, MEMORY: Memory().packed(self.config.memory), **target}
