"""robosuite's Lift with a Panda arm as a Gymnasium environment, for `suite.entry=lift_env:make`. It imports nothing of
this project, since it runs under another interpreter."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np


class Lift(gymnasium.Env):
    """Lift a cube: joint velocities in, proprioception and the cube's state out, with the shaped reward."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, horizon: int = 100, render_mode: str | None = None) -> None:
        import robosuite

        self.render_mode, draws = render_mode, render_mode == "rgb_array"
        self._env: Any = robosuite.make(
            "Lift", robots="Panda", horizon=horizon, reward_shaping=True, use_camera_obs=False, ignore_done=True,
            has_renderer=False, has_offscreen_renderer=draws, control_freq=20,
        )  # fmt: skip
        low, high = self._env.action_spec
        self.action_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        size = self._vector(self._env.reset()).shape
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, size, np.float32)

    def _vector(self, observation: Any) -> Any:
        return np.concatenate([observation["robot0_proprio-state"], observation["object-state"]]).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        placement = self._env.placement_initializer
        for holder in (self._env, placement, *getattr(placement, "samplers", {}).values()):
            holder.rng = np.random.default_rng(seed)
        return self._vector(self._env.reset()), {}

    def step(self, action: Any) -> Any:
        observation, reward, _, _ = self._env.step(action)
        return self._vector(observation), float(reward), False, False, {"lifted": bool(self._env._check_success())}

    def render(self) -> Any:
        return np.ascontiguousarray(self._env.sim.render(height=128, width=128, camera_name="frontview")[::-1])


def make(**options: Any) -> Lift:
    """Return the environment."""
    return Lift(**options)
