"""Faults of storage, and of processes that write to it."""
import os, random, shutil, subprocess, time

from training import (ITERATIONS, TIMEOUT, Run, best_is_right, build, check, ends_well, fresh, own, reports, tests,
                      undisturbed, verify, work)


def each_call(step):
    weights, counts = undisturbed()
    calls = [(rank, at) for rank, count in enumerate(counts) for at in range(rank % step, count, step)]
    for rank, at in own(calls):
        yield weights, rank, at, fresh()


def kills(step=1):
    for weights, rank, at, out in each_call(step):
        what = f"SIGKILL at call {at} of rank {rank}"
        run = Run(out, RANK=rank, AT=at, KIND="kill")
        check(what, run.status != 0 and len(run.lines) <= 1 and run.seconds < TIMEOUT / 4, run.status, run.err)
        verify(what, out)
        ends_well(what + ", next start", out, weights)


def errors(step=1):
    for weights, rank, at, out in each_call(step):
        for kind in (28, 5, "short"):  # ENOSPC, EIO
            what = f"{kind} at call {at} of rank {rank}"
            out = fresh()
            run = Run(out, RANK=rank, AT=at, KIND=kind)
            saves = run.err.count("cannot save the checkpoint")
            if run.status == 2:  # found before training
                check(what, len(run.lines) == 1 and not saves, run.err)
            else:
                check(what, run.status == 0 and run.weights == weights and saves <= 1 and not run.lines, run.status, run.err)
            verify(what, out)
            if run.status == 0:
                best_is_right(what, out, saves > 0)
            ends_well(what + ", next start", out, weights, saves_failed=saves > 0)


def full(step=1):
    for weights, rank, at, out in each_call(step):
        what = f"no room from call {at} of rank {rank} on"
        run = Run(out, RANK=rank, AT=at, KIND=28, FROM_THEN_ON=1)
        check(what, run.status in (0, 1, 2) and len(run.lines) == (run.status != 0), run.status, run.err)
        verify(what, out)
        reports(what, out)
        ends_well(what + ", next start", out, weights, saves_failed=True)


WORKLOADS = {"saves": [dict()], "replaces": [dict(iterations=3), dict(iterations=6, way="fresh")],
             "replaces without exchange": [dict(iterations=3), dict(iterations=6, way="fresh", NO_EXCHANGE=1)],
             "resumes": [dict(ranks=3, iterations=6), dict(ranks=1, iterations=12)]}


def record(name):
    """Runs a workload; the folder that was recorded, and the records."""
    folder = fresh("recorded")
    folder.mkdir()
    for number, options in enumerate(WORKLOADS[name]):
        run = Run(folder / "above" / "out", FOLDER=folder, RECORD=work / f"record.{name}.{number}", **options)
        assert run.status == 0, run.err
    return folder, sorted(work.glob(f"record.{name}.*"))


def crash_states(folder, records, limit):
    return subprocess.run([tests / "crash_states", folder, folder / "above" / "out", str(limit)] + records, capture_output=True,
                          text=True)


def crash(limit=2000):
    for name in WORKLOADS:
        folder, records = record(name)
        begin = time.monotonic()
        seen = crash_states(folder, records, limit)
        print(f"{name}: {seen.stdout.splitlines()[-1] if seen.stdout else ''}, {time.monotonic() - begin:.0f} s", flush=True)
        check(f"power cuts while a job {name}", seen.returncode == 0, seen.stdout, seen.stderr)


def unsynced(limit=100):
    for name in ("saves", "replaces"):
        folder, records = record(name)
        for path in records:
            lines = path.read_text().splitlines(keepends=True)
            opened, noticed, unnoticed = {}, 0, []
            for i, line in enumerate(lines):
                words = line.split()
                if words[1] in ("create", "open"):
                    opened[words[2]] = words[3]
                if words[1] != "sync":
                    continue
                path.write_text("".join(lines[:i] + lines[i + 1:]))
                if crash_states(folder, records, limit).returncode != 0:
                    noticed += 1
                else:
                    unnoticed.append(opened[words[2]].replace(str(folder), ""))
            path.write_text("".join(lines))
            print(f"{path.name}: {noticed} syncs are needed; not noticed: {', '.join(unnoticed)}", flush=True)


def flips(number=1000):
    out = fresh()
    assert Run(out).status == 0
    folder = sorted((out / "ckpt").glob("step-*"))[-1]
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for trial in own(range(number)):
        path, content = random.choice(list(whole.items()))
        at = random.randrange(len(content))
        cut = trial % 4 == 3
        changed = content[:at] if cut else content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1:]
        path.write_bytes(changed)
        seen = subprocess.run([build / "mncheck", "verify", folder], capture_output=True, text=True).stdout
        begins = 8 + int.from_bytes(content[:8], "little") if path.suffix == ".safetensors" else len(content)
        named = path.name in seen and (cut or at < begins or "has tensor" in seen)
        check(f"{'cut' if cut else 'flip'} at {at} of {path.name}", named, seen)
        path.write_bytes(content)


def ranks():
    for n in range(1, 5):
        out = fresh("from")
        before = Run(out, ranks=n, iterations=6)
        for m in range(1, 5):
            copy = fresh("to")
            shutil.copytree(out, copy)
            ends_well(f"from {n} to {m} ranks", copy, before.weights, ranks=m, iterations=6)


def shards():
    from safetensors.numpy import load_file
    out = fresh()
    assert Run(out, ranks=3).status == 0
    folder, merged = out / "ckpt" / f"step-{ITERATIONS:08}", work / "merged.safetensors"
    seen = {name: tensor for path in sorted(folder.glob("shard-*")) for name, tensor in load_file(path).items()}
    subprocess.run([build / "mncheck", "merge", folder, "--all", "--output", merged], check=True, capture_output=True)
    whole = load_file(merged)
    check("the shards hold what the merged file does", seen.keys() == whole.keys() and
          all((seen[name] == whole[name]).all() for name in seen), sorted(seen), sorted(whole))
    wanted = {"model/first.weight", "optimizer/main/first.weight/exp_avg", "rank.0/random.cpu", "rank.2/random.cpu"}
    check("names of tensors", wanted <= seen.keys(), sorted(seen))
