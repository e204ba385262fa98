"""DoorKey with MiniGrid's own dynamics and the full symbolic grid as observation.

MiniGrid builds the agent's partial view at every step, and `FullyObsWrapper` then encodes every cell anew. Here the
dynamics are MiniGrid's, step for step, but the view is not built and the grid's codes are updated incrementally.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from minigrid.core.constants import DIR_TO_VEC, OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj
from minigrid.envs.doorkey import DoorKeyEnv

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, State, Step

TURN_LEFT, TURN_RIGHT, FORWARD, PICKUP, TOGGLE = range(5)
MINIGRID_ACTION = {TURN_LEFT: 0, TURN_RIGHT: 1, FORWARD: 2, PICKUP: 3, TOGGLE: 5}
EMPTY = bytes((OBJECT_TO_IDX["empty"], 0, 0))
AGENT = tuple(np.array((OBJECT_TO_IDX["agent"], 0, direction), np.uint8) for direction in range(4))
KEY, DOOR, GOAL = OBJECT_TO_IDX["key"], OBJECT_TO_IDX["door"], OBJECT_TO_IDX["goal"]
HAPPENED = np.eye(4, 3, dtype=bool)
"""Rows: the events of a step that takes the key, opens the door, reaches the goal, or does none of these."""
HAPPENED.flags.writeable = False
TAKEN, OPENED, REACHED, NOTHING = HAPPENED
VECTORS = tuple((int(dx), int(dy)) for dx, dy in DIR_TO_VEC)


class Dynamics(DoorKeyEnv):  # type: ignore[misc]
    """MiniGrid's DoorKey without its partial view, and with plain integers for the agent's pose."""

    agent_pos: tuple[int, int]
    carrying: Any

    def gen_obs(self) -> dict[str, Any]:
        return {}

    @property
    def front_pos(self) -> tuple[int, int]:
        x, y = self.agent_pos
        dx, dy = VECTORS[self.agent_dir]
        return x + dx, y + dy


class DoorKey:
    """One DoorKey environment of `size` x `size` cells, walls included (VLM-RB, app. B).

    An observation is uint8 [size, size, 3], indexed by column and row: object, colour, and state (the door's state, or
    the agent's direction in its cell), equal to that of `FullyObsWrapper`. Five actions: turn left, turn right, go
    forward, pick up, toggle. The reward is 1 - 0.9 t / max_steps on reaching the goal at step t, else 0. `max_steps`
    None is MiniGrid's 10 size².
    """

    def __init__(self, size: int, max_steps: int | None = None) -> None:
        self._env = Dynamics(size=size, max_steps=max_steps)
        self._size = size
        self._ground = bytearray()
        self._codes = np.zeros((size, size, 3), np.uint8)
        self._events: Array = NOTHING
        self.instruction: str = self._env.mission
        self.max_steps: int = self._env.max_steps

    def reset(self, seed: int | None = None) -> Array:
        env = self._env
        env.reset(seed=None if seed is None else int(seed))
        env.agent_pos = (int(env.agent_pos[0]), int(env.agent_pos[1]))
        env.agent_dir = int(env.agent_dir)
        self._keep_codes()
        return self._observation()

    def _keep_codes(self) -> None:
        """Encode the grid without the agent, so that the object under it is kept; `_codes` is a view of `_ground`."""
        self._events = NOTHING
        cells, n = self._env.grid.grid, self._size
        self._ground = bytearray(
            b"".join(EMPTY if cell is None else bytes(cell.encode()) for x in range(n) for cell in cells[x::n])
        )
        self._codes = np.frombuffer(self._ground, np.uint8).reshape(n, n, 3)

    def step(self, action: Any) -> Step:
        """Take one of the five actions; KeyError for another. The returned observation is not reused."""
        env = self._env
        action = MINIGRID_ACTION[action]
        _, reward, terminated, truncated, _ = env.step(action)
        gained = float(reward)
        success = terminated and gained > 0
        self._events = self._encode_front() if action >= 3 else REACHED if success else NOTHING
        return Step(self._observation(), gained, terminated, truncated, success)

    def _encode_front(self) -> Array:
        """Encode the cell in front of the agent, the only one in which keys and doors change; return the events of that
        change."""
        x, y = self._env.front_pos
        at = 3 * (x * self._size + y)
        kind, was = self._ground[at], self._ground[at + 2]
        if kind not in (KEY, DOOR):
            return NOTHING
        cell = self._env.grid.get(x, y)
        self._ground[at : at + 3] = EMPTY if cell is None else bytes(cell.encode())
        if kind == KEY:
            return TAKEN if cell is None else NOTHING
        return OPENED if was != 0 and self._ground[at + 2] == 0 else NOTHING

    def events(self) -> Array:
        """Return whether the last step took the key, opened the door (reopening included) or reached the goal; bool
        [3], read-only."""
        return self._events

    def _observation(self) -> Array:
        observation = self._codes.copy()
        observation[self._env.agent_pos] = AGENT[self._env.agent_dir]
        return observation

    def snapshot(self) -> Array:
        """Return uint8 [3 size² + 3]: the grid's codes with the object under the agent, then the agent's x, y and
        direction."""
        return np.frombuffer(self._ground + self._pose(), np.uint8)

    def _pose(self) -> bytes:
        return bytes((*self._env.agent_pos, self._env.agent_dir))

    def position(self) -> bytes:
        """Return grid, agent and carried object: all that determines success, without clock and random stream."""
        return bytes(self._ground) + self._pose() + (b"" if self._env.carrying is None else self._carried())

    def _carried(self) -> bytes:
        return bytes(self._env.carrying.encode())

    def state(self) -> State:
        """Return the complete state, including the layouts of later episodes; call after the first `reset`."""
        env = self._env
        x, y = env.agent_pos
        return {
            "codes": self._codes.copy(),
            "agent": {"x": x, "y": y, "direction": env.agent_dir},
            "carrying": None if env.carrying is None else np.frombuffer(self._carried(), np.uint8).copy(),
            "step": env.step_count,
            "random": env.np_random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        codes = np.asarray(state["codes"])
        if codes.shape != self._codes.shape:
            raise UserError(f"a DoorKey state of shape {codes.shape} does not fit a task of {self._codes.shape}")
        env = self._env
        env.grid, _ = Grid.decode(codes)
        agent, carrying = state["agent"], state["carrying"]
        env.agent_pos, env.agent_dir = (int(agent["x"]), int(agent["y"])), int(agent["direction"])
        env.carrying = None if carrying is None else WorldObj.decode(*(int(code) for code in carrying))
        env.step_count = int(state["step"])
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["random"]
        env.np_random = generator
        self._keep_codes()

    def expert(self) -> int:
        """Return the scripted solver's action in the current state: fetch the key, open the door, walk to the goal."""
        door = self._find(DOOR)
        if self._codes[door][2] == 0:
            return self._towards(self._find(GOAL), FORWARD)
        if self._codes[door][2] == 2 and self._env.carrying is None:
            return self._towards(self._find(KEY), PICKUP)
        return self._towards(door, TOGGLE)

    def _find(self, kind: int) -> tuple[int, int]:
        x, y = np.argwhere(self._codes[:, :, 0] == kind)[0]
        return int(x), int(y)

    def _towards(self, target: tuple[int, int], then: int) -> int:
        """Return the first action of a shortest path that ends facing `target`, or `then` if the agent faces it
        (breadth-first search)."""
        start = (*self._env.agent_pos, self._env.agent_dir)
        first = {start: then}
        queue = deque([start])
        while queue:
            pose = queue.popleft()
            x, y, direction = pose
            ahead = (x + VECTORS[direction][0], y + VECTORS[direction][1])
            if ahead == target:
                return first[pose]
            moves = [(TURN_LEFT, (x, y, (direction - 1) % 4)), (TURN_RIGHT, (x, y, (direction + 1) % 4))]
            cell = self._env.grid.get(*ahead)
            if cell is None or cell.can_overlap():
                moves.append((FORWARD, (*ahead, direction)))
            for action, reached in moves:
                if reached not in first:
                    first[reached] = action if pose == start else first[pose]
                    queue.append(reached)
        raise UserError(f"the cell {target} cannot be reached from {start}: the episode is over or the layout foreign")
