"""Processes that end, stand still, or are told to stop."""
import os, pathlib, random, re, signal, subprocess, sys, time

from training import Run, check, fresh, has_time, own, part, parts, start, tests, undisturbed, verify


def pids(out):
    """(rank, pid) of the ranks that write to `out`."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/small_training") and words[1] == bytes(out):
                yield int(re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", (folder / "environ").read_bytes())[1]), int(folder.name)
        except (OSError, IndexError, TypeError):
            continue


def send_to_one(process, out, choose, most):
    """A signal to one of the ranks, up to `most` seconds after they are there; whether there was one."""
    while not list(pids(out)) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(random.uniform(0, most))
    try:
        os.kill(random.choice(list(pids(out)))[1], choose())
        return True
    except (IndexError, ProcessLookupError):
        return False


def is_unfinished(checkpoint):
    return checkpoint.name.startswith(".") or not (checkpoint / "manifest.json").exists()


def sends(number, choose):
    """Trainings that are started until they end; each start but the fifth may get a signal, at any time of its life."""
    how = dict(iterations=40, every=1, step_ms=20)
    begin = time.monotonic()
    weights, _ = undisturbed(**how)
    life = time.monotonic() - begin
    sent, starts, in_saves = 0, 0, 0
    while sent < len(range(part, number, parts)) and has_time():
        out = fresh()
        for attempt in range(5):
            process = start(out, **how)
            starts += 1
            sent += attempt < 4 and send_to_one(process, out, choose, life)
            output, err = process.communicate()
            if process.returncode == 0:
                break
            in_saves += any(map(is_unfinished, out.glob("ckpt/*")))
            verify(f"interrupted after {sent} signals", out)
        found = re.search(r"weights (\d+)", output)
        check(f"the end after {sent} signals", found and found[1] == weights, f"status {process.returncode}", output, err)
    print(f"{sent} signals in {starts} starts, {in_saves} left a save unfinished", flush=True)


def any_kill(number=100):
    sends(number, lambda: signal.SIGKILL)


def signals(number=20):
    sends(number, lambda: random.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP]))


def walltime(number=20):
    """The job's time is over some seconds after it begins; mn keeps ten for the end."""
    how = dict(iterations=60, every=1000, step_ms=100)
    weights, _ = undisturbed(**how)
    ends, spare = 0, []
    while ends < number:
        out = fresh()
        while True:
            end = int(time.time()) + random.randint(12, 17)
            os.environ["MN_END_TIME"] = str(end)
            run = Run(out, **how)
            if run.status != 75:
                break
            ends += 1
            spare.append(end - time.time())
            check("an end before the time is over", spare[-1] > 0, run.err)
        check(f"the end after {ends} time limits", run.weights == weights, run.status, run.err)
    del os.environ["MN_END_TIME"]
    print(f"{ends} time limits; {min(spare):.1f} s of the ten were left at least", flush=True)


def clock(number=10):
    """The clock of one rank or of all jumps by hours, forth or back."""
    how = dict(iterations=40, every=5, step_ms=50)
    weights, _ = undisturbed(**how)
    for trial in own(range(number)):
        jump = random.choice([-1, 1]) * random.randint(1000, 10**6)
        which = dict(RANK=trial % 2) if trial % 3 else {}
        run = Run(fresh(), CLOCK_JUMP=jump, CLOCK_AFTER=random.uniform(0, 3), **which, **how)
        check(f"a clock that jumps by {jump} s", run.status == 0 and run.weights == weights and not run.lines, run.err)


def ends(number=50):
    for how in ("exit", "segv", "kill"):
        named, gone = [], []
        for trial in own(range(number)):
            stamp = fresh("stamp")
            os.environ["MN_FAILING_STAMP"] = str(stamp)
            process = start(None, ranks=4, program=[tests / "failing_job", how, str(trial % 4)], timeout=60)
            line = next((line for line in process.stderr if line.startswith("mn: rank ")), "")
            named.append(time.time() - stamp.stat().st_mtime)
            process.communicate()
            gone.append(time.time() - stamp.stat().st_mtime)
            check(f"{how} of rank {trial % 4}", f"rank {trial % 4} " in line and named[-1] <= 2 and gone[-1] <= 10, line, named[-1], gone[-1])
        if named:
            print(f"{how}: named in {max(named):.2f} s, gone in {max(gone):.2f} s at most of {len(named)}", flush=True)


def is_gone(pid):
    """Whether all threads of a process have ended: until then its connections and locks stay."""
    try:
        return ") Z " in pathlib.Path(f"/proc/{pid}/stat").read_text() and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


def busy_processes():
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]


def saving(number=10):
    load, longest = busy_processes(), 0
    try:
        for trial in own(range(number)):
            out = fresh()
            process = start(out, ranks=1, iterations=10**6, every=1, step_ms=5)
            while not list(out.glob("ckpt/*")) and process.poll() is None:
                time.sleep(0.05)
            time.sleep(random.uniform(0, 1))
            pid = next(pids(out))[1]
            os.kill(pid, signal.SIGKILL)
            begin = time.monotonic()
            while not is_gone(pid) and time.monotonic() - begin < 20:
                time.sleep(0.005)
            longest = max(longest, time.monotonic() - begin)
            check(f"SIGKILL {trial} beside a save: gone", time.monotonic() - begin <= 2, time.monotonic() - begin)
            process.communicate()
    finally:
        for each in load:
            each.kill()
    print(f"gone in {longest:.2f} s at most", flush=True)


def hangs():
    for way, is_over in (("stop", True), ("sleep", False), ("collective", True)):  # an extension may take 600 s
        out, begin = fresh(), time.monotonic()
        process = start(out, ranks=3, way=way, iterations=20, timeout=150)
        line = next((line for line in process.stderr if "rank 2 on" in line or "answer from 2" in line), "")
        seconds = time.monotonic() - begin
        if not is_over:
            time.sleep(20)
            check(f"a rank that does {way} is waited for", process.poll() is None, line)
            for _, pid in pids(out):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
        print(f"{way}: named after {seconds:.0f} s with the start: {line.strip()}", flush=True)
        check(f"a rank that does {way}", line and seconds <= 80 and process.returncode != 0, line, process.returncode)


def pauses(seconds=60):
    load, out = busy_processes(), fresh()
    process = start(out, ranks=3, iterations=10**6, every=50, step_ms=20, timeout=seconds + 60)
    try:
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end and process.poll() is None:
            time.sleep(random.uniform(0.5, 2))
            alive = list(pids(out))
            if alive:
                pid = random.choice(alive)[1]
                os.kill(pid, signal.SIGSTOP)
                time.sleep(random.uniform(0.1, 5))
                os.kill(pid, signal.SIGCONT)
                count += 1
        check(f"{count} pauses in {seconds} s", process.poll() is None, process.poll())
        for _, pid in pids(out):
            os.kill(pid, signal.SIGTERM)
        _, err = process.communicate()
        print(f"{count} pauses in {seconds} s; the job ended with {process.returncode}", flush=True)
        check("a checkpoint at the end", process.returncode == 75 and "make no progress" not in err, err)
    finally:
        for each in load:
            each.kill()
