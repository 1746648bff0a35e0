"""What the programs of `prove` print, as figures; and figures as a table.

A figure is a dictionary: "what", "value", "unit", and where there is one the "goal", a pair of ">=" or "<=" or "==" and a
number.
"""
import json
import re

GOALS = {
    "gpu tests that failed": ("==", 0),
    "pack float32 as float32, of a copy's bandwidth": (">=", 0.85),
    "token loss, bfloat16, 50304, of a copy's bandwidth": (">=", 0.8),
    "layer norm, 768, forward, of a copy's bandwidth": (">=", 0.8),
    "layer norm, 768, backward, of a copy's bandwidth": (">=", 0.7),
    "batch norm + ReLU, 256, forward, of a copy's bandwidth": (">=", 0.8),
    "batch norm + ReLU, 256, backward, of a copy's bandwidth": (">=", 0.8),
    "gelu and bias, 3072, backward, of a copy's bandwidth": (">=", 0.8),
    "batch norm over ranks, 64 channels, of a copy's bandwidth": (">=", 0.7),
    "clip 148 gradients, of a copy's bandwidth": (">=", 0.7),
    "ResNet-50, batch 64, mn eager, waits a step": ("==", 0),
    "ResNet-50, batch 256, mn eager, waits a step": ("==", 0),
    "ResNet-50, batch 64, mn graph, waits a step": ("==", 0),
    "ResNet-50, batch 256, mn graph, waits a step": ("==", 0),
    "--deterministic twice, jobs/mnist, 2 ranks, bytes of weights that differ": ("==", 0),
    "--deterministic twice, jobs/gpt, bf16, bytes of weights that differ": ("==", 0),
    "GPT 124M, batch 16, mn eager, waits a step": ("==", 0),
    "GPT 124M, batch 32, mn eager, waits a step": ("==", 0),
    "GPT 124M, batch 16, mn graph, waits a step": ("==", 0),
    "GPT 124M, batch 32, mn graph, waits a step": ("==", 0),
}
# What must not be slower → what it is beside in the same run.
TO_BEAT = {
    "ResNet-50, batch 256, mn eager, images/s": "ResNet-50, batch 256, torch compile, images/s",
    "ResNet-50, batch 256, mn graph, images/s": "ResNet-50, batch 256, torch compile, images/s",
    "GPT 124M, batch 16, mn eager, tokens/s": "GPT 124M, batch 16, torch eager, tokens/s",
    "GPT 124M, batch 32, mn eager, tokens/s": "GPT 124M, batch 32, torch eager, tokens/s",
    "jobs/gpt, --cuda-graph auto, samples/s": "jobs/gpt, --cuda-graph off, samples/s",
}


def figure(what, value, unit=""):
    return {"what": what, "value": value, "unit": unit}


def read_nccl_bench(text):
    """What nccl_bench printed: the least and the largest allreduce, and the kernel that packs."""
    ranks = re.search(r"^(\d+) ranks$", text, re.M)
    rows = re.findall(r"^ *(\d+) +([\d.]+) us +[\d.]+ GB/s +([\d.]+) GB/s", text, re.M)
    packs = re.findall(r"^pack float32 as (\w+) .*? ([\d.]+) GB/s, ([\d.]+) of the copy's$", text, re.M)
    mean = re.search(r"^mean of gradients +([\d.]+) us, ([\d.]+) of the sum's time$", text, re.M)
    copy = re.search(r"^copy +[\d.]+ us +([\d.]+) GB/s$", text, re.M)
    if not (ranks and rows and packs and mean and copy):
        raise ValueError("nccl_bench printed another table")
    (least, least_us, _), (most, most_us, busbw) = rows[0], rows[-1]
    name = f"NCCL allreduce of {{}} bytes, {ranks[1]} ranks"
    figures = [figure(name.format(least), float(least_us), "us"), figure(name.format(most), float(most_us), "us")]
    if int(ranks[1]) > 1:
        figures.append(figure(name.format(most) + ", busbw", float(busbw), "GB/s"))
    figures += [figure("mean of gradients by NCCL's plain sum", float(mean[1]), "us"),
                figure("mean of gradients, of the sum's time", float(mean[2]))]
    figures.append(figure("copy within the GPU, read and written", float(copy[1]), "GB/s"))
    for wire, rate, part in packs:
        figures.append(figure(f"pack float32 as {wire}", float(rate), "GB/s"))
        figures.append(figure(f"pack float32 as {wire}, of a copy's bandwidth", float(part)))
    return figures


def read_kernel_bench(text):
    """What kernel_bench printed: the fused operators' bandwidth."""
    rows = re.findall(r"^(.*?) +[\d.]+ us +([\d.]+) GB/s, ([\d.]+) of the copy's$", text, re.M)
    if not rows:
        raise ValueError("kernel_bench printed another table")
    figures = []
    for what, rate, part in rows:
        figures += [figure(what, float(rate), "GB/s"), figure(f"{what}, of a copy's bandwidth", float(part))]
    return figures


def lines_of(text):
    """The JSON lines that programs print which time steps: one for each batch size."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError("no line of figures")
    return lines


def name_of(model, line):
    ranks = f"{line['ranks']} ranks, " if line["ranks"] > 1 else ""
    return f"{model}, batch {line['batch']}, {line['who']} {line['way']}, {ranks}"


def times_in(name, line):
    return [figure(name + "a step", line["step_ms"], "ms"), figure(name + "host time of a step", line["host_ms"], "ms"),
            figure(name + "waits a step", line["waits"]), figure(name + "waited a step", line["waited_ms"], "ms")]


def read_resnet50(text):
    """What resnet50_step and resnet50.py printed."""
    figures = []
    for line in lines_of(text):
        name = name_of("ResNet-50", line)
        figures += [figure(name + "images/s", line["images_per_second"]), *times_in(name, line)]
    return figures


def flops_of_a_token(line):
    """6 N + 12 L H Q T, as nanoGPT and PaLM count (Chowdhery et al. 2022, appendix B): N parameters without those of
    positions, L layers of H heads of width Q (H Q is the network's width), T tokens of context."""
    positions = line["context"] * line["width"]
    return 6 * (line["parameters"] - positions) + 12 * line["layers"] * line["width"] * line["context"]


def read_gpt(text, peak):
    """What gpt_step and gpt.py printed. peak: flop/s of the GPU, or None: no MFU then."""
    figures = []
    for line in lines_of(text):
        name = name_of(f"GPT {line['parameters'] / 1e6:.0f}M", line)
        figures += [figure(name + "tokens/s", line["tokens_per_second"]), *times_in(name, line)]
        if peak:
            used = flops_of_a_token(line) * line["tokens_per_second"] / line["ranks"]
            figures.append(figure(name + "MFU", used / peak))
    return figures


def read_log(name, text, samples="images"):
    """From a job's OUT/log: the median rate of the reports after the first, and the last validation."""
    entries = json.loads(text)
    rates = sorted(entry["images_per_second"] for entry in entries[1:])
    if not rates:
        raise ValueError("the log has fewer than two epochs")
    figures = [figure(f"{name}, {samples}/s", rates[len(rates) // 2])]
    if "validation/main/accuracy" in entries[-1]:
        figures.append(figure(f"{name}, validation accuracy", entries[-1]["validation/main/accuracy"]))
    return figures


def compare(name, *paths):
    """Of the weights that a job with --deterministic wrote twice."""
    files = []
    for path in paths:
        with open(path, "rb") as file:
            files.append(file.read())
    first, second = files
    differ = abs(len(first) - len(second)) + sum(a != b for a, b in zip(first, second))
    name = f"--deterministic twice, {name}, bytes of weights"
    return [figure(name, len(first)), figure(f"{name} that differ", differ)]


def with_goals(figures):
    """Adds the goals; what is beside something in the same run must not be slower."""
    goals = dict(GOALS)
    values = {each["what"]: each["value"] for each in figures}
    goals.update({what: (">=", values[other]) for what, other in TO_BEAT.items() if other in values})
    return [dict(each, goal=list(goals[each["what"]])) if each["what"] in goals else each for each in figures]


def is_met(each):
    compare, least = each["goal"]
    return {">=": each["value"] >= least, "<=": each["value"] <= least, "==": each["value"] == least}[compare]


def number(value):
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(machine, steps, figures):
    """Text of what was run, then of what was measured."""
    lines = [f"{key}: {value}" for key, value in machine.items()]
    lines += ["", f"{'step':28} {'status':8} {'seconds':>8}  remark"]
    for step in steps:
        lines.append(f"{step['name']:28} {step['status']:8} {step['seconds']:8.1f}  {step['remark']}".rstrip())
    if not figures:
        return "\n".join(lines + ["", "no figures"])
    width = max(len(each["what"]) for each in figures)
    lines += ["", f"{'figure':{width}} {'':>10} {'':5} goal"]
    for each in figures:
        goal = ""
        if "goal" in each:
            compare, value = each["goal"]
            goal = f"{compare} {number(value)}: {'met' if is_met(each) else 'MISSED'}"
        lines.append(f"{each['what']:{width}} {number(each['value']):>10} {each['unit']:5} {goal}".rstrip())
    return "\n".join(lines)
