"""What the programs of `prove` print, as figures; and figures as a table.

A figure is a dictionary: "what", "value", "unit", and where there is one the "goal", a pair of ">=" or "<=" or "==" and a
number.
"""
import json
import re

GOALS = {
    "gpu tests that failed": ("==", 0),
    "pack float32 as float32, of a copy's bandwidth": (">=", 0.85),
    "ResNet-50, batch 64, mn eager, waits a step": ("==", 0),
    "ResNet-50, batch 256, mn eager, waits a step": ("==", 0),
    "ResNet-50, batch 64, mn graph, waits a step": ("==", 0),
    "ResNet-50, batch 256, mn graph, waits a step": ("==", 0),
}
TO_BEAT = "ResNet-50, batch 256, {}, images/s"


def figure(what, value, unit=""):
    return {"what": what, "value": value, "unit": unit}


def read_nccl_bench(text):
    """What nccl_bench printed: the least and the largest allreduce, and the kernel that packs."""
    ranks = re.search(r"^(\d+) ranks$", text, re.M)
    rows = re.findall(r"^ *(\d+) +([\d.]+) us +[\d.]+ GB/s +([\d.]+) GB/s", text, re.M)
    packs = re.findall(r"^pack float32 as (\w+) .*? ([\d.]+) GB/s, ([\d.]+) of the copy's$", text, re.M)
    copy = re.search(r"^copy +[\d.]+ us +([\d.]+) GB/s$", text, re.M)
    if not (ranks and rows and packs and copy):
        raise ValueError("nccl_bench printed another table")
    (least, least_us, _), (most, most_us, busbw) = rows[0], rows[-1]
    name = f"NCCL allreduce of {{}} bytes, {ranks[1]} ranks"
    figures = [figure(name.format(least), float(least_us), "us"), figure(name.format(most), float(most_us), "us")]
    if int(ranks[1]) > 1:
        figures.append(figure(name.format(most) + ", busbw", float(busbw), "GB/s"))
    figures.append(figure("copy within the GPU, read and written", float(copy[1]), "GB/s"))
    for wire, rate, part in packs:
        figures.append(figure(f"pack float32 as {wire}", float(rate), "GB/s"))
        figures.append(figure(f"pack float32 as {wire}, of a copy's bandwidth", float(part)))
    return figures


def read_resnet50(text):
    """What resnet50_step and resnet50.py printed: a JSON line for each batch size."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError("no line of figures")
    figures = []
    for line in lines:
        name = f"ResNet-50, batch {line['batch']}, {line['who']} {line['way']}, "
        name += f"{line['ranks']} ranks, " if line["ranks"] > 1 else ""
        figures += [figure(name + "images/s", line["images_per_second"]),
                    figure(name + "a step", line["step_ms"], "ms"),
                    figure(name + "host time of a step", line["host_ms"], "ms"),
                    figure(name + "waits a step", line["waits"]),
                    figure(name + "waited a step", line["waited_ms"], "ms")]
    return figures


def read_log(name, text):
    """From a job's OUT/log: the median rate of the epochs after the first, and the last validation."""
    entries = json.loads(text)
    rates = sorted(entry["images_per_second"] for entry in entries[1:])
    if not rates:
        raise ValueError("the log has fewer than two epochs")
    figures = [figure(f"{name}, images/s", rates[len(rates) // 2])]
    if "validation/main/accuracy" in entries[-1]:
        figures.append(figure(f"{name}, validation accuracy", entries[-1]["validation/main/accuracy"]))
    return figures


def with_goals(figures):
    """Adds the goals; what ResNet-50 must reach is what torch.compile reaches in the same run."""
    goals = dict(GOALS)
    values = {each["what"]: each["value"] for each in figures}
    if (compiled := values.get(TO_BEAT.format("torch compile"))) is not None:
        goals[TO_BEAT.format("mn eager")] = (">=", compiled)
        goals[TO_BEAT.format("mn graph")] = (">=", compiled)
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
