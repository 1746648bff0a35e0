// Training in float16, with losses that are scaled, and with layers whose activations are not kept.
#include <iostream>

#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

struct Net : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 64));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(64, 64));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(64, 1));
  torch::Tensor forward(const torch::Tensor& x) {
    const auto middle = [this](const torch::Tensor& h) { return torch::tanh(second(torch::tanh(first(h)))); };
    return last(mn::recompute_activations(middle, x));
  }
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::randn({1200, 8});
    mn::TensorDataset samples(x, torch::sin(x.sum(1, true)));
    auto model = std::make_shared<Net>();
    model->to(comm->device());
    auto optimizer = mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.003), comm,
                                                     {.grad_scaler = mn::GradScalerOptions{}});
    mn::TensorLoader loader(samples, comm, {.batchsize = 60 / comm->size(), .shuffle = true});
    while (loader.epoch() < 20) {
      while (auto batch = loader.next()) {
        optimizer->zero_grad();
        const auto loss = [&] {
          const mn::AutocastScope half(at::kHalf, comm->device());
          return F::mse_loss(model->forward(batch->data), batch->target);
        }();
        optimizer->scale_loss(loss).backward();
        optimizer->step(batch->samples);
      }
    }
    const torch::NoGradGuard no_grad;
    const auto error = F::mse_loss(model->forward(x.to(comm->device())), samples.fields()[1].to(comm->device()));
    if (comm->rank() == 0) std::cout << "error " << error.item<double>() << std::endl;
    return 0;
  });
}
