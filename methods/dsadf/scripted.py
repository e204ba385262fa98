"""Hand-written substitutes for the language models of DSADF's slow system, which read only the text of a prompt.

They have no state, and their errors are drawn by hashes of the prompt, so equal prompts get equal answers. They
understand the sentences of Crafter with the rules of a hint (`guidebench.methods.dsadf.rules`), and the sentences of
Housekeep (`guidebench.methods.dsadf.scripted_room`). On Crafter:

    planner     the actions that the goal names, each after all that its rule needs and uses, with `find` before what is
                at a place, and before what is made at a table or a furnace that the steps before have left; with
                probability `omits` one of the prerequisites is left out
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
STATIONS = ("crafting table", "furnace")
"""What is placed to make tools at."""
NUMBERS = {word: number for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight"), 2)}
MANY = 1_000
"""Most steps of a plan that the reflector accepts."""


def text_of(message: Message) -> str:
    """Return the text of a message without its images."""
    return "".join(part for part in message.content if isinstance(part, str))


def names_in(section: str) -> list[str]:
    """Return the names in a section of a prompt that is a bulleted list."""
    return [line[2:] for line in section.splitlines() if line.startswith("- ")]


class PromptPlanner:
    """Answers the planner's prompts for plans, final plans and targets."""

    def __init__(self, omits: float, malformed: float) -> None:
        """Probabilities that a first plan leaves out one of its prerequisites, and that a reply holds no plan."""
        self._omits, self._malformed = omits, malformed

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return thoughts and a numbered plan: for a final plan, the one that the reflection suggests, or the first
        plan without a suggestion; for a history, the target as JSON."""
        texts = [text_of(message) for message in messages]
        if chance("form", *texts) < self._malformed:
            return "I would gather what is needed first, and then work towards the goal."
        sections = prompts.sections(texts[0])
        if REFLECTION in sections:
            _, heading, suggested = sections[REFLECTION].partition("Suggested plan:")
            return f"I follow the reflection.\nPlan:\n{suggested.strip() if heading else sections[PLAN]}"
        if HISTORY in sections:
            return (
                json.dumps({"target": scripted_room.target(sections, self._omits)})
                if tidied(sections[HISTORY])
                else LOST
            )
        plan = scripted_room.planned(sections) if _room(sections) else chained(sections)
        if not plan:
            return LOST
        if chance("omits", texts[0]) < self._omits:
            plan = shortened(plan, chance("which", texts[0]))
        ends = f"{plan[-1].name} is the goal, and the other steps provide for it."
        return f"Thoughts: {ends}\nPlan:\n{listed(plan)}"


class PromptReflector:
    """Answers the reflector's prompts by the rules of their hint."""

    def __init__(self, misses: float) -> None:
        """`misses`: probability that gaps of a plan are not noticed."""
        self._misses = misses

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return strengths, weaknesses and, if anything is lacking, a revised plan."""
        prompt = text_of(messages[0])
        sections = prompts.sections(prompt)
        room = _room(sections)
        names = scripted_room.names(sections[ACTIONS]) if room else names_in(sections.get(ACTIONS, ""))
        vocabulary = Vocabulary(names, sections.values())
        try:
            plan = plans.read(sections.get(PLAN, ""), vocabulary, MANY)
        except Misread:
            return "Strengths: none.\nWeaknesses: there is no plan that I can read."
        state = sections.get(STATE, "")
        gaps = (
            scripted_room.lacks(plan, state) if room else rules.lacks(plan, rules.read(sections.get(HINTS, "")), state)
        )
        strengths = f"Strengths: it ends with {plan[-1].name}."
        if not gaps or chance("misses", prompt) < self._misses:
            return f"{strengths}\nWeaknesses: none"
        lacking = "; ".join(f"step {at + 1}, {plan[at].name}, lacks {thing}" for at, thing in gaps)
        better = scripted_room.planned(sections) if room else chained(sections)
        return f"{strengths}\nWeaknesses: {lacking}.\nRevised plan:\n{listed(better)}"


def _room(sections: Mapping[str, str]) -> bool:
    """Return whether the sections of a prompt are about Housekeep's deeds."""
    return tidied(sections.get(STATE, "")) and "RECEPTACLE" in scripted_room.stands(sections.get(ACTIONS, ""))


def chained(sections: Mapping[str, str]) -> tuple[Subgoal, ...]:
    """Return a plan without gaps for the goal in a prompt on Crafter, chained backwards from the goal by the rules of
    its hint; () for a goal that names none of the actions. `sections`: heading -> text (`prompts.sections`)."""
    actions, recipes = names_in(sections.get(ACTIONS, "")), rules.read(sections.get(HINTS, ""))
    text = sections.get(STATE, "")
    held, at_hand, plan = rules.held(text), rules.present(text), list[Subgoal]()
    near = rules.present(text)
    for target in goals(sections.get(GOAL, ""), actions):
        plan += _before(target, recipes, held, at_hand, ())
    stations = {station for station in STATIONS if f"{FIND} {station}" in actions}
    return rules.supplied(_returning(plan, recipes, stations, near), recipes, text)


def goals(goal: str, actions: Sequence[str]) -> list[Subgoal]:
    """Return the actions that a goal names, in the order of its words, each with its number of repetitions.

    >>> goals("chop four trees, and make a wood sword", ["make wood sword", "chop tree"])
    [Subgoal(name='chop tree', times=4), Subgoal(name='make wood sword', times=1)]
    """
    words = re.findall(r"[a-z]+", goal.casefold())
    plain = [plans.singular(word) for word in words if word not in ("a", "an", "the", *NUMBERS)]
    times = {plans.singular(thing): NUMBERS[word] for word, thing in itertools.pairwise(words) if word in NUMBERS}
    phrase = f" {' '.join(plain)} "
    matches = sorted((phrase.find(f" {action} "), action) for action in actions if f" {action} " in phrase)
    return [Subgoal(action, times.get(action.split()[-1], 1)) for _, action in matches]


def _before(
    target: Subgoal, recipes: Mapping[str, Rule], held: set[str], at_hand: set[str], above: tuple[str, ...]
) -> list[Subgoal]:
    """Return an action preceded by all actions that it needs. `held`: the things that are held; `at_hand`: those that
    are held or stand in the world; what the plan gives is added to both. `above`: the actions that wait for this one,
    so that circular rules end."""
    if target.name in above:
        return []
    rule, plan = recipes.get(target.name, Rule()), list[Subgoal]()
    for thing, enough in (*((thing, at_hand) for thing in rule.needs), *((thing, held) for thing in rule.uses)):
        giver = next((name for name, other in recipes.items() if thing in other.gives), None)
        if thing not in enough and giver is not None:
            plan += _before(Subgoal(giver), recipes, held, at_hand, (*above, target.name))
    verb, _, noun = target.name.partition(" ")
    held |= {*rule.gives}
    at_hand |= {*rule.gives}
    return [*plan, *([Subgoal(f"{FIND} {noun}")] if verb in AT_PLACES else []), target]


def _returning(
    plan: Sequence[Subgoal], recipes: Mapping[str, Rule], stations: set[str], near: set[str]
) -> list[Subgoal]:
    """Return a plan that goes back to each of the `stations` that a step needs, if the steps before have left it.
    `near`: the things that are near as the plan begins."""
    steps = list[Subgoal]()
    for step in plan:
        for station in recipes.get(step.name, Rule()).needs:
            if station in stations and station not in near:
                steps.append(Subgoal(f"{FIND} {station}"))
                near = {station}
        steps.append(step)
        verb, _, noun = step.name.partition(" ")
        near = {noun} if verb == FIND else near | {*recipes.get(step.name, Rule()).gives}
    return steps


def shortened(plan: Sequence[Subgoal], draw: float) -> tuple[Subgoal, ...]:
    """Return a plan without one of its prerequisites, chosen by a `draw` in [0, 1). Neither the last step nor a step to
    find something is left out."""
    may = [number for number, step in enumerate(plan[:-1]) if not step.name.startswith(f"{FIND} ")]
    if not may:
        return tuple(plan)
    left_out = may[int(draw * len(may))]
    return tuple(step for number, step in enumerate(plan) if number != left_out)


class PromptPerformer:
    """Answers the performer's prompts by rules for the present sub-goal."""

    def __init__(self, error: float, impossible: float) -> None:
        """Probabilities that a reply names another possible action, and that it names one that is not in the list."""
        self._error, self._impossible = error, impossible

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the name of an action, or `done` where the prompt allows it and the sub-goal is reached."""
        texts = [text_of(message) for message in messages]
        sections = prompts.sections(texts[0])
        possible = names_in(sections.get(ACTIONS, ""))
        if not possible:
            return LOST
        if chance("impossible", *texts) < self._impossible:
            return "open the door"
        draw = chance("action", *texts)
        if chance("error", *texts) < self._error:
            return possible[int(draw * len(possible))]
        if tidied(sections.get(STATE, "")):
            return scripted_room.step(sections, draw)
        may_end = f'"{DONE}"' in texts[0]
        return step(sections.get(SUBGOAL) or sections.get(GOAL, ""), sections.get(STATE, ""), possible, may_end, draw)

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        """Return 1 for the candidate that it would name, else 0; 1 for all where it would name none of them."""
        return alone(self(messages), candidates)


class PromptScorer:
    """Answers the scorer's prompts by counting the attempts in them."""

    def __init__(self, noise: float, malformed: float) -> None:
        """`noise`: most by which a score differs from the share; the probability that a reply holds no number."""
        self._noise, self._malformed = noise, malformed

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the share of the attempts in the prompt that reached the sub-goal, plus a uniform error."""
        texts = [text_of(message) for message in messages]
        if chance("form", *texts) < self._malformed:
            return "It does this fairly well."
        behaviour = prompts.sections(texts[0]).get(BEHAVIOUR, "")
        reached, missed = behaviour.count("reached after"), behaviour.count("not reached in")
        score = reached / max(reached + missed, 1) + self._noise * (2 * chance("noise", texts[0]) - 1)
        return f'{{"proficiency": {min(max(score, 0.0), 1.0):.2f}}}'

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        """Return 1 for the candidate that is nearest to its score, else 0; 1 for all where it gives no score."""
        answer = self(messages)
        if not answer.startswith("{"):
            return [1.0] * len(candidates)
        score = json.loads(answer)["proficiency"]
        return alone(min(candidates, key=lambda candidate: abs(float(candidate) - score)), candidates)


def alone(name: str, candidates: Sequence[str]) -> list[float]:
    """Return 1 for the candidate that is `name`, white space aside, and 0 for others; 1 for all if none is.

    >>> alone("eat cow", [" noop", " eat cow"])
    [0.0, 1.0]
    """
    weights = [float(candidate.strip() == name.strip()) for candidate in candidates]
    return weights if any(weights) else [1.0] * len(candidates)


def step(goal: str, text: str, possible: Sequence[str], may_end: bool, draw: float) -> str:
    """Return the next action, one of the `possible` ones, towards a sub-goal or a whole task on Crafter; `done` where
    `may_end` and the thing to find is faced. `text`: sentences of the state; `draw`: a number in [0, 1) that decides
    between equals.

    The first rule that applies: drink when thirsty; go to the thing to find; do the last action that the goal names;
    make (unless a tool is named), mine or chop what is possible; go to the table or the furnace that a step of a plan
    takes, and aside from one that is faced; place a table before making something; find a tree or what the goal names;
    move anywhere.
    """
    if "thirsty" in text and "drink water" in possible:
        return "drink water"
    goal = re.sub(r" \(\d+ times\)$", "", goal)
    verb, _, noun = goal.partition(" ")
    if verb == FIND:
        if may_end and f"targeting {noun}." in text:
            return DONE
        return goal if goal in possible else _wander(possible, draw)
    if goal_actions := [subgoal.name for subgoal in goals(goal, possible) if not subgoal.name.startswith(FIND)]:
        return goal_actions[-1]
    makes = verb == "make" and noun.partition(" ")[0] not in ("a", "an")
    for verbs in (() if makes else ("make",), ("mine", "chop")):  # other tools would take what this one needs
        if useful := [name for name in possible if name.split()[0] in verbs and name != "chop grass"]:
            return useful[int(draw * len(useful))]
    may_return = (makes and "wood" in rules.held(text)) or (goal == "place furnace" and "stone" in rules.held(text))
    returns = [f"{FIND} {station}" for station in STATIONS if may_return and f"{FIND} {station}" in possible]
    if verb == "make" and "place crafting table" in possible and not returns:
        return "place crafting table"
    targets = [f"{FIND} {noun}"] if verb in AT_PLACES else [f"{FIND} {word}" for word in ("tree", *goal.split())]
    ways = [name for name in targets if name in possible]
    if returns:
        aside = [name for name in returns if f"targeting {name.removeprefix(f'{FIND} ')}." not in text]
        ways = [*aside, *ways, _wander(possible, draw)] if len(aside) < len(returns) else returns[:1]
    return ways[int(draw * len(ways))] if ways else _wander(possible, draw)


def _wander(possible: Sequence[str], draw: float) -> str:
    """Return one of the possible moves, or of all possible actions without a move, by a `draw` in [0, 1)."""
    moves = [name for name in possible if name.split()[0] == "move"] or [*possible]
    return moves[int(draw * len(moves))]
