"""Another user of this machine, in the way of trainings and tools. Needs root, to be another user."""
import ctypes, multiprocessing, os, pathlib, socket, subprocess

from training import Run, build, check, fresh, own, tests, undisturbed, work

NOBODY = 65534
GREETING = b"\x2c\0\0\0mn's greeting no. 1\n\1\0\0\0\0\0\0\0" + b"n" * 16  # of rank 1 for rank 0
GARBAGE = [b"", b"z" * 5000, b"\xff\xff\xff\x7f", GREETING, GREETING + b"\x20\0\0\0" + b"p" * 32, b"GET / HTTP/1.0\r\n\r\n"]
MOST_OPEN, AT_ONCE = 900, 300  # connections


class Stranger:
    """A process of another user that does `harm(count)` again and again. `count` is a dictionary of numbers."""
    def __init__(self, harm, *arguments):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self._run, args=(theirs, harm) + arguments)
        self.process.start()
        self.pipe.recv()

    def _run(self, pipe, harm, *arguments):
        os.setgroups([])
        os.setgid(NOBODY)
        os.setresuid(NOBODY, NOBODY, 0)
        count = {}
        pipe.send(None)
        while not pipe.poll():
            harm(count, *arguments)
        pipe.send(count)

    def end(self):
        self.pipe.send(None)
        count = self.pipe.recv()
        self.process.join()
        return count


def add(count, what):
    count[what] = count.get(what, 0) + 1


def sockets_of_ranks():
    """The inodes of the sockets of mnlaunch and of trainings. Open MPI's own processes do not stand a flood."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() in ("mnlaunch", "small_training"):
                for link in (folder / "fd").iterdir():
                    if (target := os.readlink(link)).startswith("socket:["):
                        yield target[8:-1]
        except OSError:
            continue


def listeners():
    """(family, address) of what ranks listen on for this machine alone: not the ports that MPI has in them."""
    own = set(sockets_of_ranks())
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A" and address == "0100007F" and fields[9] in own:
                yield socket.AF_INET, ("127.0.0.1", int(port, 16))
    with open("/proc/net/unix") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if len(fields) == 8 and fields[3] == "00010000" and fields[7].startswith("@") and fields[6] in own:
                yield socket.AF_UNIX, "\0" + fields[7][1:]


held = []


def flood(count):
    """Calls all that ranks listen on, with garbage, and holds the connections."""
    os.seteuid(0)  # to see whose the ports are
    found = set(listeners())
    os.seteuid(NOBODY)
    for family, address in found:
        for _ in range(AT_ONCE):
            try:
                caller = socket.socket(family, socket.SOCK_STREAM)
                caller.settimeout(0.05)
                caller.connect(address)
                caller.send(GARBAGE[count.get("calls", 0) % len(GARBAGE)])
            except OSError:
                break
            add(count, "calls")
            held.append(caller)
    while len(held) > MOST_OPEN:
        held.pop(0).close()


def plant(count, folder, name, secret):
    """Links to `secret` at the names that the next processes would use."""
    newest = int(pathlib.Path("/proc/loadavg").read_text().split()[-1])
    names = [name] + [f".{name}.{socket.gethostname()}.{newest + ahead}.{k}.tmp" for ahead in range(30) for k in range(2)]
    for each in names:
        try:
            os.symlink(secret, os.path.join(folder, each))
            add(count, "links")
        except OSError:
            continue
    if count.get("links", 0) % 100 < 2:
        for entry in os.scandir(folder):
            if entry.is_symlink():
                try:
                    os.unlink(entry.path)
                except OSError:
                    continue


class Secret:
    """What this user has for itself: a file in a folder."""
    def __init__(self):
        self.folder = fresh("secret")
        self.folder.mkdir(mode=0o700)
        self.file = self.folder / "file"
        self.file.write_text("kept")

    def is_kept(self):
        return list(self.folder.iterdir()) == [self.file] and self.file.read_text() == "kept"


def shared_folder():
    folder = fresh("shared")
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def trainings(number):
    """Under mnlaunch, while somebody calls all that listens."""
    weights, _ = undisturbed()
    stranger, longest = Stranger(flood), 0
    for trial in own(range(number)):
        run = Run(None, program=[build / "mnlaunch", tests / "small_training", fresh(), 9, 3, 0])
        longest = max(longest, run.seconds)
        check(f"training {trial} beside floods", run.status == 0 and run.weights == weights and not run.lines, run.status, run.err)
    print(f"{number} trainings, {longest:.1f} s at most: {stranger.end().get('calls', 0)} calls by a stranger", flush=True)


def planted_output():
    """A stranger has made the output folder a link, or a folder with a link at a name that a training makes there."""
    out = fresh()
    assert Run(out).status == 0
    names = [path.name for path in out.iterdir() if path.is_file()]
    for name in names + [".lock", "ckpt", "."]:
        secret, folder = Secret(), shared_folder() / "out"
        link, target = (folder, secret.folder) if name == "." else (folder / name, secret.folder if name == "ckpt" else secret.file)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
        for path in {folder, link}:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        run = Run(folder)
        check(f"a link at {name}", secret.is_kept() and run.status == 2 and len(run.lines) == 1, run.status, run.err)


def races(number):
    """A tool that writes a file beside those of a stranger, who knows its name."""
    out = fresh()
    assert Run(out).status == 0
    secret, folder = Secret(), shared_folder()
    stranger = Stranger(plant, folder, "merged.safetensors", secret.file)
    written = 0
    for trial in own(range(number)):
        merged = folder / "merged.safetensors"
        run = subprocess.run([build / "mncheck", "merge", out, "--output", merged], capture_output=True, text=True)
        good = run.returncode != 0 or not merged.is_symlink()
        written += run.returncode == 0
        check(f"race {trial}", good and secret.is_kept(), run.stderr)
        merged.unlink(missing_ok=True)
    print(f"{number} races, {written} files written: {stranger.end().get('links', 0)} links planted", flush=True)


def leave_network():
    """From here on this process and its children have a network of their own: what else runs here is not flooded."""
    if ctypes.CDLL(None).unshare(0x40000000) != 0:  # CLONE_NEWNET
        return False
    return subprocess.run(["ip", "link", "set", "lo", "up"]).returncode == 0


def strangers(number=20):
    if os.geteuid() != 0 or not leave_network():
        print("not run: it needs root, to be another user, and a network of its own", flush=True)
        return
    work.chmod(0o755)
    planted_output()
    races(50 * number)
    trainings(number)
