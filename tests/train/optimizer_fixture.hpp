/// The multi-node optimizer on the backends of CPUs, with and without overlap: a fixture for several files.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {

/// Two linear layers, of which a forward can leave out the second.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(7);
    first = register_module("first", torch::nn::Linear(5, 3));
    second = register_module("second", torch::nn::Linear(3, 2));
  }
  at::Tensor forward(const at::Tensor& x, bool with_second = true) {
    const at::Tensor h = torch::tanh(first(x));
    return with_second ? second(h) : h;
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

struct Way {
  std::string backend;
  bool overlap;
};

class OptimizerTest : public ::testing::TestWithParam<Way> {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator(GetParam().backend, MPI_COMM_WORLD, {.device = Device{}});
  OptimizerOptions options_{.overlap = GetParam().overlap, .bucket_bytes = 16};
  int rank_ = comm_->rank();
  int size_ = comm_->size();
  double rank_sum_ = size_ * (size_ + 1) / 2.0;

  std::unique_ptr<MultiNodeOptimizer> sgd(const std::vector<at::Tensor>& parameters, double lr = 1) {
    return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(lr)),
                                       comm_, options_);
  }
};

inline at::Tensor parameter(at::IntArrayRef shape, double value = 0) {
  return torch::full(shape, value).requires_grad_();
}

inline const auto kWays = ::testing::Values(Way{"naive", false}, Way{"flat", false}, Way{"flat", true},
                                            Way{"hierarchical", false}, Way{"hierarchical", true});
inline void PrintTo(const Way& way, std::ostream* out) { *out << way.backend << (way.overlap ? " overlapped" : ""); }
inline std::string way_name(const ::testing::TestParamInfo<Way>& way) {
  return way.param.backend + (way.param.overlap ? "_overlapped" : "");
}

}  // namespace mn
