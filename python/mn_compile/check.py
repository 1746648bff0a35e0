"""Compares the libraries of a program with their graphs, on the example inputs of the program. Inductor has faults that
give wrong numbers in silence, or write outside of arrays; therefore another process runs the libraries."""
import os
import signal

import torch
from torch import fx
from torch.utils import _pytree as pytree

# How far a library may be from its graph, of the norm. Rounding and a changed order of sums explain no more.
TOLERANCE = {"fp32": 1e-2, "bf16": 1e-1}


class Recorder(fx.Interpreter):
    """Runs a graph: node -> value, for the nodes that are inputs of segments."""

    def __init__(self, graph_module, segments):
        super().__init__(graph_module)
        self.of, self.wanted = {}, {each for segment in segments for each in segment.inputs}

    def run_node(self, node):
        value = super().run_node(node)
        if node in self.wanted:
            self.of[node] = value.clone()  # the graph may write to it later
        return value


def in_order(tensor, order):
    """A copy whose strides have the order of a dense tensor."""
    if order is None:
        return tensor.clone(memory_format=torch.contiguous_format)
    inverse = [order.index(dim) for dim in range(len(order))]
    return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(inverse)


def norm(tensor):
    return torch.nan_to_num(tensor, 0, 0, 0).to(torch.float64).norm().item()


def are_close(given, wanted, tolerance):
    if given is None:
        return False
    pairs = [(a, b) for a, b in zip(given, wanted, strict=True) if b.is_floating_point()]
    largest = max((norm(b) for _, b in pairs), default=0)
    for a, b in pairs:
        difference = torch.where((a == b) | (a.isnan() & b.isnan()), 0, a - b).to(torch.float64).norm().item()
        if not difference <= tolerance * max(norm(b), 1e-2 * largest):  # a NaN is not
            return False
    return True


class Pair:
    """Libraries, and the graphs of which they were made. `call`: how they are called (step.py)."""

    def __init__(self, segment, graphs, paths, call):
        self.segment, self.graphs, self.paths, self.call = segment, graphs, paths, call

    def run(self, which, arguments):
        """The results of the graph, and those of the library, or None."""
        wanted = self.graphs[which](*arguments)
        try:
            return wanted, torch._C._aoti.AOTIModelContainerRunnerCpu(self.paths[which], 1).run(list(arguments))
        except RuntimeError:
            return wanted, None

    def is_right(self, inputs, tolerance):
        inputs = [in_order(each, form["order"]) for each, form in zip(inputs, self.call["inputs"], strict=True)]
        outputs, given = self.run(0, inputs)
        if not are_close(given, outputs, tolerance):
            return False
        if not self.graphs[1]:
            return True
        sources = {"inputs": inputs, "outputs": outputs}
        saved = [in_order(sources[each["from"]][each["index"]], each["order"]) for each in self.call["saved"]]
        tangents = [in_order(torch.randn_like(outputs[each["output"]]), each["order"]) for each in self.call["tangents"]]
        gradients, given = self.run(1, saved + tangents)
        return are_close(given, gradients, tolerance)


def check_all(program, pairs, precision, autocast, report):
    """Reports "begins N" before the check of each pair. Ends with "wrong N" at one that is wrong: it may have written
    outside of its arrays."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    flat = program._graph_module_flat_inputs(*program.example_inputs)
    recorder = Recorder(program.graph_module, [pair.segment for pair in pairs.values()])
    with autocast():
        recorder.run(*pytree.tree_map_only(torch.Tensor, torch.clone, flat))
    for number, pair in pairs.items():
        report(f"begins {number}")
        try:
            if not pair.is_right([recorder.of[each] for each in pair.segment.inputs], TOLERANCE[precision]):
                return report(f"wrong {number}")
        except Exception:  # the graph does not run operator by operator: nothing to compare with
            continue


def run_child(*arguments):
    """The lines that check_all() reports in a process of its own, and whether a signal ended the process."""
    ours, others = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(ours)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library that crashes prints
        try:
            with torch.no_grad():
                check_all(*arguments, lambda line: os.write(others, f"{line}\n".encode()))
        finally:
            os._exit(0)
    os.close(others)
    with open(ours) as lines:
        reported = lines.read().splitlines()
    status = os.waitpid(process, 0)[1]
    return reported, os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL  # which ends a process without memory


def find_wrong(program, pairs, precision, autocast):
    """number -> what is wrong with the libraries of this pair. `pairs`: number -> Pair."""
    wrong, pending = {}, dict(pairs)
    while pending:
        lines, crashed = run_child(program, pending, precision, autocast)
        if not lines or not (crashed or lines[-1].startswith("wrong")):
            break
        numbers = [int(line.split()[1]) for line in lines]
        wrong[numbers[-1]] = "its library " + ("crashes" if crashed else "computes wrong numbers")
        pending = {number: pair for number, pair in pending.items() if number not in numbers}
    return wrong
