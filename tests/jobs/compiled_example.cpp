// Trains a package of mn-compile, whose model takes (N, 6).  usage: compiled_example FILE.mnc
#include <iostream>

#include <torch/torch.h>

#include <mn/mn.hpp>

int main(int, char** argv) {
  torch::manual_seed(0);
  mn::CompiledModel model{std::filesystem::path(argv[1])};
  const auto input = torch::randn({4, 6});
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    const auto loss = model.forward(input).square().mean();
    loss.backward();
    optimizer.step();
    std::cout << loss.item<double>() << "\n";
  }
  return 0;
}
