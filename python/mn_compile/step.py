"""Compiles a function of tensors into a forward and a backward library.

(1) The backward library takes inputs and outputs of the forward library, and gradients of outputs; its graph has no
    further inputs. What it needs of a size, it takes from the shape of a tensor.
(2) Random numbers depend on nothing but the input `seeds`: one number for each place that draws.
(3) The strides of all tensors between the libraries are those of the traced graphs. A call names them as an order of
    dimensions, and the caller holds to the order. The tensors are dense.
"""
import contextlib

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_DTYPE as SERIALIZED_DTYPES
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.aot_autograd import _aot_export_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

SEEDS = torch.ops.prims.inductor_seeds.default


def fresh(value, grad):
    with contextlib.nullcontext() if grad else torch.no_grad():
        return value.detach().requires_grad_(grad and value.requires_grad)


def dense(value):
    """The tensor as the caller gives it: an expanded or sliced tensor is made contiguous."""
    return value if torch.ops.aten.is_non_overlapping_and_dense(value) else value.contiguous()


def order_of(value):
    """The dimensions from the slowest to the fastest; None if the tensor is contiguous."""
    strides = [int(each) if not isinstance(each, torch.SymInt) else each.node.hint for each in value.stride()]
    sizes = [int(each) if not isinstance(each, torch.SymInt) else each.node.hint for each in value.shape]
    order = sorted(range(value.dim()), key=lambda dim: (-strides[dim], -sizes[dim], dim))
    return None if order == list(range(value.dim())) or value.is_contiguous() else order


def form_of(node):
    """What the caller holds to: the dtype's number, the sizes (a name: any, but the same in all inputs), the order."""
    value = node.meta["val"]
    return {"dtype": SERIALIZED_DTYPES[value.dtype].value, "order": order_of(value),
            "sizes": [str(each) if isinstance(each, torch.SymInt) else each for each in value.shape]}


def trace(function, inputs, joint):
    """The graph of forward and backward, or of forward alone. An output may be a view that nothing else sees."""
    with contextlib.nullcontext() if joint else torch.no_grad():
        traced, facts, *_ = _aot_export_function(function, inputs, decompositions=select_decomp_table(), trace_joint=joint)
    if any(each.output_type not in (OutputType.non_alias, OutputType.unsafe_view_alias) for each in facts.output_info):
        raise RuntimeError("an output shares memory with another tensor")
    if any(each.mutates_data or each.mutates_metadata for each in facts.input_info):
        raise RuntimeError("it writes to an input")
    return traced


def take_seeds(graph_module, seeds):
    """Replaces the draws of seeds by the placeholder `seeds`. Returns the number of seeds."""
    count = 0
    for node in list(graph_module.graph.find_nodes(op="call_function", target=SEEDS)):
        if count:
            raise RuntimeError("random numbers on several devices")
        count = node.args[0]
        seeds.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(seeds)
        graph_module.graph.erase_node(node)
    if not count:
        graph_module.graph.erase_node(seeds)
    graph_module.recompile()
    return count


def compute_size(graph, value, known):
    """A node with the size; `known`: sympy expression -> (tensor's node, dimension)."""
    def add(target, *arguments):
        node = graph.call_function(target, arguments)
        node.meta["val"] = target(*fx.node.map_arg(arguments, lambda each: each.meta["val"]))
        return node

    expression = value.node.expr
    if expression in known:
        return add(torch.ops.aten.sym_size.int, *known[expression])
    if not expression.free_symbols <= known.keys():
        raise RuntimeError(f"the size {value} is not a size of a tensor")
    tracer = fx.proxy.GraphAppendingTracer(graph)
    sizes = {symbol: fx.Proxy(add(torch.ops.aten.sym_size.int, *known[symbol]), tracer) for symbol in expression.free_symbols}
    result = sympy_interp(PythonReferenceAnalysis, sizes, expression).node
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta:
            node.meta["val"] = node.target(*fx.node.map_arg(node.args, lambda each: each.meta["val"]))
    return result


def replace_sizes(graph_module):
    """Replaces inputs that are sizes by sizes of the tensors among the inputs (1)."""
    graph = graph_module.graph
    tensors = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta["val"], torch.Tensor)]
    known = {size.node.expr: (each, dim) for each in tensors for dim, size in enumerate(each.meta["val"].shape)
             if isinstance(size, torch.SymInt)}
    for node in graph.find_nodes(op="placeholder"):
        if node in tensors:
            continue
        if node.users:
            with graph.inserting_before(next(each for each in graph.nodes if each.op != "placeholder")):
                node.replace_all_uses_with(compute_size(graph, node.meta["val"], known))
        graph.erase_node(node)
    graph_module.recompile()


def placeholders(graph_module):
    return list(graph_module.graph.find_nodes(op="placeholder"))


def set_outputs(graph_module, nodes):
    output = next(iter(graph_module.graph.find_nodes(op="output")))
    output.args = (tuple(nodes),)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def results(graph_module):
    return pytree.tree_leaves(next(iter(graph_module.graph.find_nodes(op="output"))).args)


def sources(node):
    """The names of the nodes on which a node depends."""
    found, pending = {node}, [node]
    while pending:
        more = set(pending.pop().all_input_nodes) - found
        found |= more
        pending += more
    return {each.name for each in found}


class Step:
    """The graphs of a function: forward, backward (None without gradients), and how they are called:
    seeds: number of seeds, the last input of forward; outputs: number of outputs that the caller gets;
    saved: for each first input of backward, "inputs" or "outputs" of forward and an index;
    trained: inputs that require gradients;
    tangents: outputs whose gradients backward takes; gradients: inputs whose gradients backward returns, each with the
    tangents on which it depends."""

    def __init__(self, function, inputs, fake_mode, autocast, grad):
        with fake_mode:
            inputs = [fresh(dense(each), grad) for each in inputs]
        self.trained = [i for i, each in enumerate(inputs) if each.requires_grad]
        with fake_mode:
            seeds = torch.empty(1, dtype=torch.int64, device=inputs[0].device if inputs else "cpu")

        def call(*given):
            with autocast():
                return tuple(function(*given[:-1]))

        with fake_mode, enable_python_dispatcher():  # some operators compute symbolic sizes in Python only
            differentiable = [i for i, each in enumerate(call(*inputs, seeds)) if each.requires_grad]
        traced = trace(call, (*inputs, seeds), joint=bool(differentiable))
        with V.set_fake_mode(fake_mode):
            joint_graph_passes(traced)
        # The placeholders are the primals, with the seeds last, and the tangents.
        primals = placeholders(traced)[:len(inputs) + 1]
        names = [each.name for each in primals]
        self.seeds = take_seeds(traced, primals[-1])
        self.saved, self.tangents, self.gradients, self.backward = [], [], [], None
        if differentiable:
            self.partition(traced, names, differentiable)
        else:
            self.forward, self.outputs = traced, len(results(traced))

    def partition(self, joint, names, differentiable):
        self.outputs = len(results(joint)) - len(names)
        gradients = results(joint)[self.outputs:-1]
        tangents = [each.name for each in placeholders(joint) if each.name.startswith("tangents")]
        self.gradients = [{"input": i, "tangents": sorted(tangents.index(name) for name in sources(each) if name in tangents)}
                          for i, each in enumerate(gradients) if each is not None]
        self.forward, self.backward = min_cut_rematerialization_partition(
            joint, None, num_fwd_outputs=self.outputs, compiler="inductor")
        set_outputs(self.backward, [each for each in results(self.backward) if each is not None])
        replace_sizes(self.backward)
        made = {each.name: each for each in self.forward.graph.nodes}
        kept = results(self.forward)[:self.outputs]
        for each in placeholders(self.backward):
            if each.name in tangents:
                continue
            if each.name in names:
                source = ["inputs", names.index(each.name)]
            else:
                node = made[each.name]
                if node not in kept:
                    kept.append(node)
                source = ["outputs", kept.index(node)]
            each.meta["val"] = dense(each.meta["val"])
            self.saved.append({"from": source[0], "index": source[1], "order": order_of(each.meta["val"])})
        set_outputs(self.forward, kept)
        self.tangents = [{"output": differentiable[tangents.index(each.name)], **form_of(each)}
                         for each in placeholders(self.backward) if each.name in tangents]

    def compile(self, options):
        """Returns the paths of the forward and the backward library, and the libraries' description for C++."""
        paths = [torch._inductor.aot_compile(graph, tuple(each.meta["val"] for each in placeholders(graph)),
                                             options=options) if graph else None
                 for graph in (self.forward, self.backward)]
        inputs = [form_of(each) for each in placeholders(self.forward)]
        return *paths, {"inputs": inputs[:-1] if self.seeds else inputs, "seeds": self.seeds, "outputs": self.outputs,
                        "trained": self.trained, "saved": self.saved, "tangents": self.tangents, "gradients": self.gradients}
