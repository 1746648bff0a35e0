import json
import os
import pathlib
import sys

import torch
from mn_shards import ShardDataset, ShardSampler

circles = ShardDataset(sys.argv[1])  # a folder that mnshard or a ShardWriter made
sampler = ShardSampler(circles, batch_size=50, shuffle=True, seed=1)  # rank and number of ranks: RANK, WORLD_SIZE
loader = torch.utils.data.DataLoader(circles, batch_sampler=sampler, num_workers=2)
model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

saved = pathlib.Path("sampler.json")
if saved.exists():
    sampler.load_state_dict(json.loads(saved.read_text()))  # any number of ranks may go on
while sampler.epoch < 3:
    for k, batch in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k == 5 and os.environ.get("RANK", "0") == "0":
            saved.write_text(json.dumps(sampler.state_dict(batches=k + 1)))
print(f"loss {loss.item():.3f}")
