"""Real model hosts and their askers: one load for all, errors as if the model were loaded by the asker, and ends."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.heartbeats import SILENT_AFTER
from guidebench.harness.models.calls import Failure, JudgeCall, Usage
from guidebench.harness.models.hosts import client, process
from guidebench.harness.models.hosts.client import HostedModel
from guidebench.harness.models.hosts.keeper import Hosts
from guidebench.harness.models.hosts.wire import CONNECT, Greeting, ModelRequest, packed, receive_now
from guidebench.harness.models.messages import RegisteredPart
from tests import programs
from tests.harness.launchers.scheduled import until
from tests.harness.stopping import stop

# Does what the prompt says. Each load appends a line to a file.
SOURCE = """
    import asyncio, os
    from dataclasses import dataclass
    from pathlib import Path
    import numpy as np
    from guidebench.harness.errors import UserError
    from guidebench.harness.models.calls import Failure, Reply, Usage
    from guidebench.harness.models.questions import Memory
    from guidebench.harness.parts import ModelPart
    from guidebench.harness.registry import register

    @register.judge("obedient")
    @dataclass(frozen=True)
    class Obedient(ModelPart):
        '''A model of this machine that does what it is told.'''
        version = 1
        backend = "transformers"
        model: str = "whole"
        folder: str = ""
        prompt: str = ""
        timeout: float = 5.0
        device: str | None = None

        def spawn_model(self, device):
            with open(f"{self.folder}/loads", "a") as loads:
                loads.write(f"{self.model}\\n")
            if self.model == "broken":
                raise UserError("model=broken holds no weights")
            if self.model == "raises":
                raise KeyError("no such layer")
            if self.model == "dies":
                os._exit(9)
            return self

        async def answer(self, call):
            said, flag = call.prompt, Path(self.folder) / "flag"
            if said == "who":
                visible = os.environ["CUDA_VISIBLE_DEVICES"]
                return Reply({"pid": os.getpid(), "parent": os.getppid(), "visible": visible})
            if said == "mean":
                return Reply(call.clip.astype(float).mean((1, 2, 3)), Usage(1, seconds=2.5), {"mass": 0.5})
            if said == "fail":
                raise Failure("rate_limited", "come later", Usage(1, seconds=2.0), 7.5)
            if said == "refuse":
                raise UserError("such calls are not answered")
            if said == "raise":
                raise ValueError("a mistake")
            if said == "die" or (said == "die once" and not flag.exists()):
                flag.touch()
                os._exit(9)
            if said == "lambda":
                return Reply(lambda: 0)
            if said == "wait":
                (Path(self.folder) / "began").touch()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    (Path(self.folder) / "cancelled").touch()
                    raise
            if said == "meet":  # answers when two such calls wait at the same time
                TOGETHER.append(said)
                while len(TOGETHER) < 2:
                    await asyncio.sleep(0.01)
                return Reply(os.getpid())
            return Reply(1.0)

        async def close(self): ...

    TOGETHER = []
"""
SHARED = "elsewhere"
"""A device that is no CPU, whose calls one event loop answers; the model above ignores it."""
GPUS = "5,6"
"""Of the command."""


def clip(prompt: str) -> JudgeCall:
    return JudgeCall(np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3), prompt)


def environment(gpus: str | None) -> dict[str, str]:
    return {**os.environ, "CUDA_VISIBLE_DEVICES": GPUS if gpus is None else gpus}


@pytest.fixture
def hosts(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Hosts]:
    """The hosts of a command; a parameter is the seconds of silence after which they count as hung."""
    plugin("obedient_module", SOURCE, {"judge": "obedient"})
    monkeypatch.setattr(client, "PAUSE", 0.1)
    found = Hosts(tmp_path / "models.log", environment, getattr(request, "param", SILENT_AFTER))
    yield found
    with contextlib.suppress(OSError):  # the test has closed it
        found.close()


@pytest.fixture
def model(hosts: Hosts, tmp_path: Path) -> Callable[..., HostedModel]:
    """`model("whole", "cpu")` is a model of an asker, not connected yet."""

    def asked(name: str = "whole", **settings: Any) -> HostedModel:
        part = RegisteredPart("judge", "obedient", {"model": name, "folder": str(tmp_path), **settings})
        return HostedModel(hosts._requests, part)

    return asked


def answers(model: HostedModel, *prompts: str, device: str = "cpu") -> list[Any]:
    """The values of answers to prompts, one after the other on one connection, which is closed then."""

    async def told() -> list[Any]:
        model.spawn(device)
        try:
            return [(await model.answer(clip(prompt))).value for prompt in prompts]
        finally:
            await model.close()

    return asyncio.run(told())


def loads(tmp_path: Path) -> list[str]:
    return (tmp_path / "loads").read_text().split()


def ended(*pids: int) -> bool:
    """Whether none of these processes is left."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def hosts_of(log: Path) -> list[int]:
    """The processes that print into a log: hosts, and their forks after them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.readlink(folder / "fd" / "1") == str(log):
                found[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return sorted(found, key=lambda pid: found[pid] in found)


def test_models_that_differ_in_what_does_not_decide_the_weights_are_loaded_once(model, tmp_path: Path) -> None:
    first = answers(model(prompt="Is the key held?"), "who")
    second = answers(model(prompt="Is the door open?", timeout=9.0), "who")
    assert loads(tmp_path) == ["whole"] and first[0]["parent"] == second[0]["parent"]
    answers(model("other"), "who")
    assert loads(tmp_path) == ["whole", "other"]
    assert (tmp_path / "models.log").read_text().count("loaded judge 'obedient'") == 2


def test_on_a_cpu_each_asker_has_a_fork_and_elsewhere_one_process_answers_all_together(model) -> None:
    async def two(prompt: str, device: str) -> list[Any]:
        askers = [model(), model()]
        for each in askers:
            each.spawn(device)
        found = await asyncio.wait_for(asyncio.gather(*(each.answer(clip(prompt)) for each in askers)), 600)
        for each in askers:
            await each.close()
        return [reply.value for reply in found]

    one, other = asyncio.run(two("who", "cpu"))
    assert one["parent"] == other["parent"] and len({one["pid"], other["pid"], one["parent"]}) == 3
    one, other = asyncio.run(two("who", SHARED))
    assert one == other
    assert len(set(asyncio.run(two("meet", SHARED)))) == 1, "calls of several askers wait at the same time"


def test_a_model_sees_the_gpus_of_its_asker_or_all_of_the_command_if_its_settings_name_a_device(
    model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for visible in ("5", "6"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert answers(model(), "who", device=SHARED)[0]["visible"] == visible
        assert answers(model(device="cuda:1"), "who", device=SHARED)[0]["visible"] == GPUS
    assert len(loads(tmp_path)) == 3, "one for each GPU, and one for all that name a device"


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_an_answer_comes_with_all_that_it_has(model, device: str) -> None:
    async def told() -> Any:
        asked = model()
        asked.spawn(device)
        assert asked.estimate(clip("mean")) == Usage(1, images=2)
        reply = await asked.answer(clip("mean"))
        assert asked.estimate(clip("mean")) == Usage(1, images=2, seconds=2.5)
        await asked.close()
        return reply

    reply = asyncio.run(told())
    assert np.array_equal(reply.value, clip("").clip.astype(float).mean((1, 2, 3)))
    assert reply.usage == Usage(1, seconds=2.5) and reply.detail == {"mass": 0.5}


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_what_goes_wrong_with_a_call_is_told_as_by_a_model_of_the_asker(model, device: str) -> None:
    with pytest.raises(Failure, match="come later") as raised:
        answers(model(), "fail", device=device)
    failure = raised.value
    assert (failure.kind, failure.usage, failure.retry_after) == ("rate_limited", Usage(1, seconds=2.0), 7.5)
    with pytest.raises(UserError, match=r"^such calls are not answered$"):
        answers(model(), "refuse", device=device)
    with pytest.raises(RuntimeError, match=r"judge 'obedient'(?s:.*)ValueError: a mistake"):
        answers(model(), "raise", device=device)
    with pytest.raises(RuntimeError, match="lambda"):
        answers(model(), "lambda", device=device)


def test_a_model_that_cannot_be_loaded_is_the_same_error_for_each_asker_and_tried_again_by_the_next(
    model, tmp_path: Path
) -> None:
    for _ in range(2):
        with pytest.raises(UserError, match=r"^model=broken holds no weights$"):
            answers(model("broken"), "who")
    with pytest.raises(RuntimeError, match="KeyError: 'no such layer'"):
        answers(model("raises"), "who")
    with pytest.raises(UserError, match=r"ended 3 times without an answer; logs/models\.log"):
        answers(model("dies"), "who")
    tried = loads(tmp_path)
    assert 1 <= tried.count("dies") <= 3, "a connection to a process that is ending counts too"
    (tmp_path / "loads").unlink()
    until(lambda: not hosts_of(tmp_path / "models.log"))
    with pytest.raises(UserError, match="holds no weights"):
        answers(model("broken"), "who")
    assert loads(tmp_path) == ["broken"]


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_call_is_answered_though_the_process_dies_once_and_an_error_if_it_always_does(
    model, tmp_path: Path, device: str
) -> None:
    assert answers(model(), "mean", "die once", "who", device=device)[1] == 1.0
    with pytest.raises(UserError, match="ended 3 times without an answer"):
        answers(model(), "die", device=device)


def test_a_host_killed_between_calls_is_followed_by_another(model, tmp_path: Path) -> None:
    async def told() -> tuple[Any, Any]:
        asked = model()
        asked.spawn("cpu")
        before = (await asked.answer(clip("who"))).value
        os.kill(before["parent"], signal.SIGKILL)
        await asyncio.to_thread(until, lambda: ended(before["pid"]))  # a fork ends with its host
        after = (await asked.answer(clip("who"))).value
        await asked.close()
        return before, after

    before, after = asyncio.run(told())
    assert before["parent"] != after["parent"] and loads(tmp_path) == ["whole"] * 2


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_call_that_is_no_longer_wanted_is_cancelled_and_the_others_go_on(model, tmp_path: Path, device: str) -> None:
    async def given_up() -> Any:
        asked = model()
        asked.spawn(device)
        waiting = asyncio.create_task(asked.answer(clip("wait")))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.02)
        waiting.cancel()
        reply = await asked.answer(clip("yes"))
        while not (tmp_path / "cancelled").exists():
            await asyncio.sleep(0.02)
        await asked.close()
        return reply.value

    assert asyncio.run(asyncio.wait_for(given_up(), 60)) == 1.0


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_calls_of_an_asker_that_has_ended_are_dropped(model, tmp_path: Path, device: str) -> None:
    async def gone() -> None:
        asked = model()
        asked.spawn(device)
        task = asyncio.create_task(asked.answer(clip("wait")))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.02)
        await asked.close()
        task.cancel()

    asyncio.run(asyncio.wait_for(gone(), 60))
    until((tmp_path / "cancelled").exists)
    assert answers(model(), "yes", device=device) == [1.0]


def test_a_model_makes_room_for_another_one_on_its_device_unless_somebody_uses_it(model, tmp_path: Path) -> None:
    async def used() -> tuple[int, int]:
        asked = model()
        asked.spawn("cpu")
        host = (await asked.answer(clip("who"))).value["parent"]
        (other,) = await asyncio.to_thread(answers, model("other"), "who")
        assert (await asked.answer(clip("who"))).value["parent"] == host, "it was in use"
        await asked.close()
        return host, other["parent"]

    host, other = asyncio.run(used())
    answers(model("third"), "who", device=SHARED)
    assert Path(f"/proc/{host}").exists() and Path(f"/proc/{other}").exists(), "another device has memory of its own"
    answers(model("third"), "who")
    until(lambda: ended(host, other))
    assert loads(tmp_path) == ["whole", "other", "third", "third"]


def test_a_host_to_which_nobody_is_connected_for_some_time_ends(
    plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("obedient_module", SOURCE, {"judge": "obedient"})
    monkeypatch.setattr(process, "IDLE", 0.2)
    monkeypatch.setattr(process, "LOOK", 0.05)
    (ours, theirs), (mine, connection) = socket.socketpair(), socket.socketpair()
    host = threading.Thread(target=process.serve, args=(theirs,))
    host.start()
    ours.sendall(packed(ModelRequest(RegisteredPart("judge", "obedient", {"folder": str(tmp_path)}), SHARED, "")))
    socket.send_fds(ours, [CONNECT], [connection.fileno()])
    connection.close()
    assert receive_now(mine) == Greeting()
    host.join(0.5)
    assert host.is_alive(), "somebody is connected"
    mine.close()
    host.join(60.0)
    assert not host.is_alive()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("hosts", [1.5], indirect=True)
@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_host_that_is_stopped_is_killed_named_and_started_again(
    hosts: Hosts, model, tmp_path: Path, device: str
) -> None:
    async def twice() -> list[int]:
        asked = model()
        asked.spawn(device)
        first = (await asked.answer(clip("who"))).value["pid"]  # on a CPU it is a fork of the host
        stop(first)
        second = (await asked.answer(clip("who"))).value["pid"]
        await asked.close()
        return [first, second]

    first, second = asyncio.run(asyncio.wait_for(twice(), 60))
    assert first != second
    until(lambda: ended(first))
    told = "gave no sign of life for 1.5 s and was killed: it is stopped (SIGSTOP)"
    (line,) = (line for line in (tmp_path / "models.log").read_text().splitlines() if told in line)
    assert line.startswith(f"process {first}, a fork" if device == "cpu" else f"the shared process {first} of judge")
    assert loads(tmp_path) == ["whole"] * (1 if device == "cpu" else 2) and len(hosts.notices) == (device != "cpu")


def test_nothing_is_left_when_the_command_closes_its_hosts(hosts: Hosts, model, tmp_path: Path) -> None:
    (one,), (other,) = answers(model(), "who"), answers(model(), "who", device=SHARED)
    late = model()
    hosts.close()
    until(lambda: ended(one["parent"], other["pid"]))
    with pytest.raises(UserError, match="ended 3 times"):
        late.spawn("cpu")


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_nothing_is_left_when_the_command_is_killed(plugin, tmp_path: Path, device: str) -> None:
    plugin("obedient_module", SOURCE, {"judge": "obedient"})
    program = f"""
        import asyncio, os, sys, time
        from pathlib import Path
        from tests.harness.models.hosts.test_hosts import clip, environment
        from guidebench.harness.models.hosts.client import HostedModel
        from guidebench.harness.models.hosts.keeper import Hosts
        from guidebench.harness.models.messages import RegisteredPart
        hosts = Hosts(Path({str(tmp_path / "log")!r}), environment)
        async def work():
            model = HostedModel(hosts._requests, RegisteredPart("judge", "obedient", {{"folder": {str(tmp_path)!r}}}))
            model.spawn({device!r})
            found = (await model.answer(clip("who"))).value
            print(found["pid"], found["parent"], flush=True)
            await model.answer(clip("wait"))
        asyncio.run(work())
    """
    command = programs.start("tests.programs", "python", textwrap.dedent(program), stdout=subprocess.PIPE, text=True)
    pid, parent = map(int, command.stdout.readline().split())
    until((tmp_path / "began").exists)
    command.kill()
    command.wait()
    command.stdout.close()
    until(lambda: ended(pid, *([parent] if device == "cpu" else [])))  # there it is the fork of a host
