"""A short training as a process of its own, and what is the same for all faults in it."""
import itertools, json, os, pathlib, re, shutil, subprocess, tempfile, time

source = pathlib.Path(os.environ.get("MN_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
build = pathlib.Path(os.environ.get("MN_BUILD_DIR", source / "build"))
tests = build / "tests"
work = pathlib.Path(tempfile.mkdtemp(prefix="mn-faults-", dir="/dev/shm"))
failures, trials = [], 0
ITERATIONS, EVERY, RANKS = 9, 3, 2
part, parts = (int(word) for word in os.environ.get("MN_FAULTS_PART", "0/1").split("/"))  # of the trials: --jobs
first = int(os.environ.get("MN_FAULTS_FIRST", "0"))
end = time.monotonic() + float(os.environ.get("MN_FAULTS_SECONDS", "inf"))


def has_time():
    return time.monotonic() < end


def own(items):
    """Those of the trials that this process is to do, while there is time."""
    return itertools.takewhile(lambda _: has_time(), itertools.islice(items, first + part, None, parts))


TIMEOUT = int(os.environ.get("MN_TEST_TIMEOUT", "120"))  # seconds of a training; more beside much other work


def start(out, ranks=RANKS, iterations=ITERATIONS, every=EVERY, step_ms=0, way="", program=None, timeout=TIMEOUT, **variables):
    """A training as a process of its own; variables are those of preload.cpp, without MN_FAULT_."""
    environment = dict(os.environ, MN_DEVICE="cpu", MN_TEST_TIMEOUT=str(timeout))
    if variables:
        environment["LD_PRELOAD"] = str(tests / "libmn_failing_calls_preload.so")
        environment.update({f"MN_FAULT_{name}": str(value) for name, value in variables.items()})
        environment.setdefault("MN_FAULT_FOLDER", str(out))
        if "RECORD" in variables:
            environment["MN_STATUS_FILE"] = str(variables["FOLDER"] / "status")
    arguments = program or [tests / "small_training", out, iterations, every, step_ms] + ([way] if way else [])
    return subprocess.Popen([source / "tests/support/mpiexec", str(ranks)] + [str(a) for a in arguments], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")


class Run:
    """One that has ended."""
    def __init__(self, *arguments, **options):
        begin = time.monotonic()
        process = start(*arguments, **options)
        self.out, self.err = process.communicate()
        self.status, self.seconds = process.returncode, time.monotonic() - begin
        found = re.search(r"weights (\d+)", self.out)
        self.weights = found and found[1]
        self.lines = [line for line in self.err.splitlines() if line.startswith("mn: rank ")]


def check(what, good, *details):
    global trials
    trials += 1
    if not good:
        failures.append(what)
        print("FAILED:", what, *details, sep="\n  ", flush=True)


def fresh(name="out"):
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def undisturbed(**options):
    """The weights of a training without faults, and the number of calls of each rank."""
    out = fresh()
    run = Run(out, COUNT=work / "count", **options)
    assert run.status == 0 and run.weights, run.err
    return run.weights, [int((work / f"count.{rank}").read_text()) for rank in range(options.get("ranks", RANKS))]


def verify(what, out):
    if not (out / "ckpt").exists():
        return
    seen = subprocess.run([build / "mncheck", "verify", out], capture_output=True, text=True)
    check(what, seen.returncode == 0 or "there is no checkpoint in" in seen.stderr, seen.stdout, seen.stderr)


def reports(what, out):
    """The log's entries: what a reader sees is JSON, whatever has failed."""
    try:
        return json.loads((out / "log").read_text()) if (out / "log").exists() else []
    except ValueError as error:
        check(f"{what}: the log", False, error, (out / "log").read_text())
        return []


def best_is_right(what, out, saves_failed):
    """OUT/snapshot_best leads to the checkpoint of the best report, or of another where saves have failed."""
    entries = reports(what, out)
    if not entries:
        return
    best = min(entries, key=lambda entry: entry["main/loss"])["iteration"]
    link = out / "snapshot_best"
    seen = os.readlink(link) if link.is_symlink() else "none"
    is_best = seen == f"ckpt/step-{best:08}" or (saves_failed and re.fullmatch(r"ckpt/step-\d{8}", seen))
    check(f"{what}: the best", is_best and (link / "manifest.json").exists(), seen, best, entries)


def ends_well(what, out, weights, saves_failed=False, **options):
    run = Run(out, **options)
    check(what, run.status == 0 and run.weights == weights, run.status, run.weights, run.err)
    best_is_right(what, out, saves_failed)
