// A curve through points by L-BFGS, which computes the loss several times in a step.
#include <iostream>

#include <torch/torch.h>

#include <mn/mn.hpp>

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    const auto x = torch::linspace(0, 4, 400, torch::kDouble);
    mn::TensorDataset samples(x, 3 * torch::exp(-0.5 * x) * torch::cos(2 * x));
    auto curve = torch::tensor({1.0, -0.1, 1.5}, torch::kDouble).requires_grad_();
    const auto settings = torch::optim::LBFGSOptions(1).max_iter(10).line_search_fn(std::string("strong_wolfe"));
    auto optimizer = mn::create_multi_node_optimizer(
        std::make_unique<torch::optim::LBFGS>(std::vector<torch::Tensor>{curve}, settings), comm);

    mn::TensorLoader loader(samples, comm, {.batchsize = 400 / comm->size() + 1});  // all samples in each step
    torch::Tensor loss;
    while (loader.epoch() < 10) {
      while (auto batch = loader.next()) {
        loss = optimizer->step(
            [&] {
              optimizer->zero_grad();
              const auto drawn = curve[0] * torch::exp(curve[1] * batch->data) * torch::cos(curve[2] * batch->data);
              auto error = (drawn - batch->target).square().mean();
              error.backward();
              return error;
            },
            batch->samples);
      }
    }
    if (comm->rank() == 0) {
      std::cout << "loss " << loss.item<double>() << "\ncurve";
      for (int i = 0; i < 3; ++i) std::cout << ' ' << curve[i].item<double>();
      std::cout << std::endl;
    }
    return 0;
  });
}
