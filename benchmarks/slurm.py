"""Requeue and cancel array jobs on a local Slurm, and compare folders with undisturbed builds.

`python -m benchmarks slurm`

The program starts munged, slurmctld and slurmd in a scratch folder, listening on 127.0.0.1, with
one node. Each folder is built by the manual's script with only its paths replaced, while array
tasks are requeued and cancelled at random. A dependent job then runs the command without `--part`.
The folder must equal that of an undisturbed build byte for byte.
"""

from __future__ import annotations

import getpass
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import notes
from benchmarks.faults import tree
from benchmarks.harness import AbsentError, Results, Table
from benchmarks.inputs import ROOT, Inputs

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "squeue")
DISTURBANCES = 6
"""Maximum number of requeued or cancelled tasks of an array."""
_PATIENCE_S = 600.0
"""Timeout of a job in seconds."""
_CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
MailProg=/bin/true
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=65536
PartitionName=all Nodes={host} Default=YES State=UP
"""
"""Configuration with one node. It declares more CPUs and memory than the machine may have, so that
the page's requests fit. Credentials expire after 5 s instead of minutes, as a requeued task waits
for that."""

_ABOUT = """
{version} with munge, one node of one machine that counts as 8 CPUs, all on 127.0.0.1. The manual's
script ran as an array of {tasks} tasks, as it stands there but for paths, while running tasks were
requeued (`scontrol requeue`) and cancelled (`scancel`) at random moments. A job with
`--dependency=afterany` then ran the command without `--part`. Counted are the tasks that were
requeued and cancelled, whether all were cancelled at last, and how many commands said that they
were terminated. Seed {seed}.
"""
_HEADER = (
    *("folder", "requeued", "cancelled", "then all"),
    *("terminated", "last exit code", "equal bytes"),
)


class Outcome(NamedTuple):
    """Outcome of the array job of a folder.

    Attributes:
        counts: Disturbance -> number of times.
        terminated: Number of commands that reported SIGTERM.
        code: Exit code of the last command, without `--part`.
        equal: Whether the folder equals that of an undisturbed build.
        unexpected: Tracebacks and error lines in the logs.
    """

    counts: Mapping[str, int]
    terminated: int
    code: int
    equal: bool
    unexpected: Sequence[str]

    def failures(self) -> list[str]:
        """Return what is wrong with the last exit code, the bytes and the logs."""
        return [
            *([f"the last exit code is {self.code}"] if self.code else []),
            *([] if self.equal else ["other bytes"]),
            *[f"a job printed `{line}`" for line in self.unexpected],
        ]


def run(
    inputs: Inputs,  # noqa: ARG001 - notes are generated
    scratch: Path,
    *,
    folders: int = 6,
    seed: int = 0,
) -> Results:
    """Build folders as array jobs.

    Args:
        inputs: Unused.
        scratch: Scratch folder.
        folders: Number of folders.
        seed: Seed of moments and tasks.

    Raises:
        AbsentError: Slurm is not installed.
    """
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        raise AbsentError(f"Slurm is not installed here; missing: {', '.join(missing)}")

    rng = random.Random(seed)
    recipe = Recipe(scratch)
    expected = recipe.in_peace()
    with cluster(scratch / "slurm"):
        version = _stdout("sbatch", "--version")
        outcomes = []
        for number in range(folders):
            outcomes.append(_disturbed(recipe, scratch / f"out-{number}", expected, rng))
            print(f"folder {number}: {outcomes[-1]}", file=sys.stderr, flush=True)
    return Results(
        about=_ABOUT.format(version=version, tasks=recipe.tasks, seed=seed),
        tables=[make_table(outcomes)],
        failures=[
            f"folder {number}: {failure}"
            for number, outcome in enumerate(outcomes, start=1)
            for failure in outcome.failures()
        ],
    )


def make_table(outcomes: Sequence[Outcome]) -> Table:
    """Make the table, a row for each folder."""
    rows = [
        (
            number,
            outcome.counts.get("requeued", 0),
            outcome.counts.get("cancelled", 0),
            "yes" if outcome.counts.get("all cancelled") else "no",
            outcome.terminated,
            outcome.code,
            "yes" if outcome.equal else "NO",
        )
        for number, outcome in enumerate(outcomes, start=1)
    ]
    return Table(header=_HEADER, rows=rows, align="rrrlrrl")


# The recipe ---------------------------------------------------------------------------------------


class Recipe:
    """The manual's script for array jobs, with replaced paths.

    Attributes:
        tasks: Number of array tasks.
    """

    def __init__(self, scratch: Path) -> None:
        """Find the script in the manual, and write a corpus and a pipeline to `scratch`.

        Raises:
            SystemExit: No page has a script for array jobs and its `sbatch` line.
        """
        manual = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
        blocks = re.findall(r"```bash\n(.*?)```", manual, re.DOTALL)
        scripts = [block for block in blocks if "$SLURM_ARRAY_TASK_ID" in block]
        array = re.search(r"sbatch --parsable --array=1-(\d+) ", manual)
        if len(scripts) != 1 or array is None:
            raise SystemExit(
                "docs: expected one bash script with $SLURM_ARRAY_TASK_ID, and its `sbatch "
                f"--parsable --array=1-N`; found {len(scripts)} scripts"
            )
        self.tasks = int(array[1])
        self._script = scripts[0]
        self._scratch = scratch

        notes.write(scratch / "NOTEEVENTS.csv", notes=2000)
        sample = ROOT / "vocab" / "sample"
        (scratch / "notes.toml").write_text(
            f'name = "notes"\n[source]\nduplicates = "keep"\nuse = "notes"\n'
            f"shares = {{ train = 0.9, test = 0.1 }}\n"
            f'[segment]\nuse = "clinical"\n[annotate]\nuse = "terms"\n'
            f'table = "{sample / "concepts.csv"}"\nlabels = ["Treatment", "Disease", "Symptom"]\n'
            "[shard]\ninput_bytes = 100_000\n",
            encoding="utf-8",
        )

    def script(self, out: Path, *, whole: bool = False) -> Path:
        """Write the script that builds a folder.

        Args:
            out: The folder.
            whole: Whether to remove `--part`, for the last job. Default: False.

        Raises:
            SystemExit: The script lacks a path to replace.
        """
        text = self._script
        for there, here in (
            ("mslm-data build", f"{sys.executable} -m mslm_data build"),
            ("--source notes.toml", f"--source {self._scratch / 'notes.toml'}"),
            ("--input notes.txt", f"--input {self._scratch / 'NOTEEVENTS.csv'}"),
            ("--tokenizer sample", f"--tokenizer {ROOT / 'vocab' / 'sample' / 'vocab.txt'}"),
            ("--out shards/notes", f"--out {out}"),
        ):
            if there not in text:
                raise SystemExit(f"docs: expected {there} in the script of array jobs")
            text = text.replace(there, here)
        if whole:
            text = re.sub(r' --part "[^"]*"', "", text)

        path = out.with_suffix(".whole.sh" if whole else ".sh")
        path.write_text(text, encoding="utf-8")
        return path

    def in_peace(self) -> str:
        """Build undisturbed, without Slurm. Returns the folder's digest."""
        out = self._scratch / "peace"
        script = self.script(out, whole=True)
        environment = os.environ | {"SLURM_CPUS_PER_TASK": "2"}
        subprocess.run(["bash", str(script)], check=True, cwd=ROOT, env=environment)
        return tree(out)


def _disturbed(recipe: Recipe, out: Path, expected: str, rng: random.Random) -> Outcome:
    """Build a folder as an array job, and requeue or cancel its tasks at random."""
    logs = out.with_suffix(".logs")
    logs.mkdir()
    options = [f"--chdir={ROOT}", f"--output={logs}/%A_%a.out", "--open-mode=append"]
    array = _stdout(
        "sbatch", "--parsable", *options, f"--array=1-{recipe.tasks}", str(recipe.script(out))
    )
    last = subprocess.Popen(
        [
            *("sbatch", "--wait", f"--dependency=afterany:{array}", *options),
            str(recipe.script(out, whole=True)),
        ],
        stdout=subprocess.DEVNULL,
    )

    counts = Counter[str]()
    max_disturbances = rng.randint(2, DISTURBANCES)
    while last.poll() is None and counts.total() < max_disturbances:
        time.sleep(rng.uniform(0.5, 3))
        running = _stdout("squeue", "-h", "-r", "-t", "R", "-j", array, "-o", "%i").split()
        if not running:
            continue
        task = rng.choice(running)
        what = rng.choices(("requeued", "cancelled", "all cancelled"), (6, 4, 1))[0]
        if what == "requeued":
            subprocess.run(["scontrol", "requeue", task], check=False)
        else:
            subprocess.run(["scancel", array if what == "all cancelled" else task], check=False)
        counts[what] += 1
        if what == "all cancelled":
            break

    code = last.wait(_PATIENCE_S)
    printed = [line for path in logs.iterdir() for line in path.read_text("utf-8").splitlines()]
    unexpected = [
        line for line in printed if re.search(r"Traceback|error:", line) and "slurm" not in line
    ]
    terminated = sum("terminated; run the same command again" in line for line in printed)
    return Outcome(counts, terminated, code, out.is_dir() and tree(out) == expected, unexpected)


# Slurm --------------------------------------------------------------------------------------------


@contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Run a local Slurm in a folder. SLURM_CONF is set until exit."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text(
        _CONF.format(host=host, user=getpass.getuser(), folder=folder, ports=_free_ports()),
        encoding="utf-8",
    )
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)

    munged = [
        *("munged", "--foreground", "--force", f"--key-file={key}"),
        f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munged.pid",
        f"--log-file={folder}/munged.log",
        f"--seed-file={folder}/munged.seed",
    ]
    os.environ["SLURM_CONF"] = str(conf)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munged, ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            with (folder / f"{command[0]}.said").open("wb") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
            time.sleep(1)
        _await_node()
        yield
    finally:
        _cancel_all()
        for process in reversed(started):
            process.terminate()
            process.wait(60)
        del os.environ["SLURM_CONF"]


def _await_node() -> None:
    deadline = time.monotonic() + 60
    while "idle" not in _stdout("sinfo", "-h", "-o", "%T"):
        if time.monotonic() > deadline:
            raise SystemExit("slurmd: expected a node that is idle, got none for a minute")
        time.sleep(0.5)


def _cancel_all() -> None:
    """Cancel all jobs, and wait up to a minute for their end."""
    subprocess.run(["scancel", "--user", getpass.getuser()], check=False)
    deadline = time.monotonic() + 60
    while _stdout("squeue", "-h") and time.monotonic() < deadline:
        time.sleep(0.5)


def _free_ports() -> list[int]:
    """Return two free local ports."""
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        return [a.getsockname()[1], b.getsockname()[1]]


def _stdout(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip()
