"""Settings that the suites on Crafter share, and their pictures for models; importing this loads no environment."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from guidebench.harness import extras
from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Drawer
from guidebench.harness.parts import DrawingPart
from guidebench.harness.settings import Bounds, Unit, check_settings, cited
from guidebench.suites.crafter.observations import Kind, rows

ELLM = "ELLM (Du et al. 2023), released code, configuration of Crafter"
DQN: Mapping[str, Any] = {
    **cited("learner.dqn", ELLM, lr=6.25e-5, batch_size=64, discount=0.99, target_every=8_000, target_rate=1.0,
            learning_starts=5_000, train_every=4, epsilon_start=1.0, epsilon_end=0.01, double=True, hidden=(512,)),
    **cited("learner.dqn", "choice: a bound that rarely acts; ELLM's code clips no gradient", max_grad_norm=10.0),
}  # fmt: skip
"""ELLM's settings for learner=dqn, which has neither its dueling network nor its three-step returns. They are the
defaults of `dueling_dqn`, which has both."""
QUICK = "quick profile: a cell in minutes on two cores; shows that it learns, not how well"
SMOKE = "smoke profile: seconds, for tests; learns nothing"
QUICK_DQN: Mapping[str, Any] = {
    **cited("learner.dqn", QUICK, lr=3e-4, channels=16, features=128, hidden=(128,), target_every=1_000,
            learning_starts=1_000, epsilon_end=0.05),
    **cited("learner.dueling_dqn", QUICK, lr=3e-4, channels=16, features=128, trunk=(128,), hidden=(128,),
            target_every=1_000, learning_starts=1_000, epsilon_end=0.05),
    **cited("guide.rnd", QUICK, channels=16, features=128, hidden=(128,), out=128),
    **cited("guide.apt", QUICK, channels=16, features=128, hidden=(128,), out=128),
    **cited("guide.self_imitation", QUICK, batch_size=128),
}  # fmt: skip
SMOKE_DQN: Mapping[str, Any] = {
    **cited("learner.dqn", SMOKE, channels=8, features=16, hidden=(16,), batch_size=32, learning_starts=128,
            train_every=16),
    **cited("learner.dueling_dqn", SMOKE, channels=8, features=16, trunk=(16,), hidden=(16,), batch_size=32,
            learning_starts=128, train_every=16, target_every=64),
    **cited("guide.rnd", SMOKE, channels=8, features=16, hidden=(16,), out=16, batch_size=32),
    **cited("guide.apt", SMOKE, channels=8, features=16, hidden=(16,), out=16, batch_size=32),
    **cited("guide.self_imitation", SMOKE, batch_size=32, capacity=300),
}  # fmt: skip


def need(suite: str) -> None:
    """Raise UserError if the package is missing."""
    if importlib.util.find_spec("crafter") is None:
        raise extras.missing(f"suite {suite} needs the package crafter", "crafter")


@dataclass(frozen=True)
class CrafterDrawing(DrawingPart):
    """Pictures for models; the world and the agent's observations do not depend on these settings."""

    size: Annotated[int, Bounds(18, 1024), Unit("pixels")] = 252
    """Side length of a picture (choice: 28 pixels for each of 9 cells, near the input of common vision models)."""
    perturbation: Literal["none", "sprite_swap", "texture"] = "none"
    """`none`: the package's sprites. `sprite_swap`: misleading sprites. `texture`: meaningless noise (VLM-RB, §4.2 and
    app. F.3, for DoorKey)."""
    seed: Annotated[int, Bounds(0)] = 0
    """Seed of the patterns of the perturbation `texture`, the same in every episode and run (choice)."""

    def ready(self) -> None:
        """Raise UserError if the package is missing, whose sprites are drawn."""
        need("crafter")

    def spawn(self, task: str) -> Drawer:
        """Return the drawer of every task; UserError if the package is missing."""
        self.ready()
        from guidebench.suites.crafter.drawing import CrafterDrawer
        from guidebench.suites.crafter.perturbations import SpriteSwapDrawer, TextureDrawer

        if self.perturbation == "sprite_swap":
            return SpriteSwapDrawer(self.size)
        if self.perturbation == "texture":
            return TextureDrawer(self.size, self.seed)
        return CrafterDrawer(self.size)


@dataclass(frozen=True, kw_only=True)
class WorldSettings:
    """Settings of the world, of the part of it in view, and of observations."""

    observation: Kind = "symbols"
    """What an observation holds. `symbols`: codes of the cells in view, inventory, status, daylight. `text`: these and
    sentences. `semantic`: codes of the whole world in place of the view. `pixels`: the package's picture. `grey`: the
    four newest pictures in grey. `grey_text`: these and sentences, as in ELLM (choice: symbols, which need no drawing;
    the package's own are its pixels)."""
    area: Annotated[int, Bounds(9, 256), Unit("cells")] = 64
    """Side of the world (Crafter's default)."""
    view: Annotated[int, Bounds(5, 63), Unit("cells")] = 9
    """Width of the view. Its lowest rows show the inventory, so 9 x 7 cells of the world are seen. Creatures move
    within twice this distance (Crafter's default)."""
    size: Annotated[int, Bounds(10, 1024), Unit("pixels")] = 64
    """Side of the package's picture. It decides how many random numbers a step at night takes, so it is part of the
    dynamics for every kind of observation (Crafter's default; ELLM's is 84)."""

    def __post_init__(self) -> None:
        check_settings(self, "suite")
        if rows(self.view) < 1:
            raise UserError(f"suite.view={self.view} leaves no row for the world beside the inventory; take 5 or more")
        if self.area < self.view:
            raise UserError(
                f"suite.area={self.area} is smaller than suite.view={self.view}: raise the area or lower the view"
            )
        if self.size < 2 * self.view:
            raise UserError(
                f"suite.size={self.size} pixels are too few for suite.view={self.view} cells, which need 2 each: set "
                f"suite.size to at least {2 * self.view}"
            )
