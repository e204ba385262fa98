"""Hand-written substitutes for the language models of DSADF's slow system, which read a prompt's text alone.

Their errors are draws by hashes of what they read: equal prompts get equal answers, and there is no state. They know
the sentences of Crafter, and the rules that a hint states (`guidebench.methods.dsadf.rules`), and those of Housekeep
(`guidebench.methods.dsadf.scripted_room`). On Crafter:

    planner     the actions that the goal names, each after all that its rule needs and uses, with `find` before what is
                at a place; with probability `omits` one of the prerequisites is left out
    reflector   the things that the plan lacks by the rules, and the plan without gaps; with probability `misses` it
                says that nothing is lacking
    performer   the present sub-goal if it is possible, else the way to it; with probability `error` another possible
                action, and with probability `impossible` one that is not in the list
    scorer      the share of the last attempts that reached the sub-goal, wrong by at most `noise`
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence

from guidebench.baselines.conversing import Misread, chance
from guidebench.baselines.tidying import tidied
from guidebench.harness.models.calls import Message
from guidebench.methods.dsadf import plans, prompts, rules, scripted_room
from guidebench.methods.dsadf.plans import FIND, Subgoal, Vocabulary, listed
from guidebench.methods.dsadf.prompts import (
    ACTIONS,
    BEHAVIOUR,
    DONE,
    GOAL,
    HINTS,
    HISTORY,
    PLAN,
    REFLECTION,
    STATE,
    SUBGOAL,
)
from guidebench.methods.dsadf.rules import Rule

LOST = "I do not know how to reach this goal."
AT_PLACES = ("chop", "mine", "attack", "eat", "drink")
"""Verbs of actions on something that must be faced."""
NUMBERS = {word: number for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight"), 2)}
MANY = 1_000
"""Most steps of a plan that the reflector reads."""


def text_of(message: Message) -> str:
    return "".join(part for part in message.content if isinstance(part, str))


def names_in(section: str) -> list[str]:
    """Return the items of a bulleted list."""
    return [line[2:] for line in section.splitlines() if line.startswith("- ")]


class PromptPlanner:
    """Answers the planner's prompts."""

    def __init__(self, omits: float, malformed: float) -> None:
        """Probabilities that a first plan lacks one of its prerequisites, and that a reply holds no plan."""
        self._omits, self._malformed = omits, malformed

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return thoughts and a numbered plan; for a final plan the suggested one, or else the first."""
        said = [text_of(message) for message in messages]
        if chance("form", *said) < self._malformed:
            return "I would gather what is needed first, and then work towards the goal."
        told = prompts.sections(said[0])
        if REFLECTION in told:
            _, found, suggested = told[REFLECTION].partition("Suggested plan:")
            return f"I follow the reflection.\nPlan:\n{suggested.strip() if found else told[PLAN]}"
        if HISTORY in told:
            return json.dumps({"target": scripted_room.target(told, self._omits)}) if tidied(told[HISTORY]) else LOST
        plan = scripted_room.planned(told) if _room(told) else chained(told)
        if not plan:
            return LOST
        if chance("omits", said[0]) < self._omits:
            plan = shortened(plan, chance("which", said[0]))
        ends = f"{plan[-1].name} is the goal, and the other steps provide for it."
        return f"Thoughts: {ends}\nPlan:\n{listed(plan)}"


class PromptReflector:
    """Answers the reflector's prompts."""

    def __init__(self, misses: float) -> None:
        """The probability that gaps of a plan are not noticed."""
        self._misses = misses

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return strengths, weaknesses and, if anything is lacking, a revised plan."""
        said = text_of(messages[0])
        told = prompts.sections(said)
        room = _room(told)
        names = scripted_room.names(told[ACTIONS]) if room else names_in(told.get(ACTIONS, ""))
        vocabulary = Vocabulary(names, told.values())
        try:
            plan = plans.read(told.get(PLAN, ""), vocabulary, MANY)
        except Misread:
            return "Strengths: none.\nWeaknesses: there is no plan that I can read."
        state = told.get(STATE, "")
        found = scripted_room.lacks(plan, state) if room else rules.lacks(plan, rules.read(told.get(HINTS, "")), state)
        strengths = f"Strengths: it ends with {plan[-1].name}."
        if not found or chance("misses", said) < self._misses:
            return f"{strengths}\nWeaknesses: none"
        lacking = "; ".join(f"step {at + 1}, {plan[at].name}, lacks {thing}" for at, thing in found)
        better = scripted_room.planned(told) if room else chained(told)
        return f"{strengths}\nWeaknesses: {lacking}.\nRevised plan:\n{listed(better)}"


def _room(told: Mapping[str, str]) -> bool:
    """Return whether the sections of a prompt are about Housekeep's deeds."""
    return tidied(told.get(STATE, "")) and "RECEPTACLE" in scripted_room.stands(told.get(ACTIONS, ""))


def chained(told: Mapping[str, str]) -> tuple[Subgoal, ...]:
    """Return a plan without gaps for the goal in the sections of a prompt, by the rules of its hint; () for a goal that
    names none of the actions."""
    actions, known = names_in(told.get(ACTIONS, "")), rules.read(told.get(HINTS, ""))
    text = told.get(STATE, "")
    have, there, plan = rules.held(text), rules.present(text), list[Subgoal]()
    for target in goals(told.get(GOAL, ""), actions):
        plan += _before(target, known, have, there, ())
    return rules.supplied(plan, known, text)


def goals(goal: str, actions: Sequence[str]) -> list[Subgoal]:
    """Return the actions that a goal names, in its order, as often as it says.

    >>> goals("chop four trees, and make a wood sword", ["make wood sword", "chop tree"])
    [Subgoal(name='chop tree', times=4), Subgoal(name='make wood sword', times=1)]
    """
    words = re.findall(r"[a-z]+", goal.casefold())
    plain = [plans.singular(word) for word in words if word not in ("a", "an", "the", *NUMBERS)]
    times = {plans.singular(thing): NUMBERS[word] for word, thing in itertools.pairwise(words) if word in NUMBERS}
    said = f" {' '.join(plain)} "
    found = sorted((said.find(f" {action} "), action) for action in actions if f" {action} " in said)
    return [Subgoal(action, times.get(action.split()[-1], 1)) for _, action in found]


def _before(
    target: Subgoal, known: Mapping[str, Rule], have: set[str], there: set[str], above: tuple[str, ...]
) -> list[Subgoal]:
    """Return an action with all that must come before it, given what is held (`have`) and what stands in the world or
    is held (`there`), which grow. `above`: the actions that wait for this one, so that circular rules end."""
    if target.name in above:
        return []
    rule, plan = known.get(target.name, Rule()), list[Subgoal]()
    for thing, enough in (*((thing, there) for thing in rule.needs), *((thing, have) for thing in rule.uses)):
        giver = next((name for name, other in known.items() if thing in other.gives), None)
        if thing not in enough and giver is not None:
            plan += _before(Subgoal(giver), known, have, there, (*above, target.name))
    verb, _, noun = target.name.partition(" ")
    have |= {*rule.gives}
    there |= {*rule.gives}
    return [*plan, *([Subgoal(f"{FIND} {noun}")] if verb in AT_PLACES else []), target]


def shortened(plan: Sequence[Subgoal], draw: float) -> tuple[Subgoal, ...]:
    """Return a plan without one of its prerequisites, chosen by a `draw` in [0, 1); its last step always stays, and to
    find something is no prerequisite."""
    may = [number for number, step in enumerate(plan[:-1]) if not step.name.startswith(f"{FIND} ")]
    if not may:
        return tuple(plan)
    left_out = may[int(draw * len(may))]
    return tuple(step for number, step in enumerate(plan) if number != left_out)


class PromptPerformer:
    """Answers the performer's prompts."""

    def __init__(self, error: float, impossible: float) -> None:
        """Probabilities that a reply names another possible action, and that it names one that is not in the list."""
        self._error, self._impossible = error, impossible

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the name of an action, or `done`."""
        said = [text_of(message) for message in messages]
        told = prompts.sections(said[0])
        possible = names_in(told.get(ACTIONS, ""))
        if not possible:
            return LOST
        if chance("impossible", *said) < self._impossible:
            return "open the door"
        draw = chance("action", *said)
        if chance("error", *said) < self._error:
            return possible[int(draw * len(possible))]
        if tidied(told.get(STATE, "")):
            return scripted_room.step(told, draw)
        may_end = f'"{DONE}"' in said[0]
        return step(told.get(SUBGOAL) or told.get(GOAL, ""), told.get(STATE, ""), possible, may_end, draw)


class PromptScorer:
    """Answers the scorer's prompts."""

    def __init__(self, noise: float, malformed: float) -> None:
        """`noise`: most by which a score differs from the share; the probability that a reply holds no number."""
        self._noise, self._malformed = noise, malformed

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the share of the attempts in the prompt that reached the sub-goal, plus a uniform error."""
        said = [text_of(message) for message in messages]
        if chance("form", *said) < self._malformed:
            return "It does this fairly well."
        told = prompts.sections(said[0]).get(BEHAVIOUR, "")
        reached, missed = told.count("reached after"), told.count("not reached in")
        score = reached / max(reached + missed, 1) + self._noise * (2 * chance("noise", said[0]) - 1)
        return f'{{"proficiency": {min(max(score, 0.0), 1.0):.2f}}}'


def step(goal: str, text: str, possible: Sequence[str], may_end: bool, draw: float) -> str:
    """Return the next action, of those that are `possible`, towards a sub-goal or a whole task. `draw`: a number in [0,
    1) that decides where nothing else does.

    The first that applies: to drink at hand when thirsty; the way to what is to be found; an action that the goal
    names, the last of several; to make, mine or chop what is possible; to place a table for what is to be made; to
    find a tree or what the goal names; any move.
    """
    if "thirsty" in text and "drink water" in possible:
        return "drink water"
    goal = re.sub(r" \(\d+ times\)$", "", goal)
    verb, _, noun = goal.partition(" ")
    if verb == FIND:
        if may_end and f"targeting {noun}." in text:
            return DONE
        return goal if goal in possible else _wander(possible, draw)
    if wanted := [each.name for each in goals(goal, possible) if not each.name.startswith(FIND)]:
        return wanted[-1]
    for verbs in (("make",), ("mine", "chop")):
        if useful := [name for name in possible if name.split()[0] in verbs and name != "chop grass"]:
            return useful[int(draw * len(useful))]
    if verb == "make" and "place crafting table" in possible:
        return "place crafting table"
    there = [f"{FIND} {noun}"] if verb in AT_PLACES else [f"{FIND} {word}" for word in ("tree", *goal.split())]
    ways = [name for name in there if name in possible]
    return ways[int(draw * len(ways))] if ways else _wander(possible, draw)


def _wander(possible: Sequence[str], draw: float) -> str:
    """Return one of the moves, or of all actions where there is none."""
    moves = [name for name in possible if name.split()[0] == "move"] or [*possible]
    return moves[int(draw * len(moves))]
