#include <torch/torch.h>

#include <mn/mn.hpp>

struct Net : torch::nn::Module {
  torch::nn::Linear l1 = register_module("l1", torch::nn::Linear(784, 100));
  torch::nn::Linear l2 = register_module("l2", torch::nn::Linear(100, 10));
  torch::Tensor forward(const torch::Tensor& x) { return l2(torch::relu(l1(x.flatten(1)))); }
};

int main(int argc, char** argv) {
  mn::Job job(argc, argv);                      // 1. this process is a rank of a job
  auto comm = mn::create_communicator("auto");  // 2. how the ranks talk

  auto model = std::make_shared<Net>();
  model->to(comm->device());
  auto optimizer = mn::create_multi_node_optimizer(  // 3. steps on the mean gradient over all ranks
      std::make_unique<torch::optim::Adam>(model->parameters()), comm);
  auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true});  // 4. a part for each

  mn::DataLoader loader(train, {.batchsize = 100, .drop_last = true, .device = comm->device()});
  while (loader.epoch() < 2) {
    double loss_sum = 0;
    while (auto batch = loader.next()) {
      optimizer->zero_grad();
      auto loss = torch::nn::functional::cross_entropy(model->forward(batch->data), batch->target);
      loss.backward();
      optimizer->step();
      loss_sum += loss.item<double>();
    }
    if (comm->rank() == 0) std::cout << "loss " << loss_sum / loader.steps_per_epoch() << std::endl;
  }
}
