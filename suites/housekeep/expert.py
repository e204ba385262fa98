"""A scripted agent that knows the layout and where everything belongs: it carries one item after the other."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from guidebench.harness.interfaces import State
from guidebench.suites.housekeep.floors import AIM, EYE, REACH, SLOTS, STEP, moved

if TYPE_CHECKING:
    from guidebench.suites.housekeep.task import HousekeepTask

CELL = 0.1
"""Side in metres of the squares in which a search keeps one way."""
MOST = 20_000
"""Poses that a search looks at before it gives up."""
HASTE = 1.5
"""Weight of the estimated rest of a way; above 1 the search looks at fewer poses and may find a longer way."""


class Expert:
    """Plays one task. It plans a way to a pose from which it can grab or release, follows it, and plans anew where the
    task is in another state than expected."""

    def __init__(self, task: HousekeepTask) -> None:
        self._task = task
        self._plan: list[int] = []
        self._expected = b""
        """The task's `_state` in which the plan goes on."""

    def act(self) -> int:
        """Return the next action; `LOOK_DOWN` where nothing is left to do or can be done."""
        from guidebench.suites.housekeep import task as tasks

        if not self._plan or self._expected != self._state():
            self._plan = self._planned()
        action = self._plan.pop(0) if self._plan else tasks.DOWN
        self._expected = self._after(action)
        return action

    def state(self) -> State:
        """Return the plan. It belongs to the state, since planning anew from here may find another way."""
        return {"plan": np.array(self._plan, np.int64), "expected": np.frombuffer(self._expected, np.uint8)}

    def load_state(self, state: State) -> None:
        self._plan, self._expected = np.asarray(state["plan"]).tolist(), np.asarray(state["expected"]).tobytes()

    def _state(self) -> bytes:
        task = self._task
        return self._bytes(task.x, task.y, task.turns, task.tilts)

    def _bytes(self, x: float, y: float, turns: int, tilts: int) -> bytes:
        task = self._task
        return np.array((task.number, x, y, turns, tilts, task.held), float).tobytes() + task.place.tobytes()

    def _after(self, action: int) -> bytes:
        """Return the task's state after an action that neither grabs nor releases. After a grab or release the plan has
        ended, and the value is not used."""
        from guidebench.suites.housekeep import task as tasks

        task = self._task
        x, y, turns, tilts = task.x, task.y, task.turns, task.tilts
        if action == tasks.FORWARD:
            x, y = moved(task.floor, x, y, task.heading)
        turns = (turns + (action == tasks.TURN_LEFT) - (action == tasks.TURN_RIGHT)) % 18
        tilts = min(max(tilts + (action == tasks.UP) - (action == tasks.DOWN), tasks.LOWEST), tasks.HIGHEST)
        return self._bytes(x, y, turns, tilts)

    def _planned(self) -> list[int]:
        """Return the actions up to the next grab or release: of the nearest misplaced item, or on the nearest correct
        receptacle with room for what is held."""
        from guidebench.suites.housekeep.task import SIZE

        task = self._task
        if task.held >= 0:
            load = np.bincount(task.place[task.place >= 0], minlength=len(task.floor.names))
            possible = np.flatnonzero(task.rules.correct[task.held] & (load < SLOTS)).tolist()
            targets = [SIZE + at for at in possible or np.flatnonzero(load < SLOTS).tolist()]
        else:
            items = zip(task.rules.items, task.placed().tolist(), strict=True)
            targets = [thing for thing, right in items if not right]
        for target in self._nearest(targets):
            if (actions := self._way(target)) is not None:
                return actions
        return []

    def _nearest(self, things: Iterable[int]) -> list[int]:
        points, task = self._task.points, self._task
        return sorted(things, key=lambda at: math.hypot(points[at, 0] - task.x, points[at, 1] - task.y))

    def _way(self, target: int) -> list[int] | None:
        """Return actions that end with a grab of, or a release on, the target; None where the search finds none."""
        from guidebench.suites.housekeep import task as tasks

        task = self._task
        goal_x, goal_y, _ = task.points[target].tolist()

        def rest(x: float, y: float) -> float:
            return max(0.0, (math.hypot(goal_x - x, goal_y - y) - REACH + 0.2) / STEP)

        start = (task.x, task.y, task.turns)
        ticket = itertools.count()
        waiting = [(HASTE * rest(task.x, task.y), next(ticket), 0, start)]
        came: dict[tuple[int, int, int], tuple[tuple[int, int, int] | None, int]] = {self._cell(start): (None, -1)}
        while waiting and len(came) < MOST:
            _, _, cost, (x, y, turns) = heapq.heappop(waiting)
            current_cell = self._cell((x, y, turns))
            heading = task.start.heading + turns * tasks.TURN
            if math.hypot(goal_x - x, goal_y - y) <= REACH:
                tilts = self._aims(x, y, heading, target)
                if tilts is not None:
                    return self._back(came, current_cell) + self._look(tilts) + [tasks.GRAB_RELEASE]
            ahead = moved(task.floor, x, y, heading)
            for action, after in (
                (tasks.FORWARD, (*ahead, turns)),
                (tasks.TURN_LEFT, (x, y, (turns + 1) % 18)),
                (tasks.TURN_RIGHT, (x, y, (turns - 1) % 18)),
            ):
                cell = self._cell(after)
                if cell not in came:
                    came[cell] = (current_cell, action)
                    ahead_of = cost + 1 + HASTE * rest(after[0], after[1])
                    heapq.heappush(waiting, (ahead_of, next(ticket), cost + 1, after))
        return None

    @staticmethod
    def _cell(pose: tuple[float, float, int]) -> tuple[int, int, int]:
        return int(pose[0] / CELL), int(pose[1] / CELL), pose[2]

    def _aims(self, x: float, y: float, heading: float, target: int) -> int | None:
        """Return the tilt from which the target is grabbed or released on at a pose, or None."""
        from guidebench.suites.housekeep import task as tasks

        task = self._task
        to = task.points[target] - (x, y, EYE)
        aside = (math.atan2(to[1], to[0]) - heading + math.pi) % math.tau - math.pi
        if abs(aside) > AIM:
            return None
        tilts = round(math.atan2(to[2], math.hypot(to[0], to[1])) / tasks.TILT)
        tilts = min(max(tilts, tasks.LOWEST), tasks.HIGHEST)
        things = task.reachable()
        near = things[np.hypot(task.points[things, 0] - x, task.points[things, 1] - y) <= REACH]
        free = task.free_sight(x, y, near)
        return tilts if task.aimed(x, y, heading, tilts * tasks.TILT, near, free) == target else None

    def _look(self, tilts: int) -> list[int]:
        from guidebench.suites.housekeep import task as tasks

        turn = tilts - self._task.tilts
        return [tasks.UP if turn > 0 else tasks.DOWN] * abs(turn)

    @staticmethod
    def _back(
        came: dict[tuple[int, int, int], tuple[tuple[int, int, int] | None, int]], cell: tuple[int, int, int]
    ) -> list[int]:
        actions = []
        while (entry := came[cell])[0] is not None:
            actions.append(entry[1])
            cell = entry[0]
        return actions[::-1]
