"""What the tests of jobs/exported share: exports and datasets, jobs, and their losses beside Python's."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from safetensors_file import load  # noqa: E402

BUILD, SOURCE = os.environ["MN_BUILD_DIR"], os.environ["MN_SOURCE_DIR"]
SAMPLES, EPOCHS = 48, 4
TOLERANCE = 1e-4


def export(name, model, *args, batch=torch.export.Dim("batch", min=2, max=4096), more=None):
    """`more`: sizes of the inputs that vary beside their number of samples."""
    shapes = tuple({0: batch, **(more or {})} for _ in args) if batch is not None else None
    torch.export.save(torch.export.export(model, args, dynamic_shapes=shapes, strict=False), name)


def write_idx(path, tensor):
    with open(path, "wb") as file:
        file.write(struct.pack(f">I{tensor.dim()}I", 0x800 + tensor.dim(), *tensor.shape) + bytes(tensor.flatten().tolist()))


def make_shards(name, data, labels):
    write_idx("data.idx", data)
    write_idx("labels.idx", labels)
    subprocess.run([f"{BUILD}/mnshard", "idx", "data.idx", "labels.idx", "--out", name], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)


def make_fields(name, **fields):
    """A dataset with these fields."""
    import h5py
    with h5py.File(f"{name}.h5", "w") as file:
        for field, values in fields.items():
            file[field] = values.numpy()
    names = [argument for field in fields for argument in ("--field", f"{field}=/{field}")]
    subprocess.run([f"{BUILD}/mnshard", "index", f"{name}.h5", *names, "--out", name], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)


def run(ranks, *args):
    libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    done = subprocess.run([f"{SOURCE}/tests/support/mpiexec", str(ranks), f"{BUILD}/jobs/exported", "--device", "cpu",
                           *args], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, LD_LIBRARY_PATH=libraries) if "--operators" in args else None)
    return done.returncode, done.stdout + done.stderr


def train(ranks, *args):
    """The log, and the weights."""
    status, output = run(ranks, "--out", f"out{ranks}", *args)
    assert status == 0, output
    with open(f"out{ranks}/log") as log:
        return json.load(log), load(f"out{ranks}/model.safetensors")


def compare(model, data, loss_of, optimizer, *args, validation=None, on=(3,)):
    """Trains on so many ranks, whose minibatches are all of the samples together, and in Python. `data` is the model's
    input, or a tuple of several."""
    inputs = data if isinstance(data, tuple) else (data,)
    export("model.pt2", model.train(), *(each[:3] for each in inputs))
    expected = []
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = loss_of(model(*inputs), data)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    with torch.no_grad():
        final = loss_of(model.eval()(validation), validation).item() if validation is not None else None
    trained = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for ranks in on:
        log, weights = train(ranks, "--model", "model.pt2", "--epoch", str(EPOCHS), "--batchsize",
                             str(SAMPLES // ranks), *args)
        losses = [entry["main/loss"] for entry in log]
        print(f"{ranks} ranks: {losses}, in Python {expected}")
        assert len(losses) == EPOCHS and all(abs(a - b) <= TOLERANCE for a, b in zip(losses, expected))
        assert expected[-1] < expected[0], "it does not learn"
        assert ("validation/main/loss" in log[-1]) == (final is not None)
        if final is not None:
            assert abs(log[-1]["validation/main/loss"] - final) <= TOLERANCE, (log[-1], final)
        weights = {name: torch.view_as_complex(weights[name]) if trained[name].is_complex() else weights[name]
                   for name in weights}
        model.load_state_dict(weights, strict=True)  # what Python can take
        assert all(torch.allclose(trained[name], weights[name], atol=TOLERANCE) for name in weights), "weights differ"


def run_cases(cases):
    """Each in a folder of its own; one process, because Python takes seconds to load torch."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for case in cases:
        torch.manual_seed(6)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(case.__name__, flush=True)
            case()
            os.chdir("/")
    print(f"{len(cases)} passed, 0 failed")
