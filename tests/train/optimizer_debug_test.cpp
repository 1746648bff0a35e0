// In debug mode the optimizer's errors name the rank and the parameter, on every rank, with any compression.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;

struct Net : torch::nn::Module {
  explicit Net(const at::Tensor& bias) {
    register_parameter("weight", torch::ones({60, 40}));
    register_parameter("bias", bias);
  }
};

class OptimizerDebug : public testing::TestWithParam<OptimizerOptions> {
 protected:
  [[nodiscard]] bool am_last() const { return comm_->rank() == comm_->size() - 1; }
  [[nodiscard]] std::string last_rank() const { return "rank " + std::to_string(comm_->size() - 1) + " on "; }
  std::unique_ptr<MultiNodeOptimizer> optimizer_of(const Net& net, const OptimizerOptions& options = {}) {
    return create_multi_node_optimizer(std::make_unique<SGD>(net.parameters(), SGDOptions(1)), comm_, options);
  }

  std::shared_ptr<Communicator> comm_ =
      create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}, .debug = true});
};

TEST_F(OptimizerDebug, NamesAParameterOfAnotherShapeOrType_from_2_ranks) {
  Net other_shape(torch::zeros({am_last() ? 3 : 4}));
  name_tensors(other_shape);
  const std::string at_last = " on rank " + std::to_string(comm_->size() - 1);
  EXPECT_THAT([&] { optimizer_of(other_shape); },
              ThrowsMessage<ArgumentError>(HasSubstr("bias is Float [4] on rank 0 and Float [3]" + at_last)));
  const Net other_type(am_last() ? torch::zeros({4}, torch::kDouble) : torch::zeros({8}));  // as many bytes
  EXPECT_THAT([&] { optimizer_of(other_type); },
              ThrowsMessage<ArgumentError>(HasSubstr("parameter 1 is Float [8] on rank 0 and Double [4]" + at_last)));
}

TEST_P(OptimizerDebug, NamesAGradientThatIsNotFinite) {
  for (const bool named : {true, false}) {
    const Net net(torch::zeros({60}));
    if (named) name_tensors(net);
    const auto optimizer = optimizer_of(net, GetParam());
    const std::string name = named ? "bias" : "parameter 1";
    at::Tensor factors = torch::ones({60});
    for (int step = 0; step < 2; ++step) {  // overlap lays its buckets out again after the first
      optimizer->zero_grad();
      if (step == 1 && am_last()) factors[3] = std::numeric_limits<float>::quiet_NaN();
      (net.named_parameters()["weight"].sum() + (net.named_parameters()["bias"] * factors).sum()).backward();
      if (step == 0) optimizer->step();
    }
    EXPECT_THAT(([&] {
                  optimizer->step();
                  optimizer->synchronize();
                }),
                ThrowsMessage<ArgumentError>(
                    AllOf(HasSubstr(last_rank()), HasSubstr(name + "'s gradient has nan at element 3"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, OptimizerDebug,
                         testing::Values(OptimizerOptions{}, OptimizerOptions{.overlap = true, .bucket_bytes = 16},
                                         OptimizerOptions{.double_buffering = true},
                                         OptimizerOptions{.compression = {.kind = Compression::kBf16}},
                                         OptimizerOptions{.compression = {.kind = Compression::kPowerSgd}},
                                         OptimizerOptions{.overlap = true,
                                                          .compression = {.kind = Compression::kTopK},
                                                          .deterministic = true}));

/// A rank whose parameters have changed is named in debug mode by the next update, else by the next comparison.
TEST(ParameterCheck, NamesTheRankAndTheParameter_from_2_ranks) {
  for (const bool debug : {false, true}) {
    const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}, .debug = debug});
    const bool is_last = comm->rank() == comm->size() - 1;
    Net net(torch::zeros({3}));
    name_tensors(net);
    const auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(net.parameters(), SGDOptions(1)), comm,
                                                       {.check_parameters = 2});
    const auto step = [&] {
      optimizer->zero_grad();
      (net.parameters()[0].sum() + net.parameters()[1].sum()).backward();
      optimizer->step();
    };
    step();
    if (is_last) net.parameters()[1].data_ptr<float>()[2] += 1;
    const std::string last = "rank " + std::to_string(comm->size() - 1) + " (host ";
    if (!debug) step();
    EXPECT_THAT(step, ThrowsMessage<DataError>(AllOf(HasSubstr("bias"), HasSubstr(last)))) << debug;
  }
}

}  // namespace
}  // namespace mn
