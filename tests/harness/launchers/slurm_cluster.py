"""A real SLURM cluster of two nodes on this host: slurmctld, two slurmd and a private munge, from Debian's packages.

A requeued task waits until its old credential has expired (setting `cred_expire`).
"""

import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import guardian
from tests.harness.launchers.scheduled import wait_until

PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}
"""Program -> the Debian package that provides it."""
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge.socket,cred_expire=10
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=60
MessageTimeout=30
EnforcePartLimits=ALL
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE MaxTime=300 State=UP
PartitionName=alone Nodes=n1,n2 PriorityTier=1 PreemptMode=REQUEUE OverSubscribe=EXCLUSIVE State=UP
PartitionName=high Nodes=n1,n2 PriorityTier=9 PreemptMode=OFF MaxTime=300 State=UP
PartitionName=closed Nodes=n1 AllowAccounts=others State=UP
"""


def _ports(count: int) -> list[int]:
    """Return free ports below the range that the system assigns to connections: a daemon that is restarted minutes
    later must find its port free again."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            ports += [port] if port not in ports else []
    return ports


class Cluster:
    """The running cluster; `environment` makes SLURM's commands use it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = {"SLURM_CONF": str(place / "slurm.conf")}
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        with open(self.place / f"{name}.out", "ab") as out:
            env = {**os.environ, **self.environment}
            self._started[name] = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)

    def start_node(self, node: str) -> None:
        config = self.place / "slurm.conf"
        stepd = shutil.which("slurmstepd", path="/usr/sbin:/usr/lib/slurm") or "/usr/sbin/slurmstepd"
        self.start(node, _program("slurmd"), "-D", "-N", node, "-f", str(config), "-d", stepd)

    def call(self, *command: str) -> str:
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def states(self) -> list[str]:
        return self.call("sinfo", "-h", "-N", "-p", "low", "-o", "%T").split()

    def mend(self) -> bool:
        """Return whether both nodes are idle. Restart a daemon that has ended, and resume a node that is down or
        drained, as an administrator would."""
        states = dict(zip(("n1", "n2"), self.states(), strict=True))
        for node, state in states.items():
            if self._started[node].poll() is not None:
                self.start_node(node)
            elif state.startswith(("down", "drain")):
                with contextlib.suppress(AssertionError):  # refused for a node that has not registered yet
                    self.call("scontrol", "update", f"NodeName={node}", "State=RESUME")
        return [*states.values()] == ["idle", "idle"]

    def queue(self) -> list[str]:
        """Return the id and the state of each task, such as "17_3 PENDING"."""
        return self.call("squeue", "-h", "-r", "-o", "%i %T").splitlines()

    def hasten(self) -> None:
        """Let requeued tasks begin soon: after one second, since a node refuses a credential made in the second in
        which it revoked the previous one."""
        pending = [line.split()[0] for line in self.queue() if "PENDING" in line]
        if pending:
            time.sleep(1.1)
        for task in pending:
            with contextlib.suppress(AssertionError):  # it has begun meanwhile
                self.call("scontrol", "update", f"JobId={task}", "StartTime=now")

    def hold(self) -> None:
        """Let no task in the partition `low` begin."""
        self.call("scontrol", "update", "PartitionName=low", "State=DOWN")

    def go_on(self) -> None:
        self.call("scontrol", "update", "PartitionName=low", "State=UP")

    def empty(self) -> None:
        """End all tasks and wait for two idle nodes, for the next test. Restart the cluster where SLURM does not get
        there."""
        try:
            self.go_on()
            for line in self.queue():
                self.call("scancel", "--signal=KILL", "--full", line.split()[0])
                self.call("scancel", line.split()[0])
            wait_until(
                lambda: self.mend() and not self.queue(),
                moves=lambda: (self.queue(), self.states()),
                describe=self.report,
            )
        except AssertionError as error:
            print(f"the cluster is made anew, since a test left it so: {error}")
            self.end()
            self.begin()

    def report(self) -> str:
        """Return SLURM's description of its nodes and jobs, and the last lines of its logs."""
        reports = []
        for kind in ("node", "job"):
            with contextlib.suppress(AssertionError):
                reports.append(self.call("scontrol", "show", kind))
        return "\n\n".join([*reports, self.logs()])

    def logs(self) -> str:
        paths = sorted([*self.place.glob("slurm*.log"), *self.place.glob("*.out")])
        ends = (path.read_text(errors="replace").splitlines()[-60:] for path in paths)
        return "\n\n".join(f"{path.name}:\n" + "\n".join(lines) for path, lines in zip(paths, ends, strict=True))

    def begin(self) -> None:
        for folder in ("state", "spool-n1", "spool-n2"):
            shutil.rmtree(self.place / folder, ignore_errors=True)
            (self.place / folder).mkdir()
        (self.place / "munge.key").write_bytes(os.urandom(128))
        (self.place / "munge.key").chmod(0o600)
        text = CONFIG.format(host=socket.gethostname(), ports=_ports(3), user=getpass.getuser(), place=self.place)
        (self.place / "slurm.conf").write_text(text)
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        options = [f"--{option}={self.place}/munge.{end}" for option, end in files.items()]
        self.start("munged", _program("munged"), "--foreground", "--force", *options)
        wait_until((self.place / "munge.socket").exists, describe=self.logs)
        self.start("slurmctld", _program("slurmctld"), "-D", "-f", str(self.place / "slurm.conf"))
        for node in ("n1", "n2"):
            self.start_node(node)

        def up() -> bool:
            try:
                return self.states() == ["idle", "idle"]
            except AssertionError:
                return False

        wait_until(up, describe=self.logs)

    def end(self) -> None:
        """End the daemons and the tasks that they leave behind."""
        for name in ("n1", "n2", "slurmctld", "munged"):
            if (process := self._started.get(name)) is not None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
        guardian.end(f"SLURM_CONF={self.place}/")
        for process in self._started.values():
            process.wait()
        (self.place / "munge.socket").unlink(missing_ok=True)

    def kill_node(self, node: str, *workers: int) -> None:
        """Kill a node's daemon and the tasks of `workers`, as a power failure does. The tasks' own daemons are killed
        first, or they would still report that their tasks were killed."""
        self._started[node].kill()
        self._started[node].wait()
        for worker in workers:
            script = parent(worker)
            children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
            for process in (parent(script), script, worker, *map(int, children)):
                os.kill(process, signal.SIGKILL)


def parent(process: int) -> int:
    """Return the id of the parent of a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert path is not None
    return path


def missing_packages() -> list[str]:
    """Return the packages that this host lacks for a cluster."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return [package for program, package in PACKAGES.items() if shutil.which(program, path=path) is None]


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Run a cluster. Its directory has a short name because the paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as place:
        Path(place).chmod(0o755)
        slurm = Cluster(Path(place))
        try:
            slurm.begin()
            yield slurm
        finally:
            slurm.end()
