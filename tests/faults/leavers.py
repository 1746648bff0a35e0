"""Ranks that leave main, or take their time alone, among signals and kills: one right line, or no effect."""
import itertools, os, random, re, signal, threading, time

from processes import pids
from training import Run, check, ends_well, fresh, own, start, undisturbed

HOW = dict(iterations=12, every=3, step_ms=20)
# What the last rank does after some iteration, and the line that follows; rank 0 alone in the ways without one.
LINES = {
    "leave": r"rank {0} has left main \(status 0\) while ranks? [\d,-]+ waits? in \w+ \((call \d+|a message)\): ",
    "leave-first": r"rank {0} has left main \(status 0\) while ranks? [\d,-]+ waits? in \w+ \(call \d+\): ",
    "exit0": r"rank {0} has called exit\(0\) while ranks? [\d,-]+ waits? in \w+ \((call \d+|a message)\): ",
    "exit3": r"rank {0} \(host \S+\): exit\(3\) was called on this rank, and not on every other",
    "_exit": r"lost rank {0} on host \S+: its process died",
    "text": r"rank {0} \(host \S+\): uncaught text: enough",
    "kill": r"lost rank {0} on host \S+: its process died",
    "collective": r"make no progress .*these calls never meet|makes no progress .*these calls never meet",
    "validate": None,
    "rank0": None,
    "late": None,
}
SIGNALS = {signal.SIGKILL: r"lost rank {0} on host \S+: its process died", signal.SIGTERM: None, signal.SIGUSR1: None}


def send_later(process, out, number, ranks, sent):
    """A signal to some rank at some time of its training; `sent` gets the rank and the time."""
    while not (out / "log").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(random.uniform(0, 2))
    there, rank = dict(pids(out)), random.randrange(ranks)
    try:
        os.kill(there[rank], number)
        sent.extend([rank, time.time()])
    except (KeyError, ProcessLookupError):
        pass


def verdict(way, ranks, number, sent, status, lines, weights, found, stamp, gone, most_s):
    """What is wrong; empty: nothing."""
    over = [line for line in lines if not line.endswith("the job goes on")]
    if status == 75:
        return "" if sent and not over else "it asked for a requeue"
    if sent and found == weights and not over:
        return ""  # the signal came when the training had ended
    if sent and sent[0] == ranks - 1 and stamp.exists() and status == 128 + number and len(over) <= 1:
        return ""  # it came when the rank had left: no Trainer takes it then, and its process dies
    if status == 0:
        may = LINES[way] is None or not stamp.exists()
        return "" if may and not over and found == weights else f"status 0, weights {found} for {weights}"
    patterns = [LINES[way].format(ranks - 1)] if LINES[way] else []
    if sent and SIGNALS[number]:
        patterns.append(SIGNALS[number].format(sent[0]))
    if len(over) != 1 or not any(re.search(pattern, over[0]) for pattern in patterns):
        return f"{len(over)} lines, none of {patterns}"
    begin = max(sent[1:] + ([stamp.stat().st_mtime] if stamp.exists() else []))
    return "" if gone - begin <= most_s else f"gone {gone - begin:.0f} s later"


def sharded(number=60, most_s=10):
    """The last rank ends within a step of a sharded training, while the others gather, reduce or update: one right line.
    The next start ends as an undisturbed training without sharding."""
    how = dict(iterations=6, every=1)
    weights = {ranks: Run(fresh(), ranks=ranks, **how).weights for ranks in (2, 3, 4)}
    ways = ("text", "kill", "exit3", "_exit", "leave", "exit0")
    trials = [(way, place, shard) for way in ways for place in ("forward", "backward", "update")
              for shard in ("parameters", "gradients", "optimizer")]
    random.shuffle(trials)
    try:
        for way, place, shard in own(itertools.islice(itertools.cycle(trials), number)):
            ranks, out, stamp = random.randint(2, 4), fresh(), fresh("stamp")
            stamp.unlink(missing_ok=True)
            os.environ.update(MN_FAULTS_SHARD=shard, MN_FAILING_STAMP=str(stamp), MN_HANG_SECONDS="1")
            process = start(out, ranks=ranks, way=f"{way}@{random.randint(0, 2)}:{place}", **how)  # all have samples
            _, err = process.communicate()
            gone = time.time() - stamp.stat().st_mtime if stamp.exists() else 0
            lines = [line for line in err.splitlines() if line.startswith("mn: rank ") and not line.endswith("the job goes on")]
            what = f"{way} in {place} of {ranks} ranks with --shard {shard}"
            check(what, process.returncode != 0 and len(lines) == 1 and gone <= most_s and
                  re.search(LINES[way].format(ranks - 1), lines[0]), f"status {process.returncode}, {gone:.0f} s", err)
            ends_well(f"the start after {what}", out, weights[ranks], ranks=ranks, **how)
    finally:
        for name in ("MN_FAULTS_SHARD", "MN_FAILING_STAMP", "MN_HANG_SECONDS"):
            os.environ.pop(name, None)


def leavers(number=100, most_s=10):
    """MN_HANG_SECONDS 1: a call that ranks lack may take 1 s, what a rank does alone 10 s. All are gone in `most_s`."""
    weights = {ranks: undisturbed(ranks=ranks, **HOW)[0] for ranks in (2, 3, 4)}
    os.environ["MN_HANG_SECONDS"] = "1"
    seen = {}
    for trial in own(range(number)):
        ranks, way = random.randint(2, 4), random.choice(list(LINES))
        out, stamp = fresh(), fresh("stamp")
        stamp.unlink(missing_ok=True)
        os.environ["MN_FAILING_STAMP"] = str(stamp)
        process = start(out, ranks=ranks, way=f"{way}@{random.randint(1, 11)}", **HOW)
        number_sent, sent = random.choice(list(SIGNALS)), []
        sender = threading.Thread(target=send_later, args=(process, out, number_sent, ranks, sent))
        is_sent = random.random() < 0.4
        if is_sent:
            sender.start()
        output, err = process.communicate()
        gone = time.time()
        if is_sent:
            sender.join()
        found = re.search(r"weights (\d+)", output)
        lines = [line for line in err.splitlines() if line.startswith("mn: rank ")]
        wrong = verdict(way, ranks, number_sent, sent, process.returncode, lines, weights[ranks], found and found[1],
                        stamp, gone, most_s)
        what = f"{way} of {ranks} ranks" + (f", signal {number_sent} to rank {sent[0]}" if sent else "")
        check(what, not wrong, wrong, f"status {process.returncode}", output, err)
        seen[way] = seen.get(way, 0) + 1
        if process.returncode != 0:
            ends_well(f"the start after {what}", out, weights[ranks], ranks=ranks, **HOW)
    del os.environ["MN_HANG_SECONDS"]
    print(", ".join(f"{way} {count}" for way, count in sorted(seen.items())), flush=True)
