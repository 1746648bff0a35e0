"""Runs programs side by side, each within a limit, whatever they do."""
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field

GRACE_S = 8  # mpiexec ends its ranks, then itself


@dataclass
class Job:
    """A program with its arguments, environment and cost in slots (ranks)."""
    name: str
    argv: list
    env: dict = field(default_factory=dict)
    slots: int = 1
    limit_s: float = 1e9


@dataclass
class End:
    """How a job ended: its exit status (None: ended by its limit, or never begun), seconds, output."""
    job: Job
    status: int
    seconds: float
    output: str

    @property
    def reason(self):
        if self.status is None:
            return "ran past its limit" if self.seconds > 0 else "no time was left"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


class _Running:
    def __init__(self, job, folder, cwd, limit_s):
        self.job = job
        self.path = os.path.join(folder, job.name + ".log")
        self.begin = time.monotonic()
        self.deadline = self.begin + limit_s
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(job.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            cwd=cwd, env={**os.environ, **job.env}, start_new_session=True)
        self.ended_by_us = False

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        self.ended_by_us = True
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            pass
        self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        with open(self.path, errors="replace") as log:
            output = log.read()
        status = None if self.ended_by_us else self.process.returncode
        return End(self.job, status, time.monotonic() - self.begin, output)


def run_jobs(jobs, folder, cwd, limit_s, slots=1):
    """Runs all, as many at a time as there are slots, within `limit_s` in total; their output goes to folder/NAME.log.
    Returns their ends in the order of the jobs."""
    deadline = time.monotonic() + limit_s
    waiting, running, ends = list(jobs), [], {}
    try:
        while waiting or running:
            used = sum(each.job.slots for each in running)
            while waiting and time.monotonic() < deadline and (not running or used + waiting[0].slots <= slots):
                job = waiting.pop(0)
                try:
                    running.append(_Running(job, folder, cwd, min(job.limit_s, deadline - time.monotonic())))
                    used += job.slots
                except OSError as error:
                    ends[job.name] = End(job, 127, 0, f"{job.argv[0]}: {error.strerror}")
            for each in list(running):
                if each.process.poll() is None and time.monotonic() >= each.deadline:
                    each.stop()
                if each.process.poll() is not None:
                    ends[each.job.name] = each.end()
                    running.remove(each)
            if time.monotonic() >= deadline and not running:
                for job in waiting:
                    ends[job.name] = End(job, None, 0, "")
                waiting = []
            time.sleep(0.02)
    finally:
        for each in running:
            each.stop()
    return [ends[job.name] for job in jobs]
