"""OGBench's scene as configured in VLM-RB: reward shaped by the share of subgoals that hold, termination when all hold,
and a complete state.

All tasks of a process share the package's model. The values that the package writes into it (locks, colours) belong to
each task and are restored before it moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.interfaces import Array, State, Step
from guidebench.suites.mujoco import state as simulation
from guidebench.suites.ogbench_scene import HORIZON, PARTIAL, SUBGOALS, dynamics

INSTRUCTIONS = {
    "task3": "unlock and close the window, open the drawer, and move the cube to its mark",
    "task4": "unlock and open the drawer, put the cube into it and close it",
    "task5": "put the cube into the drawer and close it, open the window, and lock both",
    "button": "press the button that unlocks the drawer",
    "drawer": "open the drawer",
    "unlock_window": "press the button that unlocks the window, and close the window",
}
DISCOUNT = 0.99
"""γ of the reward shaping (VLM-RB, app. B and table 2)."""
DRAWN_GEOMS = ("object_0", "target_object_0", "btngeom_0", "btngeom_1")
DRAWN_MATERIALS = ("drawer_handle", "window_handle")
SNAPSHOT = np.dtype(
    [
        ("qpos", "<f8", 25),
        ("mocap_pos", "<f8", (1, 3)),
        ("mocap_quat", "<f8", (1, 4)),
        ("geom_rgba", "<f4", (len(DRAWN_GEOMS), 4)),
        ("mat_rgba", "<f4", (len(DRAWN_MATERIALS), 4)),
    ]
)
"""Layout of a snapshot's 352 bytes, each field under its name in MuJoCo's data or model. Rows of `geom_rgba` are those
of DRAWN_GEOMS and rows of `mat_rgba` those of DRAWN_MATERIALS, which show locks and whether the cube is at its goal.
`mocap_*` is the translucent cube at the goal. Positions of sites change too (goals of drawer and window), but
`env.render()` does not draw their group."""


class Scene:
    """One scene task: observation float32 [40], action float32 [5] in [-1, 1] (VLM-RB, app. B).

    φ is the share of the task's subgoals that hold. A step's reward is -1 + γ φ(s') - φ(s), and the episode terminates
    when φ(s') = 1, which is not replaced by 0 in that reward. The package's own reward is not used.
    """

    def __init__(self, name: str) -> None:
        self._env = env = dynamics.make(name)
        self._shared = dynamics.written(env)
        self._saved_fields: dict[str, Array] = {}
        self._is_subgoal = np.isin(SUBGOALS, PARTIAL.get(name, SUBGOALS))
        self._geoms = [env.model.geom(geom).id for geom in DRAWN_GEOMS]
        self._materials = [env.model.material(material).id for material in DRAWN_MATERIALS]
        self._met = self._events = np.zeros(len(SUBGOALS), bool)
        self._elapsed = 0
        self.instruction = INSTRUCTIONS[name]
        self.max_steps = HORIZON[name]
        self.reset(0)

    def reset(self, seed: int | None = None) -> Array:
        observation, _ = self._env.reset(seed=None if seed is None else int(seed))
        self._elapsed = 0
        self._met = self._env.successes
        self._events = np.zeros_like(self._met)
        self._keep()
        return np.asarray(observation, np.float32)

    def step(self, action: Any) -> Step:
        self._put_back()
        observation = self._env.step(action)[0]
        before, self._met = self._met, self._env.successes
        self._events = self._is_subgoal & self._met & ~before
        self._elapsed += 1
        self._keep()
        potential = self._potential(self._met)
        reward = -1.0 + DISCOUNT * potential - self._potential(before)
        is_solved = potential == 1.0
        return Step(np.asarray(observation, np.float32), reward, is_solved, self._elapsed >= self.max_steps, is_solved)

    def _potential(self, met: Array) -> float:
        """Return φ, the share of the task's subgoals that hold, in [0, 1]."""
        return float(met[self._is_subgoal].mean())

    def _keep(self) -> None:
        self._saved_fields = {name: field.copy() for name, field in self._shared.items()}

    def _put_back(self) -> None:
        for name, field in self._shared.items():
            field[:] = self._saved_fields[name]

    def subgoals(self) -> dict[str, bool]:
        """Return which of the task's subgoals hold now; privileged, for evaluation only."""
        return {name: bool(self._met[i]) for i, name in enumerate(SUBGOALS) if self._is_subgoal[i]}

    def outcomes(self) -> dict[str, float]:
        """Return `completion`, the share of the task's subgoals that hold now; privileged, for evaluation only."""
        return {"completion": self._potential(self._met)}

    def events(self) -> Array:
        """Return bool [5]: which of the task's subgoals began to hold in the last step."""
        return self._events

    def snapshot(self) -> Array:
        """Return uint8 [352]; see `SNAPSHOT`."""
        data, record = self._env.data, np.zeros((), SNAPSHOT)
        record["qpos"], record["mocap_pos"], record["mocap_quat"] = data.qpos, data.mocap_pos, data.mocap_quat
        record["geom_rgba"] = self._saved_fields["geom_rgba"][self._geoms]
        record["mat_rgba"] = self._saved_fields["mat_rgba"][self._materials]
        return np.frombuffer(record.tobytes(), np.uint8)

    def position(self) -> None:
        """Return None: the reward is dense, so no repeated position is a failure."""

    def state(self) -> State:
        """Return the complete state, including the layouts of later episodes."""
        self._put_back()
        return {
            "simulation": simulation.state(self._env.model, self._env.data, dynamics.WRITTEN),
            "buttons": self._env.buttons.copy(),
            "met": self._met.copy(),
            "elapsed": self._elapsed,
            "random": self._env.np_random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for the state of another model."""
        simulation.load(self._env.model, self._env.data, state["simulation"])
        self._env.buttons = np.array(state["buttons"])
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = state["random"]
        self._env.np_random = generator
        self._met = np.array(state["met"])
        self._events = np.zeros_like(self._met)
        self._elapsed = int(state["elapsed"])
        self._keep()

    def info(self) -> dict[str, Any]:
        """Return the inputs of the package's scripted oracles; privileged, for demonstrations only."""
        inputs: dict[str, Any] = self._env.compute_ob_info()
        return inputs
