"""Answers of the hand-written substitutes of `scripted` to Housekeep's prompts.

    target      the things that the history shows on unusual receptacles, each with where it belongs: where putting it
                was rewarded, else where common sense says; each is forgotten with probability `omits`
    plan        for each thing in view that lies unusually, else for one that the goal names and that is not in view:
                find it, grab it, find where it belongs, put it there; for what is held, the last two; with none of
                these, to find some receptacle
    reflection  a step to put what is not held and was not grabbed before lacks it
    step        the deed of the sub-goal if an action would do it now, else the way to what it names, else a walk on

Common sense is that of `guidebench.baselines.tidying`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from guidebench.baselines.conversing import chance
from guidebench.baselines.tidying import BELONGS, Room, Spot, unusual
from guidebench.methods.dsadf.plans import FIND, Subgoal
from guidebench.methods.dsadf.prompts import ACTIONS, EFFECTS, GOAL, HISTORY, LONGEST_TARGET, RECENT, STATE, SUBGOAL

TIDY = "put each of these things, which lie where they do not belong, where it does"
LEVEL = -20.0
"""Tilt of the head in degrees from which most of a room is seen."""
FORWARD, USE = "move forward", "grab or release"
HISTORY_LINE = re.compile(r"^Step \d+\. Seen: (.*) Action: (.*)\. Reward: (\S+)\.$", re.MULTILINE)
PUT = re.compile(r"\bput ([a-z ]+?) on ([a-z ]+?)(?=[^a-z ]|$)")


def stands(actions: str) -> dict[str, list[str]]:
    """Return word -> names, for the words in capitals of a prompt's list of actions, such as RECEPTACLE."""
    return {word: names.split(", ") for word, names in re.findall(r"^- ([A-Z]+) is one of: (.+)$", actions, re.M)}


def names(actions: str) -> list[str]:
    """Return the deeds that a prompt's list of actions stands for, with the words in capitals filled in."""
    deeds = [line[2:] for line in actions.splitlines() if line.startswith("- ") and " is one of: " not in line]
    for word, things in stands(actions).items():
        deeds = [name.replace(word, thing) for name in deeds for thing in (things if word in name else [""])]
    return deeds


def target(sections: Mapping[str, str], omits: float) -> str:
    """Return the target that the history in a prompt shows, at most `LONGEST_TARGET` characters. `omits`: probability
    that a thing is forgotten."""
    misplaced, right = dict[str, str](), dict[str, str]()
    for state, action, reward in HISTORY_LINE.findall(sections[HISTORY]):
        for name, spot in Room.read(state).objects:
            if unusual(name, spot.name):
                misplaced.setdefault(name, BELONGS[name][0])
        if (put := PUT.search(action)) and float(reward) > 0:
            right[put[1]] = put[2]
    destinations = {**misplaced, **right}
    deeds = [
        f"put {name} on {at}"
        for name, at in destinations.items()
        if chance("forgets", name, sections[HISTORY]) >= omits
    ]
    while len(text := f"{TIDY}: {'; '.join(deeds)}.") > LONGEST_TARGET:
        deeds.pop()
    return text


def planned(sections: Mapping[str, str]) -> tuple[Subgoal, ...]:
    """Return a plan without gaps for the misplaced things in view, or else for one that the goal names and that is not
    in view, or else to find a receptacle. `sections`: heading -> text of the prompt."""
    room, receptacles = Room.read(sections[STATE]), stands(sections[ACTIONS])["RECEPTACLE"]
    destinations = {name: at for name, at in PUT.findall(sections[GOAL]) if name in BELONGS and at in receptacles}

    def carried(name: str) -> list[Subgoal]:
        fits = (
            [destinations[name]] if name in destinations else [at for at in BELONGS.get(name, ()) if at in receptacles]
        )
        near = sorted(spot.metres for spot in room.receptacles if spot.name in fits)
        nearest = [spot.name for spot in room.receptacles if spot.name in fits and spot.metres == near[0]]
        at = (nearest or fits or receptacles)[0]
        return [Subgoal(f"{FIND} {at}"), Subgoal(f"put {name} on {at}")]

    def moved(name: str) -> list[Subgoal]:
        return [Subgoal(f"{FIND} {name}"), Subgoal(f"grab {name}"), *carried(name)]

    def lies(name: str, at: str) -> bool:
        return unusual(name, at) and destinations.get(name) != at

    plan = carried(room.held) if room.held else []
    view = sorted((spot.metres, name) for name, spot in room.objects if lies(name, spot.name))
    for _, name in view:
        plan += moved(name)
    if not plan:
        visible = {name for name, _ in room.objects}
        hidden = [name for name in destinations if name not in visible]
        if hidden:
            return tuple(moved(hidden[int(chance("hidden", sections[STATE]) * len(hidden))]))
        plan = [Subgoal(f"{FIND} {receptacles[int(chance('looks', sections[STATE]) * len(receptacles))]}")]
    return tuple(plan)


def lacks(plan: Sequence[Subgoal], state: str) -> list[tuple[int, str]]:
    """Return index and thing of each step of a plan that puts a thing that is not held at that step."""
    held, gaps = Room.read(state).held, []
    for number, (name, _) in enumerate(plan):
        verb, _, rest = name.partition(" ")
        if verb == "grab":
            held = rest
        elif verb == "put":
            thing = rest.partition(" on ")[0]
            gaps += [(number, thing)] * (thing != held)
            held = ""
    return gaps


def step(sections: Mapping[str, str], draw: float) -> str:
    """Return the next action for a performer's prompt on Housekeep. `sections`: heading -> text of the prompt; `draw`:
    a number in [0, 1) that decides between equals."""
    room, subgoal = Room.read(sections[STATE]), sections.get(SUBGOAL, "")
    would = sections.get(EFFECTS, "").removeprefix(f"- {USE}: ")
    spot = _towards(room, subgoal)
    if would and would == subgoal:
        return USE
    if spot is None:
        return _walk(room, sections.get(RECENT, "").split(", "), draw)
    way = room.way(spot)
    if way == FORWARD and sections.get(RECENT, "").split(", ")[-4:] == [FORWARD] * 4:
        return ("turn left", "turn right")[int(2 * draw)]  # it may stand before something
    if way != USE or (would and (not subgoal or _serves(would, subgoal, room))):
        return way
    return (FORWARD, "look up", "look down", "turn left", "turn right")[int(5 * draw)]


def _serves(would: str, subgoal: str, room: Room) -> bool:
    """Return whether the deed `would` is a precondition of a sub-goal: grabbing the thing to put, or freeing the
    hand."""
    thing = subgoal.partition(" ")[2].partition(" on ")[0]
    return would == f"grab {thing}" or (would.startswith("put ") and subgoal == f"grab {thing}" and room.held != thing)


def _towards(room: Room, subgoal: str) -> Spot | None:
    """Return the nearest thing or receptacle in view that serves a sub-goal, or the whole task for ""; None without any
    in view."""
    verb, _, rest = subgoal.partition(" ")
    thing, _, at = rest.partition(" on ")
    if not subgoal:
        things = [spot for name, spot in room.objects if unusual(name, spot.name)]
        places = [spot for spot in room.receptacles if spot.name in BELONGS.get(room.held, ())]
        spots = places if room.held else things
    elif verb == "grab" and room.held and room.held != thing:
        spots = [*room.receptacles]
    elif verb == "put" and room.held == thing:
        spots = [spot for spot in room.receptacles if spot.name == at]
    else:
        spots = [spot for name, spot in room.objects if name == thing]
        spots += [spot for spot in room.receptacles if spot.name == thing]
    return min(spots, default=None)


def _walk(room: Room, recent: Sequence[str], draw: float) -> str:
    """Return the next action of a walk through the room: level the head, turn left, or move forward."""
    if abs(room.tilt - LEVEL) > 15:
        return "look up" if room.tilt < LEVEL else "look down"
    return "turn left" if draw < 0.4 or recent[-4:] == [FORWARD] * 4 else FORWARD
