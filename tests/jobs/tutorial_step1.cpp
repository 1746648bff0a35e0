// Step 1: a communicator and the multi-node optimizer. The ranks fit y = 2x + 1, each to points of its own.
#include <torch/torch.h>

#include <mn/mn.hpp>

int main(int argc, char** argv) {
  mn::Job job(argc, argv);
  auto comm = mn::create_communicator("auto");

  // Every rank says where it is; rank 0 collects and prints.
  const auto placements =
      comm->gather_obj("rank " + std::to_string(comm->rank()) + " of " + std::to_string(comm->size()) + ": number " +
                       std::to_string(comm->intra_rank()) + " on node " + std::to_string(comm->inter_rank()));
  for (const auto& placement : placements) std::cout << placement << std::endl;

  // Ranks draw different points, and would start from different parameters if the optimizer did not broadcast rank 0's.
  torch::manual_seed(comm->rank());
  torch::nn::Linear model(1, 1);
  model->to(comm->device());
  auto optimizer = mn::create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.3), comm);

  for (int step = 0; step < 200; ++step) {
    auto x = torch::rand({16, 1}, comm->device());
    optimizer->zero_grad();
    auto loss = torch::mse_loss(model->forward(x), 2 * x + 1);
    loss.backward();
    optimizer->step();  // waits for all ranks, averages the gradients, updates alike everywhere
  }

  // An allreduce of one's own: the largest and smallest slope over the ranks are the same number.
  std::vector<float> largest = {model->weight.item<float>()}, smallest = largest;
  comm->allreduce(largest, mn::ReduceOp::kMax);
  comm->allreduce(smallest, mn::ReduceOp::kMin);
  if (comm->rank() == 0) {
    std::cout << "y = " << model->weight.item<float>() << " x + " << model->bias.item<float>()
              << (largest == smallest ? ", the same on all ranks" : ", different between ranks") << std::endl;
  }
}
