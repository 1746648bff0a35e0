"""Accelerate without `accelerate launch`."""
import os

import accelerate
import torch

accelerator = accelerate.Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, batch in zip(range(2), loader):
    optimizer.zero_grad()
    accelerator.backward(model(batch).square().mean())
    optimizer.step()
weights = accelerator.gather(accelerator.unwrap_model(model).weight.data)
assert all(torch.equal(weights[0], other) for other in weights), weights
if accelerator.is_main_process:
    print(f"{accelerator.num_processes} ranks agree", flush=True)
accelerator.wait_for_everyone()
os._exit(0)
