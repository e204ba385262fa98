"""A Gymnasium-Robotics point maze with the goal in the observation, its complete state, and a scripted solver."""

from __future__ import annotations

import contextlib
import io
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

with contextlib.redirect_stderr(io.StringIO()):  # it prints an irrelevant notice about its hand environments
    from gymnasium_robotics.envs.maze import maps
    from gymnasium_robotics.envs.maze.point_maze import PointMazeEnv

from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.mujoco import state as simulation
from guidebench.suites.point_maze import PointMaze, Reward

MAPS = {"open": maps.OPEN, "umaze": maps.U_MAZE, "medium": maps.MEDIUM_MAZE}
WALL = 1
RADIUS = 0.45
"""Distance in metres at which the ball has reached the target (the package's)."""
WRITTEN = ("site_pos",)
"""Fields of the model that the package writes to: the target's marker."""
SNAPSHOT = np.dtype([("qpos", "<f8", 2), ("site_pos", "<f8", (1, 3))])
"""Layout of a snapshot's 40 bytes: the positions of the ball and of the target's marker."""
STIFFNESS, DAMPING = 10.0, 1.3
"""Gains of the solver, in units of the action per m and per m/s: near critical damping for a ball of 4.2 kg."""
GridCell = tuple[int, int]


def package(name: str, **settings: Any) -> Any:
    """Return the package's environment of a task without Gymnasium's wrappers; the file to which it writes its model is
    removed."""
    env = PointMazeEnv(maze_map=MAPS[name], continuing_task=True, reset_target=False, **settings)
    Path(env.tmp_xml_file_path).unlink()
    return env


def reward(kind: Reward, ball: Array, target: Array) -> Array:
    """Return the package's reward, float64 [n], for balls at [n, 2] with targets at [n, 2]."""
    distance = np.linalg.norm(np.subtract(ball, target, dtype=np.float64), axis=-1)
    return np.exp(-distance) if kind == "dense" else np.asarray(distance <= RADIUS, np.float64)


class Maze:
    """One maze: observation float32 [6] (ball x, y, its velocity, target x, y), action float32 [2] in [-1, 1].

    An episode lasts its whole horizon with one target, which is reached within .45 m. A step is a success if the ball
    is at the target then or, depending on `settings.success`, has been there in this episode.
    """

    def __init__(self, name: str, settings: PointMaze) -> None:
        self._env, self._settings = package(name, reward_type=settings.reward), settings
        self._elapsed = 0
        self._at_target = self._any = False
        self._events = np.zeros(1, bool)
        self.instruction = "move the green ball through the maze to the red target"
        self.max_steps = settings.horizon(name)
        self.reset(0)

    def reset(self, seed: int | None = None) -> Array:
        observed, info = self._env.reset(seed=None if seed is None else int(seed))
        self._elapsed = 0
        self._at_target = self._any = bool(info["success"])
        self._events = np.zeros(1, bool)
        return _vector(observed)

    def step(self, action: Any) -> Step:
        observed, reward, terminated, _, info = self._env.step(action)
        self._elapsed += 1
        before, self._at_target = self._at_target, bool(info["success"])
        self._any = self._any or self._at_target
        self._events = np.array([self._at_target and not before])
        success = self._any if self._settings.success == "any" else self._at_target
        return Step(_vector(observed), float(reward), terminated, self._elapsed >= self.max_steps, success)

    def subgoals(self) -> dict[str, bool]:
        """Return whether the ball has been at the target in this episode, and whether it is there now; privileged, for
        evaluation only."""
        return {"success_any": self._any, "success_last": self._at_target}

    def events(self) -> Array:
        """Return bool [1]: whether the last step brought the ball to the target."""
        return self._events

    def snapshot(self) -> Array:
        """Return uint8 [40]; see `SNAPSHOT`."""
        drawn = np.zeros((), SNAPSHOT)
        drawn["qpos"], drawn["site_pos"] = self._env.data.qpos, self._env.model.site_pos[self._env.target_site_id]
        return np.frombuffer(drawn.tobytes(), np.uint8)

    def position(self) -> None:
        """Return None: an episode continues after success, so a repeated position is no failure."""

    def state(self) -> State:
        """Return the complete state, including the layouts of later episodes."""
        return {
            "simulation": simulation.state(self._env.model, self._env.data, WRITTEN),
            "goal": self._env.goal.copy(),
            "there": self._at_target,
            "any": self._any,
            "elapsed": self._elapsed,
            "random": self._env.np_random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for the state of another maze."""
        simulation.load(self._env.model, self._env.data, state["simulation"])
        self._env.goal = np.array(state["goal"])
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["random"]
        self._env.np_random = generator
        self._at_target, self._any = bool(state["there"]), bool(state["any"])
        self._events = np.zeros(1, bool)
        self._elapsed = int(state["elapsed"])

    def expert(self) -> Array:
        """Return the scripted solver's action in the current state, float32 [2] in [-1, 1]: towards the middle of the
        next cell on a shortest path, and in the target's cell towards the target."""
        place, speed = self._env.data.qpos, self._env.data.qvel
        here, there = self._cell(place), self._cell(self._env.goal)
        aim = self._env.goal if here == there else self._env.maze.cell_rowcol_to_xy(np.array(self._after(here, there)))
        return np.asarray(np.clip(STIFFNESS * (aim - place) - DAMPING * speed, -1, 1), np.float32)

    def _cell(self, place: Array) -> GridCell:
        row, column = self._env.maze.cell_xy_to_rowcol(place)
        return int(row), int(column)

    def _after(self, here: GridCell, there: GridCell) -> GridCell:
        """Return the next cell on a shortest path (breadth-first search from its end)."""
        free = {cell for cell, kind in np.ndenumerate(np.array(self._env.maze.maze_map)) if kind != WALL}
        queue, seen = deque([there]), {there}
        while queue:
            row, column = cell = queue.popleft()
            for near in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if near == here:
                    return cell
                if near in free and near not in seen:
                    seen.add(near)
                    queue.append(near)
        raise AssertionError(f"no way from {here} to {there}")


def _vector(observed: dict[str, Array]) -> Array:
    return np.concatenate((observed["observation"], observed["desired_goal"]), dtype=np.float32)
