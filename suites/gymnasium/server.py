"""Runs environments in a process of their own, under any Python since 3.9 that has Gymnasium and NumPy.

It is executed as a script and imports nothing else of this project. A message is two lengths, a header of JSON and the
bytes of arrays; nothing is ever unpickled or evaluated. Standard output of the environment goes to standard error.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import json
import os
import platform
import signal
import socket
import struct
import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = struct.Struct("!IQ")
"""Bytes of the header and of the arrays."""
LONGEST_HEADER = 2**20
WATCH = 2.0
"""Seconds between two looks whether the process that asks is still there."""
MARGIN = 60
"""Seconds beyond a call's limit after which this process ends itself, in case nobody is left to kill it."""


class Refused(Exception):
    """What an environment is or does does not fit; the message is shown to the user as it is."""


def send(connection: socket.socket, header: dict[str, Any], body: bytes = b"") -> None:
    """Send a message."""
    text = json.dumps(header).encode()
    connection.sendall(LENGTHS.pack(len(text), len(body)) + text + body)


def described_space(name: str, space: Any) -> dict[str, Any]:
    """Describe one array of an observation: its shape, dtype and, for codes, their numbers. Raise
    Refused for a space of another kind."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return {"shape": list(space.shape), "dtype": "uint8" if space.dtype == np.uint8 else "float32"}
    if isinstance(space, spaces.Discrete):
        return {"shape": [1], "dtype": _codes(int(space.n)), "categories": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        counts = [int(count) for count in space.nvec]
        return {"shape": [len(counts)], "dtype": _codes(max(counts)), "categories": counts}
    raise Refused(
        f"the {name} is {_brief(space)}; observations can be Box, Discrete, MultiDiscrete with one axis, and a Dict or "
        f"Tuple of these: write a wrapper that returns one of them, and name it with suite.wrappers=[MODULE:CLASS]"
    )


def _codes(count: int) -> str:
    return "uint8" if count <= 256 else "int32"


def code_type(count: int) -> str:
    """Return the dtype by which one of `count` actions is sent."""
    return "<u1" if count <= 256 else "<u4"


def _brief(space: Any) -> str:
    text = str(space)
    return text if len(text) <= 120 else f"{text[:117]}…"


def parts_of(space: Any, keys: list[str]) -> dict[str, Any]:
    """Return name -> space of the entries `keys` of a Dict or Tuple, {"": space} for any other. Raise Refused for a
    missing entry, and where entries have to be named and are not."""
    from gymnasium import spaces

    spaces_by_name: dict[str, Any] = {}
    if isinstance(space, spaces.Dict):
        spaces_by_name = dict(space.spaces)
    elif isinstance(space, spaces.Tuple):
        spaces_by_name = {str(number): part for number, part in enumerate(space.spaces)}
    if not spaces_by_name:
        if keys:
            raise Refused(f"suite.keys={','.join(keys)} is given, and observations are {_brief(space)}; leave it out")
        return {"": space}
    names = ",".join(spaces_by_name)
    if not keys:
        raise Refused(f"observations are a {type(space).__name__} of {names}; name entries with suite.keys=[{names}]")
    if unknown := next((key for key in keys if key not in spaces_by_name), None):
        raise Refused(f"suite.keys has {unknown!r}, and observations have {names}; name some of these")
    return {key: spaces_by_name[key] for key in keys}


def described_actions(space: Any) -> dict[str, Any]:
    """Return the actions: `count`, or `shape` of a bounded Box. Raise Refused for others."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"count": int(space.n)}
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and len(space.shape) >= 1:
        if np.isfinite(space.low).all() and np.isfinite(space.high).all():
            return {"shape": list(space.shape)}
        raise Refused(
            "actions are a Box without bounds, and they are scaled from [-1, 1]; bound them by a wrapper, "
            "suite.wrappers=[MODULE:CLASS], such as one of gymnasium.wrappers.RescaleAction's form"
        )
    raise Refused(
        f"actions are {_brief(space)}; they can be Discrete or a bounded Box: write a wrapper that takes one of these, "
        f"and name it with suite.wrappers=[MODULE:CLASS]"
    )


def _attribute(place: str, setting: str) -> Any:
    """Return what MODULE:NAME means. Raise Refused where it means nothing."""
    module, _, name = place.partition(":")
    try:
        attribute: Any = importlib.import_module(module)
        for piece in name.split("."):
            attribute = getattr(attribute, piece)
    except (ImportError, AttributeError) as error:
        raise Refused(
            f"{setting}={place}: {error}; write MODULE:NAME of what can be imported under {sys.executable}"
        ) from None
    return attribute


def made(recipe: dict[str, Any], renders: bool) -> Any:
    """Return the environment of a recipe. Raise Refused for an unknown id and for options that it does not take."""
    import gymnasium

    modes: dict[str, Any] = {"render_mode": "rgb_array"} if renders else {}
    if recipe["module"]:
        try:
            importlib.import_module(recipe["module"])
        except ImportError as error:
            raise Refused(f"suite.module={recipe['module']}: {error}; install it for {sys.executable}") from None
    options = {**json.loads(recipe["options"]), **modes}
    if recipe["entry"]:
        env = _attribute(recipe["entry"], "suite.entry")(**options)
    else:
        name = recipe["task"]
        try:
            limit = {"max_episode_steps": recipe["max_steps"]} if recipe["max_steps"] else {}
            env = gymnasium.make(name, disable_env_checker=True, **limit, **options)
        except (gymnasium.error.UnregisteredEnv, gymnasium.error.NamespaceNotFound, ModuleNotFoundError) as error:
            bare = name.partition(":")[2] or name
            near = difflib.get_close_matches(bare, gymnasium.registry, 3, 0.5)
            raise Refused(
                f"task={name}: Gymnasium {gymnasium.__version__} knows no such environment here "
                f"({str(error).splitlines()[0][:200]})"
                + (f"; did you mean {' or '.join(near)}?" if near else "")
                + " If a package registers it, name that with suite.module=PACKAGE"
            ) from None
    for wrapper in recipe["wrappers"]:
        env = _attribute(wrapper, "suite.wrappers")(env)
    return env


def packages_of(recipe: dict[str, Any], env: Any) -> dict[str, str]:
    """Return distribution -> version of what the environment is made of. A package outside of site-packages, as an
    editable one is, has the digest of its files."""
    places = [recipe["module"], recipe["entry"], *recipe["wrappers"], type(env.unwrapped).__module__, "gymnasium"]
    tops = sorted({place.partition(":")[0].partition(".")[0] for place in places if place})
    return dict(_version(top) for top in tops)


def _version(top: str) -> tuple[str, str]:
    file = getattr(sys.modules.get(top) or importlib.import_module(top), "__file__", None) or ""
    if not {"site-packages", "dist-packages"} & set(Path(file).parts):
        return top, f"files {_files_digest(Path(file))}"
    try:
        return top, metadata.version(top)
    except metadata.PackageNotFoundError:  # a distribution of another name
        for dist in metadata.distributions():
            if any(str(path).startswith((f"{top}/", f"{top}.py")) for path in dist.files or ()):
                return str(dist.metadata["Name"]), str(dist.version)
        return top, f"files {_files_digest(Path(file))}"


def _files_digest(place: Path) -> str:
    """Return a digest of the sources of a package or module."""
    files = sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(place.parent)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class Held:
    """An environment, its observations as arrays and its actions as codes or numbers in [-1, 1]."""

    def __init__(self, recipe: dict[str, Any], renders: bool) -> None:
        self.recipe, self.env = recipe, made(recipe, renders)
        self.parts = parts_of(self.env.observation_space, recipe["keys"])
        self.description = {
            "observations": {
                name: described_space(f"observation {name}".strip(), space) for name, space in self.parts.items()
            },
            "actions": described_actions(self.env.action_space),
        }
        self.last: dict[str, Any] = {}

    def observed(self, observation: Any) -> bytes:
        """Return the arrays of an observation. Raise Refused for one outside its space."""
        pieces = []
        for name, space in self.parts.items():
            raw = observation if name == "" else observation[int(name) if isinstance(observation, tuple) else name]
            spec = self.description["observations"][name]
            array = np.asarray(raw)
            title = f"the observation{' ' + name if name else ''}"
            if "categories" in spec:
                start = np.atleast_1d(getattr(space, "start", 0))
                array = np.atleast_1d(array) - start
                if array.shape != tuple(spec["shape"]) or (array < 0).any() or (array >= spec["categories"]).any():
                    raise Refused(f"{title} is {_brief(raw)}, which is outside its space {_brief(space)}")
            elif array.shape != space.shape or array.dtype.kind not in "fiub":
                raise Refused(
                    f"{title} has shape {array.shape} and dtype {array.dtype}, outside its space {_brief(space)}"
                )
            else:
                rounded = array.astype(space.dtype)
                if not ((rounded >= space.low) & (rounded <= space.high)).all():
                    place = tuple(int(i) for i in np.argwhere(~((rounded >= space.low) & (rounded <= space.high)))[0])
                    raise Refused(
                        f"{title} holds {rounded[place]} at {list(place)}, which is outside its space "
                        f"[{space.low[place]}, {space.high[place]}]; mend it, or widen its space by a wrapper"
                    )
            pieces.append(np.ascontiguousarray(array, spec["dtype"]).tobytes())
        return b"".join(pieces)

    def reset(self, seed: int) -> bytes:
        observation, _ = self.env.reset(seed=seed)
        return self.observed(observation)

    def act(self, body: bytes) -> Any:
        """Return the environment's form of an action."""
        space = self.env.action_space
        if (count := self.description["actions"].get("count")) is not None:
            return space.start + int(np.frombuffer(body, code_type(count))[0])
        scaled = np.frombuffer(body, "<f4").reshape(space.shape).astype(np.float64)
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        return np.clip(low + (scaled + 1) / 2 * (high - low), low, high).astype(space.dtype)

    def step(self, body: bytes) -> tuple[dict[str, Any], bytes]:
        observation, reward, terminated, truncated, extra = self.env.step(self.act(body))
        number = float(reward)
        if not np.isfinite(number):
            raise Refused(f"the reward is {number}; mend the environment, since nothing can be learnt from it")
        answer: dict[str, Any] = {"reward": number, "terminated": bool(terminated), "truncated": bool(truncated)}
        if key := self.recipe["success_key"]:
            if key not in extra:
                keys = ", ".join(sorted(map(str, extra))) or "nothing"
                raise Refused(f"suite.success_key={key}: info has no such entry; it holds {keys}")
            try:
                answer["info"] = float(np.asarray(extra[key]).item())
            except (TypeError, ValueError):
                raise Refused(f"suite.success_key={key}: info holds {_brief(extra[key])}, which is no number") from None
        return answer, self.observed(observation)

    def play(self, body: bytes, width: int) -> tuple[dict[str, Any], bytes]:
        """Take several steps and return what the last one returned."""
        last: tuple[dict[str, Any], bytes] = ({}, b"")
        for first in range(0, len(body), width):
            last = self.step(body[first : first + width])
        return last

    def render(self) -> tuple[dict[str, Any], bytes]:
        frame = np.asarray(self.env.render())
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise Refused(f"render() returns {frame.dtype} of shape {frame.shape}; expected uint8 [height, width, 3]")
        return {"shape": list(frame.shape)}, np.ascontiguousarray(frame).tobytes()


class Server:
    """Answers the messages of one connection."""

    def __init__(self) -> None:
        self.envs: list[Held] = []

    def answer(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        call = header["call"]
        if call == "describe":
            return self.described(header["recipe"]), b""
        if call == "make":
            return {"env": self.make(header)}, b""
        held: Held = self.envs[header["env"]]
        if call == "reset":
            return {}, held.reset(header["seed"])
        if call == "step":
            return held.step(body)
        if call == "play":
            return held.play(body, header["width"])
        return held.render()

    def make(self, header: dict[str, Any]) -> int:
        """Return the number of a new environment. Raise Refused for one that is not what was planned."""
        held = Held(header["recipe"], header["renders"])
        if held.description != header["spaces"]:
            raise Refused(f"its spaces have changed: they were {header['spaces']}, and now are {held.description}")
        packages = packages_of(header["recipe"], held.env) if not self.envs else header["packages"]
        if packages != header["packages"]:
            raise Refused(
                f"it was planned with {header['packages']}, and here are {packages}; install these versions, or run "
                f"the study anew in another output=…"
            )
        self.envs.append(held)
        return len(self.envs) - 1

    def described(self, recipe: dict[str, Any]) -> dict[str, Any]:
        import gymnasium

        held = Held(recipe, False)
        modes = list(held.env.metadata.get("render_modes", ()))
        frame, reason = None, f"its render_modes are {modes}, without rgb_array"
        if "rgb_array" in modes:
            try:
                drawn = Held(recipe, True)
                drawn.reset(0)
                frame = drawn.render()[0]["shape"]
                reason = ""
                drawn.env.close()
            except Exception as error:  # no OpenGL, a missing package, a render() that fails
                reason = f"render() raises {type(error).__name__}: {str(error)[:200]}"
        spec = held.env.spec
        packages = packages_of(recipe, held.env)
        versions = {"python": platform.python_version(), "numpy": np.__version__, "gymnasium": gymnasium.__version__}
        limit = recipe["max_steps"] or (spec.max_episode_steps if spec is not None else None)
        held.env.close()
        return {
            "environment": {**held.description, "max_steps": limit, "packages": packages},
            "interpreter": {**versions, "frame": frame, "frameless": reason},
        }  # fmt: skip


def _outlived(parent: int) -> None:
    """End this process and its group when the process that asks has ended."""
    while os.getppid() == parent:
        time.sleep(WATCH)
    os.killpg(0, signal.SIGKILL)


def main(descriptor: int) -> None:
    os.dup2(2, 1)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("MUJOCO_GL", "egl")
    threading.Thread(target=_outlived, args=(os.getppid(),), daemon=True).start()
    connection = socket.socket(fileno=descriptor)
    stream, server = connection.makefile("rb"), Server()
    while len(lengths := stream.read(LENGTHS.size)) == LENGTHS.size:
        header_bytes, body_bytes = LENGTHS.unpack(lengths)
        header = json.loads(stream.read(header_bytes))
        body = stream.read(body_bytes)
        sys.path[:0] = [path for path in header.get("paths", ()) if path not in sys.path]
        signal.alarm(int(header["limit"]) + MARGIN)
        try:
            answer, arrays = server.answer(header, body)
        except Refused as error:
            answer, arrays = {"refused": str(error)}, b""
        except Exception as error:  # code of others may raise anything
            import traceback

            last_place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {str(error)[:500]} ({Path(last_place.filename).name}:{last_place.lineno})"
            answer, arrays = {"raised": text}, b""
        signal.alarm(0)
        with contextlib.suppress(BrokenPipeError):
            send(connection, answer, arrays)


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules are not to be imported by their bare names
    main(int(sys.argv[1]))
