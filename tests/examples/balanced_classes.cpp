// Balanced classes: one sample of 50 is of class 1. With a shuffle the network hardly ever answers 1; with draws by
// weight each class comes equally often. A step draws the same samples on any number of ranks.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

/// Trains on points around (0, 0) and (1, 1); returns the share of class 1 that the network finds.
double recall(bool balances, const std::shared_ptr<mn::Communicator>& comm) {
  torch::manual_seed(1);
  const auto y = (torch::rand({6000}) < 0.02).to(torch::kLong);
  const auto x = torch::randn({6000, 2}) + y.unsqueeze(1);
  mn::TensorLoaderOptions how{.batchsize = 60 / comm->size(), .shuffle = true, .seed = 2};
  if (balances) {
    const std::vector<std::int64_t> classes(y.const_data_ptr<std::int64_t>(),
                                            y.const_data_ptr<std::int64_t>() + y.numel());
    how.draws = mn::DrawOptions{.weights = mn::balanced_weights(classes)};
  }
  mn::TensorLoader loader(mn::TensorDataset(x, y), comm, how);

  torch::nn::Linear model(2, 2);
  model->to(comm->device());
  auto optimizer = mn::create_multi_node_optimizer(
      std::make_unique<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(0.01)), comm);
  for (int epoch = 0; epoch < 5; ++epoch) {
    while (const auto batch = loader.next()) {
      optimizer->zero_grad();
      F::cross_entropy(model(batch->data), batch->target).backward();
      optimizer->step(static_cast<double>(batch->samples));
    }
  }
  const torch::NoGradGuard no_grad;
  return model(x.index({y == 1}).to(comm->device())).argmax(1).eq(1).to(torch::kFloat).mean().item<double>();
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    const auto comm = mn::create_communicator("auto");
    const double shuffled = recall(false, comm), balanced = recall(true, comm);
    if (comm->rank() == 0) std::cout << "shuffled " << shuffled << "\nbalanced " << balanced << std::endl;
    return 0;
  });
}
