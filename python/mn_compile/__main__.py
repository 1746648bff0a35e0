"""mn-compile: makes a package (.mnc) of a model, for jobs/exported and mn::CompiledModel."""
import argparse
import contextlib
import ctypes
import importlib.util
import io
import json
import logging
import os
import pathlib
import shlex
import signal
import sys
import traceback
import warnings

from . import first_line

PR_SET_PDEATHSIG = 1  # of Linux


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
    parser.add_argument("--torch", metavar="VERSION", help="end at once if Python's torch is another, such as 2.11.0")
    parser.add_argument("--training-only", action="store_true", help="do not compile the graph for evaluation mode")
    given = parser.parse_args()
    check_arguments(given)
    return given


def check_arguments(given):
    """Ends with a line for what would fail after minutes."""
    if bool(given.network) == bool(given.model):
        fail("give --model or --network")
    if given.network and not given.sizes:
        fail("--network needs --sizes")
    if given.threads is not None and given.threads < 1:
        fail(f"--threads is {given.threads}: give a number of at least 1")
    for name in (given.model, given.evaluation_model):
        if name and name.endswith(".pt2") and not os.path.isfile(name):
            fail(f"there is no file {name}")
    if given.model and not given.model.endswith(".pt2") and ":" not in given.model:
        fail(f"--model {given.model}: give FILE.py:FUNCTION, or a file that ends in .pt2")
    folder = os.path.dirname(os.path.abspath(given.out))
    if os.path.isdir(given.out) or not os.path.isdir(folder):
        fail(f"--out {given.out}: " + ("is a folder" if os.path.isdir(given.out) else f"there is no folder {folder}"))


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
    with one_line(f"--model {name}"):
        spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        fail(f"--model {name}: {path} has no function {function}")
    return getattr(module, function)


@contextlib.contextmanager
def one_line(what):
    """Ends with one line if the user's own code fails."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        fail(f"{what}: {type(error).__name__}: {first_line(error)} ({frame.filename}:{frame.lineno})")


def make_module(name):
    import torch
    make = load_function(name)
    with one_line(f"--model {name}"):
        made = make()
    is_pair = isinstance(made, tuple) and len(made) == 2
    if not is_pair or not isinstance(made[0], torch.nn.Module) or not isinstance(made[1], (tuple, list, dict)):
        fail(f"--model {name}: it returns no pair of a module and a tuple or dict of example inputs")
    return made


def place_of(error, model):
    """The innermost module of the model that was called when the error arose, and the line there."""
    names, place = {id(module): name for name, module in model.named_modules()}, ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = names.get(id(frame.f_locals.get("self")))
        if name is not None:
            place = f" in {name or type(model).__name__} ({frame.f_code.co_filename}:{line})"
    return place


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

    reason = ""
    for batch in (None,) if fixed else (torch.export.Dim("batch", min=2, max=1 << 20), None):
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # where torch prints the graph of a failure
                program = trace(batch)
        except Exception as error:  # torch's errors have no common class
            reason = first_line(error) + place_of(error, module)
            continue
        if reason:
            say(f"the number of samples is fixed: {reason}")
        return program
    fail(f"torch.export cannot trace the model: {reason}")


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
        with one_line(f"--sizes {given.sizes}"):
            module, inputs = networks.make(given.network, **json.loads(given.sizes))
    elif given.model.endswith(".pt2"):
        evaluation = given.evaluation_model
        return (lambda: load_program(given.model)), evaluation and (lambda: load_program(evaluation))
    else:
        module, inputs = make_module(given.model)
    return (lambda: export(module.train(), inputs, given.device, given.fixed_batch),
            lambda: export(module.eval(), inputs, given.device, given.fixed_batch))


def require_tools(given):
    """Ends with a line if something is missing that compiling needs."""
    try:
        import torch
    except ImportError:
        fail(f"{sys.executable} has no torch: install the version of mn's libtorch, or set PYTHON")
    if given.torch and given.torch != torch.__version__.split("+")[0]:
        fail(f"{sys.executable} has torch {torch.__version__}, but --torch is {given.torch}: install that, or set PYTHON")
    torch.set_num_threads(1)  # without a pool of threads, a fork computes with any number (check.py)
    from torch._inductor import cpp_builder
    try:
        cpp_builder.get_cpp_compiler()
    except Exception as error:
        fail(f"there is no C++ compiler (g++, or the one that CXX names): {first_line(error)}")
    if given.device == "cuda" and not torch.cuda.is_available():
        fail("--device cuda: there is no GPU here: compile on the machine that trains")
    for name in given.modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            fail(f"--import {name}: {error}")


def main():
    given = parse_arguments()
    if given.network:  # a job waits for this process; it ends with the job
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)  # torch's tracebacks, beside the exceptions that are caught here
    require_tools(given)
    from . import package
    training, evaluation = programs(given)
    compiler = package.Compiler(given, say)
    program = compiler.lower(training(), training=True)
    compiler.derives_evaluation = evaluation is None
    other = (evaluation or training)()
    if evaluation and not given.training_only:
        import torch
        with torch.no_grad():
            other = compiler.lower(other, training=False)
    package.write(given.out, program, other, compiler, shlex.join(["mn-compile", *sys.argv[1:]]))
    say(f"{given.out}: {len(compiler.libraries)} segments compiled, {len(compiler.graphs)} not")


if __name__ == "__main__":
    main()
