"""mn-compile: makes a package (.mnc) of a model, for jobs/exported and mn::CompiledModel."""
import argparse
import importlib.util
import json
import os
import pathlib
import shlex
import sys
import warnings


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="mn-compile", description="Compiles a model for training at torch.compile's speed in C++ (docs/compiled.md).")
    parser.add_argument("--model", metavar="FILE",
                        help="file.py:FUNCTION, which returns the module and its example inputs (a tuple, or a dict of "
                             "keyword arguments); or a file of torch.export.save (.pt2), exported in training mode")
    parser.add_argument("--network", choices=("gpt", "llama", "resnet"), help="in place of --model: a network of mn's jobs")
    parser.add_argument("--sizes", metavar="JSON", help="sizes of --network, from a job's message")
    parser.add_argument("--out", required=True, metavar="FILE.mnc")
    parser.add_argument("--evaluation-model", metavar="FILE.pt2", help="the same model exported in evaluation mode")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32",
                        help="bf16: autocast is compiled in; weights stay float32")
    parser.add_argument("--threads", type=int, metavar="N", help="on CPUs: compute with N threads; default: any number")
    parser.add_argument("--block", action="append", default=[], metavar="PATTERN",
                        help="modules, such as 'layers.*', that are compiled alone; default: repeated equal modules")
    parser.add_argument("--fixed-batch", action="store_true", help="compile for the example's number of samples only")
    parser.add_argument("--import", action="append", default=[], metavar="MODULE", dest="modules",
                        help="a Python module with operators or classes of outputs of a .pt2 model, such as torchvision")
    parser.add_argument("--training-only", action="store_true", help="do not compile the graph for evaluation mode")
    return parser.parse_args()


def say(text):
    print(f"mn-compile: {text}", file=sys.stderr, flush=True)


def fail(text):
    say(text)
    sys.exit(2)


def load_function(name):
    path, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    if spec is None or not os.path.exists(path):
        fail(f"--model {name}: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(pathlib.Path(path).resolve().parent))
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        fail(f"--model {name}: {path} has no function {function}")
    return getattr(module, function)


def export(module, inputs, device, fixed):
    """The program of a module. Its number of samples varies, where torch can."""
    import torch
    module = module.to(device)
    arguments, named = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), None)
    arguments, named = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), (arguments, named))

    def trace(batch):
        sizes = torch.utils._pytree.tree_map(
            lambda x: {0: batch} if batch is not None and isinstance(x, torch.Tensor) and x.dim() else None, named or arguments)
        return torch.export.export(module, arguments, named, dynamic_shapes=sizes, strict=False)

    if not fixed:
        try:
            return trace(torch.export.Dim("batch", min=2, max=1 << 20))
        except Exception as error:  # torch's errors have no common class
            say(f"the number of samples is fixed: {first_line(error)}")
    return trace(None)


def first_line(error):
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def load_program(path):
    from torch.export.pt2_archive._package import load_pt2  # torch.export.load() hides the error
    try:
        return load_pt2(path).exported_programs["model"]
    except Exception as error:  # torch's errors have no common class
        fail(f"cannot load {path}: {first_line(error)[:120]}; give --import PACKAGE if a package adds operators or outputs")


def programs(given):
    """Functions that return the program for training, and that for evaluation (None: derived from training)."""
    if given.network:
        from . import networks
        module, inputs = networks.make(given.network, **json.loads(given.sizes))
    elif not given.model:
        fail("give --model or --network")
    elif given.model.endswith(".pt2"):
        evaluation = given.evaluation_model
        return (lambda: load_program(given.model)), evaluation and (lambda: load_program(evaluation))
    else:
        module, inputs = load_function(given.model)()
    return (lambda: export(module.train(), inputs, given.device, given.fixed_batch),
            lambda: export(module.eval(), inputs, given.device, given.fixed_batch))


def main():
    given = parse_arguments()
    warnings.filterwarnings("ignore")
    try:
        import torch
    except ImportError:
        fail(f"{sys.executable} has no torch: install the version of mn's libtorch, or set PYTHON")
    from . import package
    if given.device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: there is no GPU here: compile on the machine that trains")
    for name in given.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            fail(f"--import {name}: {error}")
    training, evaluation = programs(given)
    compiler = package.Compiler(given, say)
    program = compiler.lower(training(), training=True)
    compiler.derives_evaluation = evaluation is None
    other = (evaluation or training)()
    if evaluation and not given.training_only:
        with torch.no_grad():
            other = compiler.lower(other, training=False)
    package.write(given.out, program, other, compiler, shlex.join(["mn-compile", *sys.argv[1:]]))
    say(f"{given.out}: {len(compiler.libraries)} segments compiled, {len(compiler.graphs)} not")


if __name__ == "__main__":
    main()
