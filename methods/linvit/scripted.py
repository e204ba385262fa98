"""A hand-written substitute for a language model, which reads the sentences of Crafter and of Housekeep in a prompt.

It is given only the messages, neither suite nor task, and answers only the prompt of `dialogue.py`. Equal prompts get
equal answers. With probability `error`, by a hash of the prompt, all weight is on one action drawn by another hash.

Where the state says "you hold", it is Housekeep's:

| what the state says, the first that applies | weights |
| --- | --- |
| an object is held, a receptacle of `BELONGS` is in view; or nothing is held, an object lies elsewhere than there | |
| … the nearest such thing is to the left, or right | turn left, or turn right: 8 |
| … it is ahead and farther away than `NEAR` | move forward: 8, turn left and turn right: 1 |
| … it is ahead and near, and the head is tilted too low, or too high, for its height | look up, or look down: 8 |
| … it is ahead and near, and in the gaze | grab or release: 8, look up and look down: 1 |
| nothing of the kind is in view | move forward: 3, turn left: 2, turn right: 1 |

Else it is Crafter's. `aims` are the nouns of the goal, and all nouns of `GATHERED` where it has none; what must come
before an aim (`BEFORE`) is an aim too.

| action | weight |
| --- | --- |
| eat, attack, chop, mine, drink, `do`: the target | 8 for an aim, a zombie, a skeleton; 4 for what a need asks for |
| make something: it is an aim, its materials are held and a table is in view | 8 |
| place a table or a furnace: it is an aim, its material is held and none is in view | 8 |
| find something | 4 for an aim |
| sleep | 2 when sleepy |
| move | 1 |
| any other | 0 |

Food and water are asked for when hungry and when thirsty.

The sentences of Crafter do not say how much of a thing is held, so a thing may be weighed that is not possible yet.
`BELONGS`, `NEAR` and the way to a thing are in `guidebench.baselines.tidying`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from guidebench.baselines.conversing import chance
from guidebench.baselines.tidying import BELONGS, Room, unusual
from guidebench.harness.models.calls import Message

GATHERED = ("tree", "stone", "coal", "iron", "diamond", "water", "cow", "crafting table", "wood pickaxe")
"""Nouns that are aims whatever the goal is."""
BEFORE: Mapping[str, tuple[str, ...]] = {
    "crafting table": ("tree",),
    "wood pickaxe": ("crafting table",),
    "wood sword": ("crafting table",),
    "stone": ("wood pickaxe",),
    "coal": ("wood pickaxe",),
    "stone pickaxe": ("stone", "crafting table"),
    "stone sword": ("stone", "crafting table"),
    "iron": ("stone pickaxe",),
    "furnace": ("stone",),
    "iron pickaxe": ("iron", "coal", "furnace"),
    "iron sword": ("iron", "coal", "furnace"),
    "diamond": ("iron pickaxe",),
}
"""Thing to make or mine -> the things that must come before it."""
NAMED: Mapping[str, str] = {
    "wood": "tree", "trees": "tree", "table": "crafting table", "cows": "cow", "drinkable water": "water",
}  # fmt: skip
"""Synonym in a goal or an action -> the noun in sentences."""
MATERIALS: Mapping[str, tuple[str, ...]] = {
    "wood": ("wood",),
    "stone": ("wood", "stone"),
    "iron": ("wood", "coal", "iron"),
}
"""First word of a tool -> the materials that it is made of."""
LOST = "I find no state and no actions in what you write."


class Weigher:
    """Answers the prompt of a conversation, again after a reminder."""

    def __init__(self, error: float) -> None:
        """`error`: probability of all weight on an action drawn at random."""
        self._error = error

    def __call__(self, messages: tuple[Message, ...]) -> str:
        """Return the weights of the prompt's actions as a JSON object; a sentence where there is no such prompt."""
        prompt = "".join(part for part in messages[0].content if isinstance(part, str))
        goal, state = (_line(prompt, name) for name in ("goal", "state"))
        actions = re.findall(r"^- (.+)$", prompt, re.MULTILINE)
        if not actions or not goal:
            return LOST
        if chance("error", prompt) < self._error:
            return json.dumps({"weights": {actions[int(len(actions) * chance("action", prompt))]: 1}})
        weighed = tidying(state) if "you hold " in state else playing(goal, state, actions)
        return json.dumps({"weights": weighed or dict.fromkeys(actions, 1)})

    def weigh(self, messages: tuple[Message, ...], candidates: Sequence[str]) -> list[float]:
        """Return the weight of each candidate, an action of the prompt; 1 for all where there is no such prompt."""
        answer = self(messages)
        weights = {} if answer == LOST else json.loads(answer)["weights"]
        return [weights.get(candidate.strip(), 0.0) if weights else 1.0 for candidate in candidates]


def tidying(state: str) -> dict[str, float]:
    """Return the weights in a state of Housekeep.

    >>> tidying("you see fridge (2.0 m left), stove (1.2 m ahead). apple on stove (1.1 m ahead). you hold nothing. "
    ...         "you look 50 degrees down.")
    {'look up': 8.0}
    """
    room = Room.read(state)
    targets = [place for place in room.receptacles if place.name in BELONGS.get(room.held, ())]
    if not room.held:
        targets = [place for name, place in room.objects if unusual(name, place.name)]
    if not targets:
        return {"move forward": 3.0, "turn left": 2.0, "turn right": 1.0}
    way = room.way(min(targets, key=lambda place: (place.metres, place.side, place.name)))
    if way == "move forward":
        return {way: 8.0, "turn left": 1.0, "turn right": 1.0}
    return {way: 8.0, "look up": 1.0, "look down": 1.0} if way == "grab or release" else {way: 8.0}


def playing(goal: str, state: str, actions: Sequence[str]) -> dict[str, float]:
    """Return the weights above 0 of Crafter's actions.

    >>> state = "you see grass and tree. you are targeting tree. you have in your inventory wood. you feel sleepy."
    >>> playing("make a wood pickaxe", state, ["chop tree", "place crafting table", "make wood pickaxe", "sleep"])
    {'chop tree': 8.0, 'place crafting table': 8.0, 'sleep': 2.0}
    """
    aims = aimed(goal)
    target = _part(state, r"you are targeting (.+?)\.")
    held, visible, feels = (
        _things(state, beginning) for beginning in ("you have in your inventory", "you see", "you feel")
    )
    needs = {"cow": "hungry", "plant": "hungry", "water": "thirsty"}

    def weight(action: str) -> float:
        verb, _, noun = action.partition(" ")
        noun = NAMED.get(noun, noun)
        if (verb == "do" and action == "do") or (verb in ACTING and noun == target):
            return 8.0 if target in {*aims, "zombie", "skeleton"} else 4.0 * (needs.get(target, "") in feels)
        if verb == "make":
            can = "crafting table" in visible and set(MATERIALS.get(noun.split(" ")[0], ("none",))) <= held
            return 8.0 * (noun in aims and can)
        if verb == "place" and noun in STATIONS:
            at_hand = "wood" in held if noun != "furnace" else "stone" in held and "crafting table" in visible
            return 8.0 * (noun in aims and noun not in visible and at_hand)
        if verb == "find":
            return 4.0 * (noun in aims and (noun not in STATIONS or noun in visible))
        if verb == "sleep":
            return 2.0 * ("sleepy" in feels)
        return float(verb == "move")

    return {action: score for action in actions if (score := weight(action)) > 0}


STATIONS = ("crafting table", "furnace")
"""What is placed to make tools at; it is sought only while it is in view."""
ACTING = ("eat", "attack", "chop", "mine", "drink")
"""Verbs of actions on the faced thing."""


def aimed(goal: str) -> set[str]:
    """Return the nouns of a goal and all that must come before them; those of `GATHERED` if it has none.

    >>> sorted(aimed("make a stone sword"))
    ['crafting table', 'stone', 'stone sword', 'tree', 'wood pickaxe']
    """
    nouns = sorted({*BEFORE, *GATHERED, *NAMED, "zombie", "skeleton", "plant"}, key=len, reverse=True)
    goal_nouns, rest = set(), f" {' '.join(re.findall(r'[a-z]+', goal.casefold()))} "
    for noun in nouns:
        if f" {noun} " in rest:
            goal_nouns.add(NAMED.get(noun, noun))
            rest = rest.replace(f" {noun} ", " ")
    waiting = [*(goal_nouns or GATHERED)]
    aims: set[str] = set()
    while waiting:
        if (noun := waiting.pop()) not in aims:
            aims.add(noun)
            waiting += BEFORE.get(noun, ())
    return aims


def _line(prompt: str, name: str) -> str:
    return _part(prompt, rf"(?m)^The {name}: (.*)$")


def _part(text: str, pattern: str) -> str:
    """Return the group of a pattern in a text, or ""."""
    match = re.search(pattern, text)
    return match[1] if match else ""


def _things(state: str, beginning: str) -> set[str]:
    """Return the things that a state's sentence with this beginning lists."""
    return set(filter(None, re.split(r",? and |, ", _part(state, rf"{beginning} (.+?)\."))))
