"""The tasks: which block is to be brought where, what a policy observes, and what stays between episodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from guidebench.harness.errors import UserError
from guidebench.harness.interfaces import Array, Drawer, State, Step
from guidebench.suites.bin_sorting import (
    CAMERAS_OF,
    CENTRE,
    EVENTS,
    FAILURES,
    SCALE,
    BinSorting,
    dynamics,
    expert,
    layout,
    words,
)
from guidebench.suites.bin_sorting.dynamics import BLOCKS
from guidebench.suites.bin_sorting.expert import Aim

SNAPSHOT = np.dtype([("qpos", "<f8", 35), ("geom_rgba", "<f4", (BLOCKS, 4)), ("asked", "u1", 3)])
"""Layout of a snapshot's 331 bytes. What is drawn has its name in MuJoCo's data or model; rows of `geom_rgba` are those
of DRAWN. `asked` is what the instruction says: the block's number, and the numbers of its place in `words.PLACES` and
of its origin in ORIGINS."""
ORIGINS = ("", "left", "right")
"""The bin in which an instruction says that the block lies, or ""."""
DRAWN = tuple(f"block_{number}" for number in range(BLOCKS))
LIFTED = 0.05
"""Height of a block's centre from which it counts as lifted, metres."""
PART = 0.03
"""Distance beyond the middle of the tray from which a block is at one of its sides, metres."""
TOWARDS = {"near": (-1.0, 0.0), "far": (1.0, 0.0), "left": (0.0, 1.0), "right": (0.0, -1.0)}
LAID = 0.03
"""Blocks that a layout puts into a bin are at most this far from its centre along each axis, metres."""
STAGES = ("reach", "grasp", "carry", "release")
"""Stages of an episode without success so far: on the way to the block, at it, with it, and over its place."""
AT_BLOCK = 0.03
"""Horizontal distance between tip and block up to which the gripper is at the block, metres."""
STILL, HOVER = 0.005, 8
"""Largest motion of the tip in a step in which it counts as still, metres, and the number of such steps in a row, in
one stage, from which it hovers (choice: an action of .05; the scripted policy never hovers)."""
BESIDE = np.array([0.275, 0.0])
"""Place between the tray and the arm, where a scripted policy drops a block."""


def is_at(position: Array, place: str) -> bool:
    """Return whether a block at `position` [3] lies at `place`, one of `words.PLACES`."""
    if place.endswith("bin"):
        return layout.bin_of(position) == place.removesuffix(" bin")
    if place == "tray":
        return layout.on_tray(position)
    beyond = (position[:2] - layout.TRAY) @ np.array(TOWARDS[place.removesuffix(" side")])
    return layout.on_tray(position) and bool(beyond > PART)


class BinTask:
    """One task over its own world; the action is float32 [7] in [-1, 1]."""

    def __init__(self, name: str, settings: BinSorting) -> None:
        self._name, self._settings = name, settings
        self._world = dynamics.make()
        self._colours = words.colours(name)
        self._cameras = CAMERAS_OF[settings.cameras] if settings.observation == "images" else ()
        self._drawers: dict[str, Drawer] = {}
        self.max_steps = settings.length
        self._random = np.random.default_rng(0)
        self.reset(0)

    # Episodes

    def reset(self, seed: int | None = None) -> Array:
        """Begin an episode: in a new layout, or, reset-free, in the world as the last episode left it."""
        if seed is not None:
            self._random = np.random.default_rng(int(seed))
        stays = self._name == "sorting" and self._settings.reset_free and seed is None
        if stays and self._played < self._settings.rebuild:
            self._continue()
        else:
            self._rebuild()
        self._elapsed = 0
        self._tell()
        if self._settings.start == "grasped":
            self._grasp()
        self._ever = np.zeros(len(EVENTS), bool)
        self._events = np.zeros(len(EVENTS), bool)
        self._last = np.zeros(len(EVENTS), bool)
        self._stage, self._still = "", 0
        self._hovered = np.zeros(len(STAGES), bool)
        return self._observation()

    def _rebuild(self) -> None:
        """Lay out a new world."""
        world, rng = self._world, self._random
        self._played = self._put_back = 0
        world.begin()
        self._block = int(rng.integers(BLOCKS))
        self._place, self._origin = self._placement()
        binned = layout.BINS[self._origin] + rng.uniform(-LAID, LAID, 2) if self._origin else None
        spots = layout.places(rng, BLOCKS, np.zeros((0, 2)))
        for number in range(BLOCKS):
            spot = binned if binned is not None and number == self._block else spots[number]
            world.place(number, spot, float(rng.uniform(0, np.pi / 2)))
        world.home()
        world.settle()
        if self._name == "other":
            self._place = self._side()

    def _continue(self) -> None:
        """Home the arm, put back what is out of reach, and choose what to do next."""
        world, rng = self._world, self._random
        self._played += 1
        world.home()
        world.settle()
        lost = [number for number in range(BLOCKS) if not layout.reachable(world.poses[number])]
        if lost:
            rest = np.delete(world.poses[:, :2], lost, axis=0)
            for number, spot in zip(lost, layout.places(rng, len(lost), rest), strict=True):
                world.place(number, spot, float(rng.uniform(0, np.pi / 2)))
            world.settle()
            self._put_back += len(lost)
        bins = [layout.bin_of(pose) for pose in world.poses]
        binned = [number for number in range(BLOCKS) if bins[number]]
        spread = [number for number in range(BLOCKS) if not bins[number]]
        backward = bool(binned) and (self._place != "tray" or not spread)
        self._block = int(rng.choice(binned if backward else spread))
        self._origin = bins[self._block]
        self._place = "tray" if backward else words.belongs(self._colours[self._block])

    def _placement(self) -> tuple[str, str]:
        """Return the place to which a new layout's block is to be brought, and the bin in which it lies, or ""."""
        if self._name == "other":
            return "near side", ""
        right = words.belongs(self._colours[self._block])
        return ("tray", right.removesuffix(" bin")) if self._name == "backward" else (right, "")

    def _side(self) -> str:
        """Return a side of the tray where the block is not."""
        away = [place for place in words.PLACES[3:] if not is_at(self._world.poses[self._block], place)]
        return str(self._random.choice(away))

    def _grasp(self) -> None:
        """Let the scripted policy take the block, for at most an episode."""
        for _ in range(self.max_steps):
            if self._lifted():
                return
            self._world.advance(expert.act(self._world, self._aim(), False))

    def step(self, action: Any) -> Step:
        """Take an action of a tenth of a second; UserError for another shape."""
        action = np.asarray(action, np.float64)
        if action.shape != (7,):
            raise UserError(f"an action of shape {list(action.shape)} was given to bin_sorting; expected [7]")
        if self._settings.displaced and not self._elapsed:
            self._displace()
        tip = self._world.tip.copy()
        self._world.advance(np.clip(action, -1, 1))
        self._elapsed += 1
        now = np.array([self._lifted(), self._brought(), self._success()])
        self._note_hovering(float(np.linalg.norm(self._world.tip - tip)))
        self._events, self._last, self._ever = now & ~self._last, now, self._ever | now
        success = bool(now[2])
        over = self._elapsed >= self.max_steps
        terminated = success and self._settings.terminate
        return Step(self._observation(), float(success), terminated, over, success)

    def _note_hovering(self, moved: float) -> None:
        """Count a step in which the tip moved so far, metres, and note the stage in which it hovers."""
        stage = self._stage_now()
        self._still = (self._still if stage == self._stage else 0) + 1 if moved < STILL else 0
        self._stage = stage
        if stage and self._still >= HOVER:
            self._hovered[STAGES.index(stage)] = True

    def _stage_now(self) -> str:
        """Return the stage, one of `STAGES`, or "" once the block lies at its place."""
        if self._success():
            return ""
        x, y, _ = block = self._world.poses[self._block, :3]
        near = np.linalg.norm(block[:2] - self._world.tip[:2]) < AT_BLOCK
        if near and self._world.closing and is_at(np.array([x, y, layout.BLOCK]), self._place):
            return "release"
        if self._lifted():
            return "carry"
        return "grasp" if near else "reach"

    def _displace(self) -> None:
        """Move each block that lies on the ground by up to `suite.displaced` along x and y, at rest."""
        far = self._settings.displaced
        for number, pose in enumerate(self._world.poses.copy()):
            moved = self._random.uniform(-far, far, 2)
            if pose[2] < layout.FLOORED:
                self._world.place(number, pose[:2] + moved, expert.yaw(pose[3:]))
        self._world.refresh()

    def _tell(self) -> None:
        """Set the instruction, which names a colour and a place."""
        self.instruction = words.instruction(self._colours[self._block], self._place, self._origin)

    # Conditions of success and of events

    def _success(self) -> bool:
        return not self._world.closing and is_at(self._world.poses[self._block], self._place)

    def _lifted(self) -> bool:
        block = self._world.poses[self._block, :3]
        return self._world.closing and block[2] > LIFTED and bool(np.linalg.norm(block - self._world.tip) < LIFTED)

    def _brought(self) -> bool:
        """Return whether the block is over its place or at it."""
        x, y, _ = self._world.poses[self._block, :3]
        return (self._lifted() or not self._world.closing) and is_at(np.array([x, y, layout.BLOCK]), self._place)

    def events(self) -> Array:
        """Return bool [3]: which of the suite's events began to hold in the last step."""
        return self._events

    def outcomes(self) -> dict[str, float]:
        """Return whether the block was ever `lifted`, whether it lies in the `wrong_bin`, how many blocks are
        `out_of_reach` now, how many were `put_back` since the world was built, and for each stage whether the gripper
        ever hovered in it (`hovers_reach`, …). Privileged, for evaluation."""
        poses = self._world.poses
        bin_ = layout.bin_of(poses[self._block])
        return {
            "lifted": float(self._ever[0]),
            "wrong_bin": float(bool(bin_) and self._place.endswith("bin") and f"{bin_} bin" != self._place),
            "out_of_reach": float(sum(not layout.reachable(pose) for pose in poses)),
            "put_back": float(self._put_back),
            **{f"hovers_{stage}": float(hovered) for stage, hovered in zip(STAGES, self._hovered, strict=True)},
        }

    # Observations

    def _observation(self) -> Array:
        world = self._world
        record = np.zeros((), self._settings.spaces(self._name)[0].numpy)
        tip = (world.tip - CENTRE) * SCALE
        arm_state = np.array([*tip, *world.angles, float(world.closing)])
        goal = np.array([colour == self._colours[self._block] for colour in words.COLOURS]
                        + [place == self._place for place in words.PLACES], np.float32)  # fmt: skip
        if self._settings.observation == "state":
            order = [self._block, *(number for number in range(BLOCKS) if number != self._block)]
            poses = world.poses[order]
            yaw = 4 * expert.yaw(poses[0, 3:])
            blocks = (poses[:, :3] - CENTRE) * SCALE
            return np.concatenate(
                [arm_state, [world.opening], blocks[0] - tip, [np.sin(yaw), np.cos(yaw)], blocks.ravel(), goal]
            ).astype(np.float32)
        record["proprioception"], record["goal"] = arm_state, goal
        shot = self.snapshot()[None]
        for camera in self._cameras:
            record[camera] = self._drawer(camera)(shot)[0]
        return record

    def _drawer(self, camera: str) -> Drawer:
        if camera not in self._drawers:
            from guidebench.suites.bin_sorting import drawing

            self._drawers[camera] = drawing.shared(camera)
        return self._drawers[camera]

    def snapshot(self) -> Array:
        """Return uint8 [331]; see `SNAPSHOT`."""
        record = np.zeros((), SNAPSHOT)
        record["qpos"] = self._world.data.qpos
        record["geom_rgba"] = [words.RGBA[colour] for colour in self._colours]
        record["asked"] = self._block, words.PLACES.index(self._place), ORIGINS.index(self._origin)
        return np.frombuffer(record.tobytes(), np.uint8)

    def position(self) -> None:
        """Return None: a moving arm repeats no position."""

    # Actions

    def expert(self) -> Array:
        """Return the scripted policy's action in the current state, float32 [7]. Privileged."""
        return expert.act(self._world, self._aim(), self._success())

    def fail(self, how: str) -> Array:
        """Return the action of a scripted policy that fails in one of the ways `FAILURES`. Privileged."""
        if how not in FAILURES:
            raise UserError(f"unknown way to fail {how!r}; known: {', '.join(FAILURES)}")
        aim, block = self._aim(), self._world.poses[self._block, :3]
        if how == "miss":
            aim = aim._replace(beside=np.array([0.0, 0.07 if block[1] < 0 else -0.07]))
            return expert.act(self._world, aim, False)
        x, y = aim.place
        if how == "drop":
            wrong = BESIDE
        elif self._place.endswith("bin"):
            wrong = np.array([x, -y])
        elif self._place == "tray":
            wrong = layout.BINS["left" if self._origin == "right" else "right"]
        else:
            wrong = 2 * layout.TRAY - aim.place
        lies = not self._world.closing and block[2] < LIFTED and np.linalg.norm(block[:2] - wrong) < PART
        return expert.act(self._world, aim._replace(place=wrong), bool(lies))

    def _aim(self) -> Aim:
        return Aim(self._block, spot(self._world.poses, self._block, self._place))

    # State

    def state(self) -> State:
        """Return the complete state, including the layouts of later episodes."""
        return {
            "simulation": self._world.state(),
            "block": self._block,
            "place": self._place,
            "origin": self._origin,
            "played": self._played,
            "put_back": self._put_back,
            "elapsed": self._elapsed,
            "last": self._last.copy(),
            "ever": self._ever.copy(),
            "stage": self._stage,
            "still": self._still,
            "hovered": self._hovered.copy(),
            "random": self._random.bit_generator.state,
        }

    def load_state(self, state: State) -> None:
        """Restore the state; UserError for the state of another model."""
        self._world.load_state(state["simulation"])
        self._block, self._place, self._origin = int(state["block"]), str(state["place"]), str(state["origin"])
        self._played, self._put_back = int(state["played"]), int(state["put_back"])
        self._elapsed = int(state["elapsed"])
        self._tell()
        self._last, self._ever = np.array(state["last"], bool), np.array(state["ever"], bool)
        self._events = np.zeros(len(EVENTS), bool)
        # Checkpoints of before these were counted lack them.
        self._stage, self._still = str(state.get("stage", "")), int(state.get("still", 0))
        self._hovered = np.array(state.get("hovered", np.zeros(len(STAGES))), bool)
        self._random = np.random.default_rng()
        self._random.bit_generator.state = state["random"]


def spot(poses: Array, block: int, place: str) -> Array:
    """Return the point (x, y) of its place at which a block is to be put, given the blocks' positions [3, …]: apart
    from the other blocks if possible, and near the middle of the place."""
    if place.endswith("bin"):
        centre, half = layout.BINS[place.removesuffix(" bin")], layout.BIN_HALF - layout.GRASP - 0.01
    elif place == "tray":
        centre, half = layout.TRAY, layout.TRAY_HALF - layout.MARGIN
    else:
        side = np.array(TOWARDS[place.removesuffix(" side")])
        half = np.where(side == 0, layout.TRAY_HALF - layout.MARGIN, 0.01)
        centre = layout.TRAY + side * 0.07
    return expert.free(poses, block, centre, half, centre)


def instructed_placement(snapshot: Array) -> tuple[int, str, str]:
    """Return the block's number, the place and the bin in which the block lies (or "") that a snapshot's instruction
    names; UserError for a snapshot of another length or of another suite."""
    if snapshot.shape != (SNAPSHOT.itemsize,):
        raise UserError(f"a snapshot of shape {list(snapshot.shape)} is none of bin_sorting's, [{SNAPSHOT.itemsize}]")
    block, place, origin = (int(number) for number in _read(snapshot)["asked"])
    if block >= BLOCKS or place >= len(words.PLACES) or origin >= len(ORIGINS):
        raise UserError(f"a snapshot asks for {[block, place, origin]}, which no instruction of bin_sorting does")
    return block, words.PLACES[place], ORIGINS[origin]


def instructed(snapshot: Array) -> str:
    """Return the instruction of a snapshot's episode, which may be of any task; UserError as for
    `instructed_placement`."""
    block, place, origin = instructed_placement(snapshot)
    block_colour = _read(snapshot)["geom_rgba"][block]
    colour = next((name for name, rgba in words.RGBA.items() if np.allclose(rgba, block_colour, atol=1e-3)), None)
    if colour is None:
        raise UserError(f"a snapshot shows a block in {block_colour.tolist()}, a colour that no instruction names")
    return words.instruction(colour, place, origin)


def located(snapshot: Array) -> Array:
    """Return the position of the named block and the position at which the scripted policy would put it, metres,
    float64 [2, 3]; UserError as for `instructed_placement`."""
    block, place, _ = instructed_placement(snapshot)
    poses = _read(snapshot)["qpos"][dynamics.blocks()[:, None] + np.arange(3)]
    return np.stack([poses[block], [*spot(poses, block, place), layout.BLOCK]])


def _read(snapshot: Array) -> Any:
    return np.frombuffer(snapshot.tobytes(), SNAPSHOT)[0]
