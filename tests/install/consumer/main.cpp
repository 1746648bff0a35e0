// One process's libtorch training program after its port: the lines that mention mn are what the port took.
#include <iostream>
#include <memory>

#include <torch/torch.h>

#include <mn/mn.hpp>

struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(784, 64));
    output = register_module("output", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    return output->forward(torch::relu(hidden->forward(images.flatten(1))));
  }
  torch::nn::Linear hidden{nullptr};
  torch::nn::Linear output{nullptr};
};

int main(int argc, char** argv) {
  mn::Job job(argc, argv);
  auto comm = mn::create_communicator("auto");
  auto model = std::make_shared<Net>();
  model->to(comm->device());
  auto optimizer =
      mn::create_multi_node_optimizer(std::make_unique<torch::optim::Adam>(model->parameters(), 3e-3), comm);
  auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true, .seed = 0});

  mn::DataLoader loader(train, {.batchsize = 100, .device = comm->device()});
  double last_loss = 0;
  while (auto batch = loader.next()) {
    optimizer->zero_grad();
    auto loss = torch::nn::functional::cross_entropy(model->forward(batch->data), batch->target);
    loss.backward();
    optimizer->step();
    last_loss = loss.item<double>();
  }
  if (comm->rank() == 0) {
    std::cout << comm->size() << " ranks, " << loader.steps_per_epoch() << " steps, loss " << last_loss << "\n";
  }
}
