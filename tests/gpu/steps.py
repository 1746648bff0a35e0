"""The steps of `prove`, in the order of their weight: what each runs, and what it reads from what was printed."""
import glob
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import Callable

import figures
from runner import Job


@dataclass
class Step:
    """`read` makes figures of the jobs' ends if all succeeded, `sums_up` of what ends there are."""
    name: str
    limit_s: float
    jobs: list
    read: Callable = lambda ends: []
    slots: int = 1
    needs: list = field(default_factory=list)  # files without which it is not run
    least_s: float = 10  # with less time left it is not begun
    sums_up: Callable = lambda ends: []


class Place:
    """Where things are: a build tree, or a folder that pack-up made, which has the same shape."""

    def __init__(self, source, build, scratch, python, gpus, rehearse, peak=None):
        """peak: bf16 flop/s of a GPU, None where it is not known."""
        self.source, self.build, self.scratch = source, build, scratch
        self.python, self.gpus, self.rehearse, self.peak = python, gpus, rehearse, peak
        self.gpu_dir = os.path.join(source, "tests/gpu")
        self.ranks = 1 if rehearse else max(gpus, 1)

    def program(self, name):
        return os.path.join(self.build, name)

    def work(self, name):
        return os.path.join(self.scratch, name)

    def mpiexec_of_tests(self, ranks, *argv):
        return [os.path.join(self.source, "tests/support/mpiexec"), str(ranks), *argv]

    def mpiexec(self, ranks, *argv):
        """More ranks than GPUs share them."""
        share = [os.path.join(self.gpu_dir, "share_gpu")] if ranks > self.gpus else []
        return self.mpiexec_of_tests(ranks, *share, *argv)


def limited(seconds):
    return {"MN_TEST_TIMEOUT": str(int(seconds))}


def preload(place):
    return {"LD_PRELOAD": place.program("tests/host_waits.so")}


def gpu_tests(place):
    """Every test with the label gpu, several at a time."""
    path = place.program("tests/gpu_tests")
    jobs = []
    if os.path.exists(path):
        for name, ranks in (line.split() for line in open(path)):
            jobs.append(Job(f"{name}.np{ranks}", place.mpiexec_of_tests(int(ranks), place.program(f"tests/{name}")),
                            limited(90), int(ranks), 100))
    jobs.sort(key=lambda job: job.slots not in (2, 4))  # what says most comes first

    def sum_up(ends):
        failed = [end for end in ends if end.status not in (0, 77)]
        skipped = sum(end.status == 77 for end in ends)
        cases = sum(int(n) for end in ends for n in re.findall(r"\[  PASSED  \] (\d+) test", end.output))
        return [figures.figure("gpu tests that passed", len(ends) - len(failed) - skipped),
                figures.figure("gpu tests that failed", len(failed)), figures.figure("cases in them that passed", cases)]

    return Step("gpu tests", 220, jobs, slots=8, needs=[path], sums_up=sum_up, least_s=30)


def nccl_bench(place):
    program = place.program("tests/nccl_bench")
    return Step("nccl_bench", 60, [Job("nccl_bench", place.mpiexec(place.ranks, program), limited(55))],
                lambda ends: figures.read_nccl_bench(ends[0].output), needs=[program])


def kernel_bench(place):
    program = place.program("tests/kernel_bench")
    argv = place.mpiexec(1, program, *(["--rehearse"] if place.rehearse else []))
    return Step("kernel_bench", 40, [Job("kernel_bench", argv, limited(35))],
                lambda ends: figures.read_kernel_bench(ends[0].output), needs=[program])


TINY = ["--image-size", "32", "--seconds", "0.2", "--device", "cpu", "--batches", "2"]


def resnet50_mn(place, way):
    program = place.program("tests/resnet50_step")
    argv = [program, *(["--cuda-graph"] if way == "graph" else []), *(TINY if place.rehearse else [])]
    return Step(f"ResNet-50, mn {way}", 70, [Job(f"resnet50_mn_{way}", place.mpiexec(place.ranks, *argv),
                                                 {**limited(65), **preload(place)})],
                lambda ends: figures.read_resnet50(ends[0].output), needs=[program])


def resnet50_torch(place, way, limit_s):
    argv = [place.python, os.path.join(place.gpu_dir, "resnet50.py"), "--way", way]
    if place.rehearse:
        argv += [*TINY, "--blocks", "1,1,1,1", "--width", "8"]
    if place.ranks > 1 and way == "eager":
        argv = place.mpiexec(place.ranks, place.program("mnlaunch"), *argv)
    return Step(f"ResNet-50, torch {way}", limit_s, [Job(f"resnet50_torch_{way}", argv, {**limited(limit_s), **preload(place)})],
                lambda ends: figures.read_resnet50(ends[0].output), least_s=25)


TINY_GPT = ["--layers", "2", "--heads", "2", "--width", "16", "--context", "16", "--vocabulary-size", "64", "--seconds", "0.2",
            "--device", "cpu", "--batches", "2"]


def gpt_mn(place, way):
    """The GPTs run on one GPU, however many there are."""
    program = place.program("tests/gpt_step")
    how = {"eager": [], "graph": ["--cuda-graph"], "bf16-parameters": ["--precision", way, "--batches", "32"]}[way]
    argv = [program, *how, *(TINY_GPT if place.rehearse else [])]
    return Step(f"GPT, mn {way}", 60, [Job(f"gpt_mn_{way}", place.mpiexec(1, *argv), {**limited(55), **preload(place)})],
                lambda ends: figures.read_gpt(ends[0].output, place.peak), needs=[program], least_s=25)


def gpt_torch(place, way, limit_s):
    argv = [place.python, os.path.join(place.gpu_dir, "gpt.py"), "--way", way]
    argv += TINY_GPT if place.rehearse else ["--batches", "32"] if way == "compile" else []  # it compiles for each size
    return Step(f"GPT, torch {way}", limit_s, [Job(f"gpt_torch_{way}", argv, {**limited(limit_s), **preload(place)})],
                lambda ends: figures.read_gpt(ends[0].output, place.peak), least_s=25)


def read_log(place, folder, name, samples="images"):
    with open(os.path.join(place.work(folder), "log")) as file:
        return figures.read_log(name, file.read(), samples)


def mnist(place, ranks, epochs, limit_s):
    """More ranks than GPUs share them, which shows that it works, not how fast."""
    program = place.program("jobs/mnist")
    folder = f"mnist_{ranks}"
    argv = [place.program("mnlaunch"), "--oversubscribe-gpu", program, "--data", os.path.join(place.source, "data/mnist"),
            "--out", place.work(folder), "--checkpoint-every", "none", "--epoch", "2" if place.rehearse else str(epochs),
            "--device", "cpu" if place.rehearse else "auto", "--unit", "16" if place.rehearse else "1000"]
    return Step(f"jobs/mnist, {ranks} ranks", limit_s, [Job(folder, place.mpiexec(ranks, *argv), limited(limit_s - 5))],
                lambda ends: read_log(place, folder, f"jobs/mnist, {ranks} ranks"), needs=[program])


def graph_auto(place):
    """A network whose step the host enqueues slowly: jobs/gpt records it as a graph unless --cuda-graph is off."""
    gpt_job, mnshard = place.program("jobs/gpt"), place.program("mnshard")
    text, tokens = os.path.join(place.source, "data/shakespeare/input.txt.gz"), place.work("letters")
    make = f"{mnshard} tokens {text} --out {tokens} --vocabulary bytes --context 128 --val-part 0.01"
    many = ["--iterations", "10", "--report-every", "2", "--layers", "1", "--width", "48"] if place.rehearse else [
        "--iterations", "1000", "--report-every", "200", "--precision", "bf16"]
    commands, ways = [make], ("off", "auto")
    for way in ways:
        argv = [gpt_job, "--train", f"{tokens}/train", "--val", f"{tokens}/val", *many, "--overlap", "off",
                "--checkpoint-every", "none", "--device", "cpu" if place.rehearse else "auto", "--cuda-graph", way,
                "--out", place.work(f"graph_{way}")]
        commands.append(" ".join(place.mpiexec(1, *argv)))
    job = Job("graph_auto", ["bash", "-ec", "\n".join(commands)], limited(40))
    return Step("jobs/gpt, --cuda-graph auto", 45, [job], needs=[gpt_job, mnshard, text], read=lambda ends: [
        each for way in ways for each in read_log(place, f"graph_{way}", f"jobs/gpt, --cuda-graph {way}", "samples")])


def twice(place, name, ranks, program, options):
    """Commands that train twice, and the files of weights that should be the same."""
    outs = [place.work(f"{name}_{run}") for run in (1, 2)]
    how = ["--deterministic", "--checkpoint-every", "none", "--seed", "5", "--device", "cpu" if place.rehearse else "auto"]
    launch = [place.program("mnlaunch"), "--oversubscribe-gpu", program]
    commands = [" ".join(place.mpiexec(ranks, *launch, *options, *how, "--out", out)) for out in outs]
    return commands, [os.path.join(out, "model.safetensors") for out in outs]


def deterministic(place):
    """Both jobs at once."""
    mnist_job, gpt_job, mnshard = (place.program(name) for name in ("jobs/mnist", "jobs/gpt", "mnshard"))
    steps = "10" if place.rehearse else "200"
    text, tokens = os.path.join(place.source, "data/shakespeare/input.txt.gz"), place.work("tokens")
    digits, of_digits = twice(place, "same_mnist", 2, mnist_job, ["--data", os.path.join(place.source, "data/mnist"),
                                                                  "--unit", "100", "--iterations", steps])
    letters, of_letters = twice(place, "same_gpt", 1, gpt_job,
                                ["--train", f"{tokens}/train", "--val", f"{tokens}/val", "--precision", "bf16", "--dropout",
                                 "0.1", "--iterations", steps, "--warmup-iterations", "5", "--report-every", steps,
                                 *(["--layers", "1", "--width", "48"] if place.rehearse else [])])
    make = f"{mnshard} tokens {text} --out {tokens} --vocabulary bytes --context 128 --val-part 0.01"
    jobs = [Job(name, ["bash", "-ec", "\n".join(commands)], limited(20))
            for name, commands in (("same_mnist", digits), ("same_gpt", [make, *letters]))]
    return Step("--deterministic, twice", 45, jobs,
                lambda ends: figures.compare("jobs/mnist, 2 ranks", *of_digits) + figures.compare("jobs/gpt, bf16", *of_letters),
                slots=2, needs=[mnist_job, gpt_job, mnshard, text])


def images(place):
    """JPEGs of ImageNet's usual size, as shards."""
    count, size = (2, "64x64") if place.rehearse else (100, "500x375,375x500")
    folder = place.work("images")
    make = [place.program("tests/make_images"), folder, "--classes", "20", "--per-class", str(count),
            "--val-per-class", "2", "--size", size]
    commands = [" ".join(make)]
    for split in ("train", "val"):
        commands.append(f"{place.program('mnshard')} images {folder}/{split} --out {place.work('shards')}/{split}")
    return Step("make JPEGs", 60, [Job("images", ["bash", "-ec", "\n".join(commands)])],
                needs=[place.program("tests/make_images"), place.program("mnshard")])


def resnet50_jpegs(place, batch):
    program = place.program("jobs/imagenet")
    folder = f"imagenet_{batch}"
    threads = max(1, len(os.sched_getaffinity(0)) // place.ranks - 1)
    argv = [program, "--train", place.work("shards/train"), "--val", place.work("shards/val"), "--out", place.work(folder),
            "--batchsize", str(batch), "--precision", "bf16", "--channels-last", "--checkpoint-every", "none",
            "--loaderjob", str(threads), "--epoch", "2" if place.rehearse else "12"]
    if place.rehearse:
        argv += ["--arch", "resnet18", "--image-size", "32", "--device", "cpu"]
    name = f"{'ResNet-18' if place.rehearse else 'ResNet-50'} from JPEGs, batch {batch}, jobs/imagenet"
    return Step(f"jobs/imagenet, batch {batch}", 45, [Job(folder, place.mpiexec(place.ranks, *argv), limited(42))],
                lambda ends: read_log(place, folder, name), needs=[program, place.work("shards/train")])


def sanitizer(place):
    """The kernels under each tool of compute-sanitizer."""
    tool_path = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")),
                                                          "compute-sanitizer")
    programs = {"": (place.program("tests/nccl_test"), "*PackedBitsAreTheHosts*"),
                ", fused": (place.program("tests/gpu_kernels_test"), "*")}
    jobs = []
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        for which, (program, cases) in programs.items():
            argv = [tool_path, "--tool", tool, "--error-exitcode", "9", program, f"--gtest_filter={cases}"]
            jobs.append(Job(f"sanitizer_{tool}{which}", place.mpiexec_of_tests(1, *argv), limited(50)))
    return Step("compute-sanitizer", 90, jobs, slots=4, needs=[tool_path, *(program for program, _ in programs.values())],
                sums_up=lambda ends: [figures.figure(f"compute-sanitizer {end.job.name[10:]}, errors",
                                                     errors_of(end)) for end in ends if end.status is not None])


def errors_of(end):
    found = re.search(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", end.output)
    return int(found[1]) if found else int(end.status != 0)


def all_steps(place):
    """Without a GPU, in rehearsal: what runs on a CPU too, on as little data as will do."""
    batches = (4,) if place.rehearse else (256, 64)
    in_graphs = [] if place.rehearse else [resnet50_mn(place, "graph"), resnet50_torch(place, "graph", 50)]
    made_up = [resnet50_mn(place, "eager"), resnet50_torch(place, "eager", 50), *in_graphs]
    language = [gpt_mn(place, "eager"), gpt_torch(place, "eager", 60)]
    some = max(place.ranks, 2)
    shared = [mnist(place, some, 4, 60), *([mnist(place, 4, 2, 45)] if some != 4 else [])]
    jobs = [*shared, images(place), *(resnet50_jpegs(place, batch) for batch in batches)]
    if place.rehearse:
        return [kernel_bench(place), graph_auto(place), *made_up, *language, deterministic(place), *jobs]
    language += [gpt_mn(place, "graph"), gpt_mn(place, "bf16-parameters"), gpt_torch(place, "compile", 100)]
    return [kernel_bench(place), nccl_bench(place), graph_auto(place), *language, *made_up, deterministic(place),
            gpu_tests(place), resnet50_torch(place, "compile", 150), *jobs, sanitizer(place)]
