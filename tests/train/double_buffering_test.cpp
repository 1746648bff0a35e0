// Double buffering: how late a mean is.
#include <gtest/gtest.h>

#include <mn/trainer/optimizer.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

/// The parameters after four steps and a synchronize(), with another synchronize() after step `synchronized`.
at::Tensor trained(bool is_sparse, int synchronized) {
  const at::Tensor table = torch::arange(36.0).remainder(7).view({12, 3}).requires_grad_();
  const at::Tensor layer = torch::ones({3}).requires_grad_();
  const auto comm = toy::world();
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(std::vector{table, layer}, torch::optim::SGDOptions(0.1).momentum(0.5)), comm,
      {.double_buffering = true});
  const at::Tensor rows = torch::tensor({1, comm->rank(), 1}, at::kLong);
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    (torch::embedding(table, rows, -1, false, is_sparse).square().sum() + layer.square().sum()).backward();
    optimizer->step();
    if (step == synchronized) optimizer->synchronize();
  }
  optimizer->synchronize();
  return torch::cat({table.detach().flatten(), layer.detach()});
}

/// Also in the step after the one in which the ranks learn of sparse gradients, where the buffers change.
TEST(DoubleBuffering, SparseGradientsAreAsLateAsDenseOnes) {
  for (const int synchronized : {0, 1, 2, 3}) {
    const at::Tensor found = trained(true, synchronized), expected = trained(false, synchronized);
    EXPECT_TRUE(torch::allclose(found, expected, 1e-5, 1e-6)) << synchronized << found - expected;
  }
}

}  // namespace
}  // namespace mn
