"""Divides the graph of an exported program into segments.

A segment is a run of neighboring nodes: one call of a repeated submodule (a block), or what lies between such calls.
Segments whose nodes, constants, shapes and strides are equal have equal keys, and share their libraries.
(1) A segment takes tensors only. Sizes are computed again within the segment, from the shapes of its inputs.
(2) A segment has no side effects: it works on copies of the tensors that it writes to, and returns the copies.
(3) No output shares memory with an input or with another output, and every output is dense.
"""
import collections
import fnmatch
import operator

import torch
from torch import fx
from torch.utils import _pytree as pytree

FEWEST_NODES = 4  # a smaller submodule is not worth a call of its own
LAYERS = ("TransformerEncoderLayer", "TransformerDecoderLayer")  # classes of torch.nn that are blocks
OPERATORS = ("aten.lstm.", "aten.gru.", "aten.rnn_tanh.", "aten.rnn_relu.", "aten.embedding_renorm_.")


class Unsupported(Exception):
    """A segment that remains a graph of operators, and the reason."""


class Values(fx.Interpreter):
    """Runs the graph on fake tensors: node -> value, node -> storages to which the node's operator writes, and the storages
    to which OPERATORS write."""

    def __init__(self, graph_module, inputs):
        super().__init__(graph_module)
        self.of, self.written, self.of_operators = {}, {}, set()
        self.run(*inputs)

    def run_node(self, node):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            arguments = node.target._schema.arguments
            given = {argument.name: each for argument, each in zip(arguments, node.args)} | node.kwargs
            moves = given.get("training", given.get("use_input_stats"))  # of a norm, whose schema does not say so
            names = {each.name for each in arguments if each.alias_info and each.alias_info.is_write} | (
                {"running_mean", "running_var"} if moves is True else set())
            self.written[node] = {storage(self.of[given[each]]) for each in names if given.get(each) is not None}
            if is_one_of(node, OPERATORS):
                self.of_operators |= self.written[node]
        value = super().run_node(node)
        self.of[node] = value
        return value


def storage(tensor):
    return tensor.untyped_storage()._cdata


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def is_number(value):
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def is_one_of(node, names):
    return str(node.target).startswith(names)


def is_check(node):
    return node.op == "call_function" and ("_assert" in str(node.target) or "sym_constrain" in str(node.target))


def modules_of(node):
    """[(path, class)] of the modules whose forward() has made the node, from the outside in."""
    stack = node.meta.get("nn_module_stack") or {}
    return [(path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
            for path, kind in stack.values() if path]


def modules_in(segment):
    """The first and the last module of a segment, as a text."""
    paths = [modules_of(node)[-1][0] for node in segment.nodes if modules_of(node)]
    return f" ({' … '.join(dict.fromkeys([paths[0], paths[-1]]))})" if paths else ""


def is_operator(node, values):
    """True if the node stays one call of libtorch: it writes to a parameter, or is a view for that; or Inductor's gradients
    are wrong on CPUs, as those of LSTM and of complex numbers are."""
    value = values.of[node]
    is_view = is_tensor(value) and storage(value) in values.of_operators
    tensors = [value, *(values.of.get(each) for each in node.all_input_nodes)]
    return is_one_of(node, OPERATORS) or is_view or any(is_tensor(each) and each.is_complex() for each in tensors)


def may_be_block(kind):
    return not kind.startswith("torch.nn.modules.") or kind.endswith(LAYERS)


class Segment:
    def __init__(self, nodes, path):
        self.nodes, self.path, self.name = nodes, path, path  # name: for messages
        self.inputs, self.outputs, self.mutated = [], [], []  # nodes of the whole graph


def ordered(graph, values):
    """The nodes that compute tensors, in order; parts of tuples directly after the tuple."""
    nodes = []
    for node in graph.nodes:
        if node.op in ("placeholder", "output", "get_attr") or is_check(node) or is_number(values.of[node]):
            continue
        if node.target is operator.getitem:
            continue
        nodes.append(node)
        pending = [node]
        while pending:
            parts = [user for user in pending.pop().users if user.target is operator.getitem]
            nodes += parts
            pending += parts
    return nodes


def runs(nodes, label):
    """[(label, neighboring nodes with this label)]"""
    result = []
    for node in nodes:
        if not result or result[-1][0] != label(node):
            result.append((label(node), []))
        result[-1][1].append(node)
    return result


def find_segments(graph, values, patterns):
    nodes = ordered(graph, values)
    found = collections.defaultdict(list)  # path of a module -> runs
    for path in {path for node in nodes for path, kind in modules_of(node) if may_be_block(kind)}:
        within = {node for node in nodes if path in (each for each, _ in modules_of(node))}
        found[path] = [run for is_within, run in runs(nodes, within.__contains__) if is_within]
    if patterns:
        chosen = {path for path in found if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)}
    else:
        keys = {path: key_of(run[0], values) for path, run in found.items()
                if len(run) == 1 and len(run[0]) >= FEWEST_NODES}
        counts = collections.Counter(keys.values())
        chosen = {path for path, key in keys.items() if counts[key] > 1}

    def label(node):
        return next((path for path, _ in modules_of(node) if path in chosen), ""), is_operator(node, values)

    labels = {}
    for node in nodes:  # parts of a tuple belong to the tuple's segment
        labels[node] = labels[node.args[0]] if node.target is operator.getitem else label(node)
    segments = [Segment(run, path) for (path, _), run in runs(nodes, labels.__getitem__)]
    for i, segment in enumerate(segments):
        segment.name = segment.path or f"part {i + 1} of {len(segments)}{modules_in(segment)}"
        connect(segment, values)
    return segments


def form(value):
    if is_tensor(value):
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}{value.device}{value.requires_grad}"
    return str(value)


def key_of(nodes, values):
    """Equal for segments that may share libraries."""
    numbers, text = {}, []

    def name(node):
        if node in numbers:
            return f"%{numbers[node]}"
        value = values.of.get(node)
        if is_tensor(value):
            numbers[node] = len(numbers)
            return f"%{numbers[node]}:{form(value)}"
        return f"{node.target if node.op == 'get_attr' else value}"

    for node in nodes:
        arguments = pytree.tree_map_only(fx.Node, name, (node.args, dict(node.kwargs)))
        numbers[node] = len(numbers)
        outside = [i for i, user in enumerate(node.users) if user not in nodes]
        text.append(f"{node.target}{arguments}{bool(outside)}")
    return "\n".join(text)


def connect(segment, values):
    """Finds the segment's inputs and outputs, and the inputs to which it writes."""
    own = set(segment.nodes)
    for node in segment.nodes:
        for each in node.all_input_nodes:
            if each not in own and is_tensor(values.of.get(each)) and each not in segment.inputs:
                segment.inputs.append(each)
        if is_tensor(values.of[node]) and any(user not in own and not is_check(user) for user in node.users):
            segment.outputs.append(node)
    written = set().union(*(values.written.get(node, ()) for node in segment.nodes))
    segment.mutated = [each for each in segment.inputs if storage(values.of[each]) in written]
    segment.key = key_of(segment.nodes, values)


def check(segment, values, graph):
    """Throws Unsupported if the segment can't be a function of tensors."""
    if not segment.inputs:
        raise Unsupported("it takes no tensors")
    for node in segment.nodes:
        value = values.of[node]
        if is_operator(node, values):
            raise Unsupported(f"{node.name} ({node.target}) is one operator of libtorch")
        if node.op != "call_function" or not (is_tensor(value) or isinstance(value, (tuple, list))):
            raise Unsupported(f"{node.name} ({node.target}) is not an operator on tensors")
    own = set(segment.nodes)
    order = {node: i for i, node in enumerate(graph.nodes)}
    for each in segment.mutated:
        if values.of[each].requires_grad:
            raise Unsupported(f"it writes to the parameter {each.name}")
        shared = [node for node, value in values.of.items()
                  if is_tensor(value) and node not in own and storage(value) == storage(values.of[each])]
        later = [node for node in shared if any(order[user] > order[segment.nodes[-1]] for user in node.users)]
        if len(shared) > 1 and later or each.op != "placeholder" and later:
            raise Unsupported(f"it writes to {each.name}, which is used elsewhere, too")
    elsewhere = set().union(*(written for node, written in values.written.items() if node not in own))
    storages = collections.Counter(storage(values.of[each]) for each in segment.inputs + segment.outputs)
    for each in segment.outputs:
        if storage(values.of[each]) in elsewhere and storages[storage(values.of[each])] > 1:
            raise Unsupported(f"{each.name} is a view to which another part writes")


def build(segment, values):
    """The segment as a GraphModule, which takes segment.inputs and returns segment.outputs and then the new values of
    segment.mutated. May add to segment.inputs a tensor whose shape tells a size."""
    graph, own, copies = fx.Graph(), {}, {}
    for each in segment.inputs:
        own[each] = graph.placeholder(each.name)
    for each in segment.mutated:
        copies[each] = own[each] = graph.call_function(torch.ops.aten.clone.default, (own[each],))

    def size(number):
        """A node with the value of a number of the whole graph."""
        value = values.of[number]
        if not isinstance(value, torch.SymInt):
            return value
        for each in segment.inputs:
            for dim, length in enumerate(values.of[each].shape):
                if isinstance(length, torch.SymInt) and length.node.expr == value.node.expr:
                    return graph.call_function(torch.ops.aten.sym_size.int, (own[each], dim))
        if number.op != "call_function":
            raise Unsupported(f"the size {number.name} is not a size of a tensor")
        return graph.node_copy(number, resolve)

    def resolve(node):
        if node in own:
            return own[node]
        if is_number(values.of.get(node)):
            own[node] = size(node)
        elif node.op == "get_attr":
            own[node] = graph.get_attr(node.target)
        elif is_tensor(values.of.get(node)) and node not in segment.nodes:
            with graph.inserting_before(next(iter(graph.nodes))):
                own[node] = graph.placeholder(node.name)
            segment.inputs.insert(0, node)
        else:
            raise Unsupported(f"{node.name} is not a tensor")
        return own[node]

    for node in segment.nodes:
        own[node] = graph.node_copy(node, resolve)
    results, seen = [], {storage(values.of[each]) for each in segment.inputs}
    for node in segment.outputs:
        value, result = values.of[node], own[node]
        if storage(value) in seen:
            result = graph.call_function(torch.ops.aten.clone.default, (result,))
        elif not torch.ops.aten.is_non_overlapping_and_dense(value):
            result = graph.call_function(torch.ops.aten.contiguous.default, (result,))
        seen.add(storage(value))
        results.append(result)
    graph.output(tuple(results + [copies[each] for each in segment.mutated]))
    return fx.GraphModule(values.module, graph)
