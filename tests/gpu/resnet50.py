#!/usr/bin/env python3
"""The time of a training step of ResNet-50 in Python's torch on made-up images, for comparison with resnet50_step: the
same network, precision (bf16 autocast, channels_last), batch and optimizer; one JSON line for each batch size.

Ways: eager; graph, where the whole step is one CUDA graph; compile, where the model goes through torch.compile.
Run alone it is one process. With RANK and WORLD_SIZE set, as mnlaunch sets them, DistributedDataParallel averages gradients (eager only).
"""
import argparse
import json
import os
import sys

import torch
from torch import nn

from step_timing import WARM_UP, measure


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + identity)


class ResNet(nn.Module):
    """K. He et al., 2015, with the stride in the 3 × 3 convolutions."""

    def __init__(self, blocks, width):
        super().__init__()
        layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                  nn.MaxPool2d(3, 2, 1)]
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(channels, width << stage, 2 if stage > 0 and block == 0 else 1))
                channels = 4 * width << stage
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class Training:
    def __init__(self, options, batch, device, distributed):
        torch.manual_seed(0)
        self.device = device
        self.images = torch.randn(batch, 3, options.image_size, options.image_size, device=device)
        self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.target = torch.randint(1000, (batch,), device=device)
        self.precision = options.precision
        self.model = ResNet([int(n) for n in options.blocks.split(",")], options.width).to(device)
        self.model = self.model.to(memory_format=torch.channels_last)
        if distributed:
            self.model = nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        if options.way == "compile":
            self.model = torch.compile(self.model)
        weights = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.SGD([{"params": weights, "weight_decay": 1e-4}, {"params": others}], lr=0.1,
                                         momentum=0.9)
        self.step = self.capture() if options.way == "graph" else self.eager_step

    def eager_step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            logits = self.model(self.images)
        nn.functional.cross_entropy(logits.float(), self.target).backward()
        self.optimizer.step()

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.eager_step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.eager_step()
        return self.graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["eager", "graph", "compile"], default="eager")
    parser.add_argument("--batches", default="64,256", help="samples of a minibatch, one after the other")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--blocks", default="3,4,6,3", help="of each stage")
    parser.add_argument("--width", type=int, default=64, help="of the first stage")
    parser.add_argument("--seconds", type=float, default=4, help="to measure each for")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available() if options.device == "auto" else options.device == "cuda"
    if options.way == "graph" and not on_gpu:
        print("not run: CUDA graphs need a GPU", file=sys.stderr)
        return 77
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpu else torch.device("cpu")
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if on_gpu:
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    for batch in [int(n) for n in options.batches.split(",")]:
        training = Training(options, batch, device, ranks > 1)
        figures = measure(training.step, device, options.seconds)
        if int(os.environ.get("RANK", 0)) == 0:
            line = {"who": "torch", "way": options.way, "ranks": ranks, "batch": batch,
                    "images_per_second": batch * ranks / figures["step_ms"] * 1e3, **figures}
            print(json.dumps(line), flush=True)
        del training  # its memory is for the next
    if ranks > 1:
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
