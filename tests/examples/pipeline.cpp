// Groups and a pipeline: up to three ranks hold the layers of one network, one after the other; more ranks make more
// such pipelines, and the ranks that hold the same layers average their gradients.
#include <torch/torch.h>

#include <mn/mn.hpp>

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    const int stages = std::min(comm->size(), 3);
    if (comm->size() % stages != 0) throw mn::UsageError("give 1, 2 or a multiple of 3 ranks");
    auto pipeline = comm->split(comm->rank() / stages, comm->rank());
    auto replicas = comm->split(comm->rank() % stages, comm->rank());
    const int stage = pipeline->rank();
    const bool is_first = stage == 0, is_last = stage == stages - 1;

    torch::manual_seed(1);  // every rank makes the whole network, and keeps its layers
    torch::nn::Sequential mine;
    for (int layer = 0; layer < 6; ++layer) {
      torch::nn::Linear made(layer == 0 ? 2 : 16, layer == 5 ? 1 : 16);
      if (layer * stages / 6 != stage) continue;
      mine->push_back(made);
      if (layer < 5) mine->push_back(torch::nn::Tanh());
    }
    mine->to(comm->device());
    auto optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(mine->parameters(), 0.01), replicas);

    const auto x = torch::rand({240, 2}) * 2 - 1;
    mn::TensorLoader loader({x, (x.select(1, 0) * x.select(1, 1)).unsqueeze(1)}, replicas,
                            {.batchsize = 24 / replicas->size(), .shuffle = true});
    double loss_sum = 0;
    while (loader.epoch() < 40) {
      loss_sum = 0;
      while (auto batch = loader.next()) {
        optimizer->zero_grad();
        const auto input = is_first ? batch->data : mn::recv_tensor(*pipeline, stage - 1).requires_grad_();
        const auto output = mine->forward(input);
        if (is_last) {
          const auto loss = torch::mse_loss(output, batch->target);
          loss.backward();
          loss_sum += loss.item<double>();
        } else {
          mn::send_tensor(*pipeline, output, stage + 1);
          output.backward(mn::recv_tensor(*pipeline, stage + 1));
        }
        if (!is_first) mn::send_tensor(*pipeline, input.grad(), stage - 1);
        optimizer->step(batch->samples);
      }
    }
    if (is_last) replicas->allreduce(std::span(&loss_sum, 1));
    if (is_last && replicas->rank() == 0) {
      std::cout << "loss " << loss_sum / static_cast<double>(loader.steps_per_epoch() * replicas->size()) << std::endl;
    }
    return 0;
  });
}
