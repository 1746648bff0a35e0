"""Another user of the node, who connects to all that listens and lays hands on all files that all users may touch."""
import os, pathlib, random, re, signal, socket, subprocess, sys, time

from training import Run, build, check, fresh, tests, undisturbed

NOBODY = 65534
SHARED = [pathlib.Path("/dev/shm"), pathlib.Path("/tmp")]
GREETING = b"\x2c\0\0\0mn's greeting no. 1\n\1\0\0\0\0\0\0\0" + b"n" * 16 + b"\x20\0\0\0" + b"p" * 32


def listeners():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                yield socket.AF_INET, ("127.0.0.1", int(words[1].split(":")[1], 16))
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[3] == "00010000" and words[7].startswith("@"):
            yield socket.AF_UNIX, "\0" + words[7][1:]


def connect_to_all(open_sockets):
    count = 0
    for family, address in list(listeners()):
        own = socket.socket(family, socket.SOCK_STREAM)
        own.setblocking(False)
        try:
            own.connect_ex(address)
            own.send(random.choice([b"", b"z" * 5000, b"\xff\xff\xff\x7f", GREETING, os.urandom(random.randint(1, 300))]))
            count += 1
        except OSError:
            pass
        open_sockets.append(own)
    while len(open_sockets) > 400:
        open_sockets.pop(random.randrange(len(open_sockets))).close()
    return count


def touch_all(known):
    """Tries to write to, to remove and to replace what others have there, and to be first with names like those."""
    races = 0
    for folder in SHARED:
        try:
            entries = [entry for entry in os.scandir(folder) if entry.name not in known]
        except OSError:
            continue
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_uid == NOBODY:
                continue
            races += 1
            for attempt in (lambda: os.open(entry.path, os.O_RDWR), lambda: os.unlink(entry.path), lambda: os.rename(entry.path, entry.path + "x")):
                try:
                    attempt()
                    print(f"TOUCHED {entry.path}", flush=True)
                except OSError:
                    pass
            for digits in re.findall(r"\d+", entry.name):  # the next number, as a link to a file of the other user's
                try:
                    os.symlink("/etc/passwd", folder / entry.name.replace(digits, str(int(digits) + 1)))
                except (OSError, ValueError):
                    pass
    return races


def bother(known):
    """Of user nobody, until the parent ends it."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    counts, sockets = [0, 0], []
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    while not stop:
        counts[0] += connect_to_all(sockets)
        counts[1] += touch_all(known)
        time.sleep(0.002)
    print(f"{counts[0]} connections, {counts[1]} races for files", flush=True)
    for folder in SHARED:
        for entry in os.scandir(folder):
            if entry.is_symlink() and entry.stat(follow_symlinks=False).st_uid == NOBODY:
                os.unlink(entry.path)


def strangers(seconds=60):
    if "MN_OWN_NETWORK" not in os.environ:  # where nobody else's ports are
        os.environ["MN_OWN_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    how = dict(iterations=30, every=3, step_ms=20)
    weights, _ = undisturbed(**how)
    known = {entry.name for folder in SHARED for entry in os.scandir(folder)}
    reads, writes = os.pipe()
    attacker = os.fork()
    if attacker == 0:
        os.dup2(writes, 1)
        sys.stdout = os.fdopen(1, "w")
        bother(known)
        sys.stdout.flush()
        os._exit(0)
    os.close(writes)
    end, runs = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        out = fresh()
        launched = [build / "mnlaunch", tests / "small_training", out, how["iterations"], how["every"], how["step_ms"]]
        run = Run(out, program=launched if runs % 2 else None, **how)
        check(f"run {runs} beside a stranger", run.status == 0 and run.weights == weights and
              not re.search("mn: rank |cannot reach|straggler", run.err), run.status, run.err)
        runs += 1
    os.kill(attacker, signal.SIGTERM)
    os.waitpid(attacker, 0)
    said = os.fdopen(reads).read()
    check("files that a stranger could touch", "TOUCHED" not in said, said)
    print(f"{runs} runs; {said.strip()}", flush=True)
