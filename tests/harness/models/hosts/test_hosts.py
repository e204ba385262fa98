"""Real model hosts: many askers share one loaded model, errors are those of a model loaded by the asker, and hosts
end."""

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

from guidebench.harness.heartbeats import SILENT_AFTER
from guidebench.harness.models.calls import Failure, JudgeCall, Usage
from guidebench.harness.models.hosts import client, process
from guidebench.harness.models.hosts.client import HostedModel
from guidebench.harness.models.hosts.keeper import Hosts
from guidebench.harness.models.hosts.wire import CONNECT, ModelRequest, packed, receive_now
from guidebench.harness.models.messages import RegisteredPart
from tests import programs
from tests.harness.launchers.scheduled import wait_until
from tests.harness.stopping import stop
from tests.refusals import check_refused

# A judge that does what the prompt says; each load appends a line to a file.
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
        '''A model of this machine that does what the prompt says.'''
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
            prompt, flag = call.prompt, Path(self.folder) / "flag"
            if prompt == "who":
                visible = os.environ["CUDA_VISIBLE_DEVICES"]
                return Reply({"pid": os.getpid(), "parent": os.getppid(), "visible": visible})
            if prompt == "mean":
                return Reply(call.clip.astype(float).mean((1, 2, 3)), Usage(1, seconds=2.5), {"mass": 0.5})
            if prompt == "fail":
                raise Failure("rate_limited", "come later", Usage(1, seconds=2.0), 7.5)
            if prompt == "refuse":
                raise UserError("such calls are not answered")
            if prompt == "raise":
                raise ValueError("a mistake")
            if prompt == "die" or (prompt == "die once" and not flag.exists()):
                flag.touch()
                os._exit(9)
            if prompt == "lambda":
                return Reply(lambda: 0)
            if prompt == "wait":
                (Path(self.folder) / "began").touch()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    (Path(self.folder) / "cancelled").touch()
                    raise
            if prompt == "meet":  # answers when two such calls wait at the same time
                TOGETHER.append(prompt)
                while len(TOGETHER) < 2:
                    await asyncio.sleep(0.01)
                return Reply(os.getpid())
            return Reply(1.0)

        async def close(self): ...

    TOGETHER = []
"""
SHARED = "elsewhere"
"""A device other than the CPU, so that one event loop answers all calls; the model above ignores it."""
GPUS = "5,6"
"""GPUs that the command may use."""


def clip(prompt: str) -> JudgeCall:
    return JudgeCall(np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3), prompt)


def environment(gpus: str | None) -> dict[str, str]:
    return {**os.environ, "CUDA_VISIBLE_DEVICES": GPUS if gpus is None else gpus}


@pytest.fixture
def hosts(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Hosts]:
    """Return the hosts of a command; the fixture's parameter is the seconds without a beat after which a host counts as
    hung."""
    plugin("obedient_module", SOURCE, {"judge": "obedient"})
    monkeypatch.setattr(client, "PAUSE", 0.1)
    command_hosts = Hosts(tmp_path / "models.log", environment, getattr(request, "param", SILENT_AFTER))
    yield command_hosts
    with contextlib.suppress(OSError):  # the test has closed it
        command_hosts.close()


@pytest.fixture
def model(hosts: Hosts, tmp_path: Path) -> Callable[..., HostedModel]:
    """Return a function: `model("whole")` is an asker's model that is not connected yet."""

    def make(name: str = "whole", **settings: Any) -> HostedModel:
        part = RegisteredPart("judge", "obedient", {"model": name, "folder": str(tmp_path), **settings})
        return HostedModel(hosts._requests, part)

    return make


def answers(model: HostedModel, *prompts: str, device: str = "cpu") -> list[Any]:
    """Return the values of the answers to prompts, asked one after the other on one connection that is then closed."""

    async def ask() -> list[Any]:
        model.spawn(device)
        try:
            return [(await model.answer(clip(prompt))).value for prompt in prompts]
        finally:
            await model.close()

    return asyncio.run(ask())


def loads(tmp_path: Path) -> list[str]:
    return (tmp_path / "loads").read_text().split()


def have_ended(*pids: int) -> bool:
    """Return whether none of these processes exists any more."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def hosts_of(log: Path) -> list[int]:
    """Return the ids of the processes that print into a log: hosts first, then their forks."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended
            if os.readlink(folder / "fd" / "1") == str(log):
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return sorted(parents, key=lambda pid: parents[pid] in parents)


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
        for asker in askers:
            asker.spawn(device)
        replies = await asyncio.wait_for(asyncio.gather(*(asker.answer(clip(prompt)) for asker in askers)), 600)
        for asker in askers:
            await asker.close()
        return [reply.value for reply in replies]

    first, second = asyncio.run(two("who", "cpu"))
    assert first["parent"] == second["parent"] and len({first["pid"], second["pid"], first["parent"]}) == 3
    first, second = asyncio.run(two("who", SHARED))
    assert first == second
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
    async def ask() -> Any:
        hosted_model = model()
        hosted_model.spawn(device)
        assert hosted_model.estimate(clip("mean")) == Usage(1, images=2)
        reply = await hosted_model.answer(clip("mean"))
        assert hosted_model.estimate(clip("mean")) == Usage(1, images=2, seconds=2.5)
        await hosted_model.close()
        return reply

    reply = asyncio.run(ask())
    assert np.array_equal(reply.value, clip("").clip.astype(float).mean((1, 2, 3)))
    assert reply.usage == Usage(1, seconds=2.5) and reply.detail == {"mass": 0.5}


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_what_goes_wrong_with_a_call_is_told_as_by_a_model_of_the_asker(model, device: str) -> None:
    with pytest.raises(Failure, match="come later") as raised:
        answers(model(), "fail", device=device)
    failure = raised.value
    assert (failure.kind, failure.usage, failure.retry_after) == ("rate_limited", Usage(1, seconds=2.0), 7.5)
    check_refused(r"^such calls are not answered$", answers, model(), "refuse", device=device)
    with pytest.raises(RuntimeError, match=r"judge 'obedient'(?s:.*)ValueError: a mistake"):
        answers(model(), "raise", device=device)
    with pytest.raises(RuntimeError, match="lambda"):
        answers(model(), "lambda", device=device)


def test_a_model_that_cannot_be_loaded_is_the_same_error_for_each_asker_and_tried_again_by_the_next(
    model, tmp_path: Path
) -> None:
    for _ in range(2):
        check_refused(r"^model=broken holds no weights$", answers, model("broken"), "who")
    with pytest.raises(RuntimeError, match="KeyError: 'no such layer'"):
        answers(model("raises"), "who")
    check_refused(r"ended 3 times without an answer; logs/models\.log", answers, model("dies"), "who")
    tried = loads(tmp_path)
    assert 1 <= tried.count("dies") <= 3, "a connection to a process that is ending counts too"
    (tmp_path / "loads").unlink()
    wait_until(lambda: not hosts_of(tmp_path / "models.log"))
    check_refused("holds no weights", answers, model("broken"), "who")
    assert loads(tmp_path) == ["broken"]


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_call_is_answered_though_the_process_dies_once_and_an_error_if_it_always_does(
    model, tmp_path: Path, device: str
) -> None:
    assert answers(model(), "mean", "die once", "who", device=device)[1] == 1.0
    check_refused("ended 3 times without an answer", answers, model(), "die", device=device)


def test_a_host_killed_between_calls_is_followed_by_another(model, tmp_path: Path) -> None:
    async def ask_twice() -> tuple[Any, Any]:
        hosted_model = model()
        hosted_model.spawn("cpu")
        before = (await hosted_model.answer(clip("who"))).value
        os.kill(before["parent"], signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: have_ended(before["pid"]))  # a fork ends with its host
        after = (await hosted_model.answer(clip("who"))).value
        await hosted_model.close()
        return before, after

    before, after = asyncio.run(ask_twice())
    assert before["parent"] != after["parent"] and loads(tmp_path) == ["whole"] * 2


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_call_that_is_no_longer_wanted_is_cancelled_and_the_others_go_on(model, tmp_path: Path, device: str) -> None:
    async def given_up() -> Any:
        hosted_model = model()
        hosted_model.spawn(device)
        waiting = asyncio.create_task(hosted_model.answer(clip("wait")))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.02)
        waiting.cancel()
        reply = await hosted_model.answer(clip("yes"))
        while not (tmp_path / "cancelled").exists():
            await asyncio.sleep(0.02)
        await hosted_model.close()
        return reply.value

    assert asyncio.run(asyncio.wait_for(given_up(), 60)) == 1.0


@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_calls_of_an_asker_that_has_ended_are_dropped(model, tmp_path: Path, device: str) -> None:
    async def close_while_waiting() -> None:
        hosted_model = model()
        hosted_model.spawn(device)
        task = asyncio.create_task(hosted_model.answer(clip("wait")))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.02)
        await hosted_model.close()
        task.cancel()

    asyncio.run(asyncio.wait_for(close_while_waiting(), 60))
    wait_until((tmp_path / "cancelled").exists)
    assert answers(model(), "yes", device=device) == [1.0]


def test_a_model_makes_room_for_another_one_on_its_device_unless_somebody_uses_it(model, tmp_path: Path) -> None:
    async def use_two_models() -> tuple[int, int]:
        hosted_model = model()
        hosted_model.spawn("cpu")
        host = (await hosted_model.answer(clip("who"))).value["parent"]
        (other,) = await asyncio.to_thread(answers, model("other"), "who")
        assert (await hosted_model.answer(clip("who"))).value["parent"] == host, "a host in use is not ended"
        await hosted_model.close()
        return host, other["parent"]

    host, other = asyncio.run(use_two_models())
    answers(model("third"), "who", device=SHARED)
    assert Path(f"/proc/{host}").exists() and Path(f"/proc/{other}").exists(), "another device has memory of its own"
    answers(model("third"), "who")
    wait_until(lambda: have_ended(host, other))
    assert loads(tmp_path) == ["whole", "other", "third", "third"]


def test_a_host_to_which_nobody_is_connected_for_some_time_ends(
    plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("obedient_module", SOURCE, {"judge": "obedient"})
    monkeypatch.setattr(process, "IDLE", 0.2)
    monkeypatch.setattr(process, "LOOK", 0.05)
    (command_end, host_end), (asker_end, connection) = socket.socketpair(), socket.socketpair()
    host = threading.Thread(target=process.serve, args=(host_end,))
    host.start()
    command_end.sendall(
        packed(ModelRequest(RegisteredPart("judge", "obedient", {"folder": str(tmp_path)}), SHARED, ""))
    )
    socket.send_fds(command_end, [CONNECT], [connection.fileno()])
    connection.close()
    assert receive_now(asker_end) is None
    host.join(0.5)
    assert host.is_alive(), "an asker is still connected"
    asker_end.close()
    host.join(60.0)
    assert not host.is_alive()
    command_end.close()
    host_end.close()


@pytest.mark.parametrize("hosts", [1.5], indirect=True)
@pytest.mark.parametrize("device", ["cpu", SHARED])
def test_a_host_that_is_stopped_is_killed_named_and_started_again(
    hosts: Hosts, model, tmp_path: Path, device: str
) -> None:
    async def twice() -> list[int]:
        hosted_model = model()
        hosted_model.spawn(device)
        first = (await hosted_model.answer(clip("who"))).value["pid"]  # on a CPU it is a fork of the host
        stop(first)
        second = (await hosted_model.answer(clip("who"))).value["pid"]
        await hosted_model.close()
        return [first, second]

    first, second = asyncio.run(asyncio.wait_for(twice(), 60))
    assert first != second
    wait_until(lambda: have_ended(first))
    reason = "gave no sign of life for 1.5 s and was killed: it is stopped (SIGSTOP)"
    (line,) = (line for line in (tmp_path / "models.log").read_text().splitlines() if reason in line)
    assert line.startswith(f"process {first}, a fork" if device == "cpu" else f"the shared process {first} of judge")
    assert loads(tmp_path) == ["whole"] * (1 if device == "cpu" else 2) and len(hosts.notices) == (device != "cpu")


def test_nothing_is_left_when_the_command_closes_its_hosts(hosts: Hosts, model, tmp_path: Path) -> None:
    (fork,), (shared,) = answers(model(), "who"), answers(model(), "who", device=SHARED)
    late = model()
    hosts.close()
    wait_until(lambda: have_ended(fork["parent"], shared["pid"]))
    check_refused("ended 3 times", late.spawn, "cpu")


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
            pids = (await model.answer(clip("who"))).value
            print(pids["pid"], pids["parent"], flush=True)
            await model.answer(clip("wait"))
        asyncio.run(work())
    """
    command = programs.start("tests.programs", "python", textwrap.dedent(program), stdout=subprocess.PIPE, text=True)
    pid, parent = map(int, command.stdout.readline().split())
    wait_until((tmp_path / "began").exists)
    command.kill()
    command.wait()
    command.stdout.close()
    wait_until(lambda: have_ended(pid, *([parent] if device == "cpu" else [])))
