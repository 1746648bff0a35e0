"""Writes a package (.mnc): a file of torch.export.save in whose graphs calls of libraries replace segments, and beside
its records

  compiled/metadata.json    what the package is for, and how each library is called
  compiled/N.forward.so     libraries; compiled/N.backward.so
  models/evaluation.json    the graph for evaluation mode

Segments that can't be compiled remain graphs of operators.
"""
import contextlib
import copy
import functools
import io
import json
import operator
import os
import pathlib
import time
import traceback
import zipfile

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.export.graph_signature import InputKind, OutputKind

from . import check, first_line, split
from .step import Step

torch.library.define("mn::compiled", "(Tensor[] inputs, str library) -> Tensor[]")
CALL = torch.ops.mn.compiled.default
FORMAT = 2
BATCH_NORMS = ("aten.batch_norm.default", "aten.native_batch_norm.default", "aten.instance_norm.default")


def capability(device):
    """What the libraries need of a processor."""
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return f"sm_{major}{minor}"
    return torch.backends.cpu.get_cpu_capability()


def processor_flags(device):
    """The instructions that the C++ compiler, called with -march=native, may use."""
    families = ("avx", "amx", "bmi", "fma", "f16c", "gfni", "movbe", "vaes", "vpclmul")
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if device == "cpu" else ()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ())
    return [flag for flag in flags if flag.startswith(families)]


def clear_pending(fake_mode):
    """Sizes that depend on data, and that one segment has made, are no fault of another."""
    if fake_mode.shape_env:
        fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()


def reason_of(error):
    """The first line of an error of torch or g++, and its place if the line says nothing."""
    text = first_line(next((line for line in str(error).splitlines() if "error: " in line), error))
    if error.__traceback__ and (text.endswith(":") or " " not in text):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text += f" {pathlib.Path(frame.filename).name}:{frame.lineno}"
    return text


class Compiler:
    """Compiles programs for one package; equal segments of its programs share libraries. `given`: the arguments of
    mn-compile."""

    def __init__(self, given, say):
        self.device, self.precision, self.patterns, self.say = given.device, given.precision, given.block, say
        self.numbers, self.libraries, self.records, self.graphs = {}, {}, {}, []  # numbers: key -> number or error
        self.has_batch_norm, self.derives_evaluation = False, False
        enabled = self.precision == "bf16"
        self.autocast = functools.partial(torch.autocast, self.device, torch.bfloat16) if enabled else contextlib.nullcontext
        threads = {"cpp.threads": given.threads} if given.threads else {"cpp.dynamic_threads": True}
        self.network = {"type": given.network, "sizes": json.loads(given.sizes)} if given.network else None
        self.options = threads if self.device == "cpu" else {"aot_inductor.embed_kernel_binary": True}

    def lower(self, program, training):
        """Replaces segments of the program by calls of libraries. `training`: with gradients."""
        graph_module = program.graph_module
        graph = graph_module.graph
        trained = {each.arg.name for each in program.graph_signature.input_specs if each.kind == InputKind.PARAMETER
                   and program.state_dict[each.target].requires_grad}
        inputs = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
        fake_mode = next(each.fake_mode for each in inputs if split.is_tensor(each))
        with fake_mode, enable_python_dispatcher(), self.autocast():
            inputs = [each.detach().requires_grad_(training and node.name in trained) if split.is_tensor(each) else each
                      for node, each in zip(graph.find_nodes(op="placeholder"), inputs)]
            values = split.Values(graph_module, inputs)
        clear_pending(fake_mode)
        for node in graph.nodes:
            self.has_batch_norm |= training and str(node.target) in BATCH_NORMS and node.args[5] is True
        segments = split.find_segments(graph, values, self.patterns)
        if self.patterns and not any(segment.path for segment in segments):
            self.say(f"--block {' '.join(self.patterns)} names no module that computes by itself")
        numbers, pairs = {}, {}
        for segment in segments:
            try:
                split.check(segment, values, graph)
                numbers[segment] = self.library(segment, values, fake_mode, training, pairs)
            except Exception as error:  # of torch's compilers, too: the segment remains a graph
                clear_pending(fake_mode)
                self.keep_graph(segment, reason_of(error))
        if self.device == "cpu" and program.example_inputs:
            self.remove_wrong(program, pairs, numbers)
        replaced = {}
        for segment, number in numbers.items():
            replace(graph, segment, values, str(number), replaced)
        for node in reversed(list(graph.nodes)):
            if split.is_check(node):
                graph.erase_node(node)
        graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or not split.is_number(
            values.of.get(node)) and node.is_impure())
        return rebuilt(program, {each.name: value.name for each, value in replaced.items()})

    def keep_graph(self, segment, reason):
        self.graphs.append({"path": segment.name, "reason": reason})
        self.say(f"{segment.name}: not compiled, runs operator by operator: {reason}")

    def library(self, segment, values, fake_mode, training, pairs):
        """The number of the segment's libraries. Adds new ones to `pairs`."""
        function = split.build(segment, values)  # may add inputs, in segments of equal keys the same
        key = f"{training}\n{segment.key}"
        if key not in self.numbers:
            try:
                step = Step(function, [values.of[each] for each in segment.inputs], fake_mode, self.autocast, training)
                self.numbers[key] = self.compile(segment, step, training, pairs)
            except Exception as error:
                self.numbers[key] = error
        if isinstance(self.numbers[key], Exception):
            raise self.numbers[key]
        return self.numbers[key]

    def compile(self, segment, step, training, pairs):
        begin, number = time.monotonic(), len(self.numbers)
        graphs = copy.deepcopy((step.forward, step.backward))  # Inductor changes its own
        forward, backward, call = step.compile(self.options)
        for name, path in (("forward", forward), ("backward", backward)):
            for end in (".so", ".json") if path else ():
                file = pathlib.Path(path).with_suffix(end)
                if file.exists():
                    self.records[f"compiled/{number}.{name}{end}"] = file.read_bytes()
        self.libraries[str(number)] = {"path": segment.name, **call}
        if not call["seeds"]:  # the graph alone draws other random numbers
            pairs[number] = check.Pair(segment, graphs, (forward, backward), call)
        self.say(f"{segment.name}: compiled for {'training' if training else 'evaluation'} in "
                 f"{time.monotonic() - begin:.0f} s")
        return number

    def remove_wrong(self, program, pairs, numbers):
        """Removes libraries that are wrong; their segments remain graphs. `numbers`: segment -> number of its libraries."""
        for number, reason in check.find_wrong(program, pairs, self.precision, self.autocast).items():
            for segment in [each for each in numbers if numbers[each] == number]:
                del numbers[segment]
                self.keep_graph(segment, reason)
            del self.libraries[str(number)]
            self.records = {name: code for name, code in self.records.items() if not name.startswith(f"compiled/{number}.")}

    def metadata(self, command):
        return {"format": FORMAT, "torch": torch.__version__.split("+")[0], "device": self.device,
                "capability": capability(self.device), "flags": processor_flags(self.device),
                "precision": self.precision, "network": self.network, "command": command, "batch_norm": self.has_batch_norm,
                "derives_evaluation": self.derives_evaluation, "libraries": self.libraries, "graphs": self.graphs}


def replace(graph, segment, values, library, replaced):
    """Replaces the segment by a call. `replaced`: nodes of the graph and what stands in their place."""
    made = segment.outputs + segment.mutated
    with graph.inserting_before(segment.nodes[0]):
        call = graph.call_function(CALL, ([replaced.get(each, each) for each in segment.inputs], library))
        call.meta["val"] = [values.of[each].detach() for each in made]
        for i, each in enumerate(made):
            result = graph.call_function(operator.getitem, (call, i))
            result.meta["val"] = call.meta["val"][i]
            if each.op == "placeholder":
                graph.call_function(torch.ops.aten.copy_.default, (each, result)).meta["val"] = values.of[each]
                continue
            replaced.get(each, each).replace_all_uses_with(result, lambda user: user is not call)
            replaced[each] = result
    for node in reversed(segment.nodes):
        for user in list(node.users):
            graph.erase_node(user)  # a check, or a size that nothing uses
        graph.erase_node(node)


def rebuilt(program, names):
    """The program with its changed graph, whose outputs have new names."""
    for spec in program.graph_signature.output_specs:
        if spec.kind == OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in names:
            spec.arg.name = names[spec.arg.name]
    program.graph_module.recompile()
    return torch.export.ExportedProgram(
        root=program.graph_module, graph=program.graph, graph_signature=program.graph_signature,
        state_dict=program.state_dict, range_constraints=program.range_constraints,
        module_call_graph=[each for each in program.module_call_graph if not each.fqn], example_inputs=None,
        constants=program.constants, verifiers=program.verifiers)


def records_of(program):
    """name -> bytes of the records of torch.export.save, without the archive's folder."""
    saved = io.BytesIO()
    torch.export.save(program, saved)
    with zipfile.ZipFile(saved) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path, program, evaluation, compiler, command):
    """Writes the file; `evaluation` is the program for evaluation mode, compiled or not."""
    records = {name: content for name, content in records_of(program).items() if "sample_inputs" not in name}
    others = records_of(evaluation)
    records["models/evaluation.json"] = others["models/model.json"]
    for name, content in others.items():  # constants that only evaluation has
        if name.startswith("data/constants/"):
            records[name.replace("constants/", "evaluation/", 1)] = content
    records |= compiler.records
    records["compiled/metadata.json"] = json.dumps(compiler.metadata(command)).encode()
    partial = pathlib.Path(f"{path}.{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        for name, content in records.items():
            archive.writestr("package/" + name, content)
    partial.chmod(partial.stat().st_mode & ~0o022)  # a package that others may write to is not loaded
    partial.replace(path)
