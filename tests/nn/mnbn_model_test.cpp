// Models with libtorch's batch norm, converted to batch norm over all ranks, against themselves on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/nn/mnbn_model.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/exported_files.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kSamples = 2;  // of a rank

class MnbnModelTest : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  int size_ = comm_->size();

  [[nodiscard]] at::Tensor part(const at::Tensor& all) const {
    return all.narrow(0, kSamples * comm_->rank(), kSamples);
  }
  [[nodiscard]] at::Tensor sum(const at::Tensor& own) const {
    const at::Tensor total = own.detach().clone();
    comm_->allreduce(total);
    return total;
  }
  /// Output, gradients and buffers of `model` on this rank's part of `all` are those of `alone` on all of it.
  template <class Model>
  void expect_as_one_rank(Model& alone, Model& model, const at::Tensor& all) const {
    const at::Tensor wanted = alone->forward(all), output = model->forward(part(all));
    EXPECT_TRUE(torch::allclose(output, part(wanted), 1e-4, 1e-5)) << output - part(wanted);
    wanted.square().sum().backward();
    output.square().sum().backward();
    const auto theirs = alone->named_parameters();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(torch::allclose(sum(item.value().grad()), theirs[item.key()].grad(), 1e-3, 1e-4)) << item.key();
    }
    const auto buffers = alone->named_buffers();
    for (const auto& item : model->named_buffers()) {
      EXPECT_TRUE(torch::allclose(item.value(), buffers[item.key()], 1e-4, 1e-5)) << item.key();
    }
  }
};

torch::nn::Sequential make_model() {
  torch::manual_seed(3);
  using torch::nn::BatchNormOptions;
  return torch::nn::Sequential(torch::nn::Conv2d(2, 4, 3), torch::nn::BatchNorm2d(BatchNormOptions(4).momentum(0.3)),
                               torch::nn::ReLU(), torch::nn::Flatten(),
                               torch::nn::BatchNorm1d(BatchNormOptions(16).affine(false)), torch::nn::Linear(16, 3),
                               torch::nn::BatchNorm1d(3));
}

TEST_F(MnbnModelTest, ASequentialTrainsAsOneRank) {
  auto alone = make_model(), model = create_mnbn_model(make_model(), comm_);
  EXPECT_EQ(model->named_parameters().keys(), alone->named_parameters().keys());
  EXPECT_EQ(model->named_buffers().keys(), alone->named_buffers().keys());
  EXPECT_NE((*model)[1]->as<MultiNodeBatchNorm>(), nullptr);
  const at::Tensor all = torch::randn({kSamples * size_, 2, 4, 4});
  expect_as_one_rank(alone, model, all);
}

TEST_F(MnbnModelTest, KeepsValuesModesAndLayers) {
  auto given = make_model();
  given->to(torch::kDouble);
  auto* const norm = (*given)[1]->as<torch::nn::BatchNorm2d>();
  norm->weight.detach().fill_(3);
  norm->weight.requires_grad_(false);
  norm->running_mean.fill_(5);
  norm->eval();
  const auto model = create_mnbn_model(given, comm_);
  const auto* const found = (*model)[1]->as<MultiNodeBatchNorm>();
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->weight.equal(torch::full({4}, 3.0, torch::kDouble)));
  EXPECT_FALSE(found->weight.requires_grad());
  EXPECT_TRUE(found->running_mean.equal(torch::full({4}, 5.0, torch::kDouble)));
  EXPECT_FALSE(found->is_training());
  EXPECT_EQ(model->ptr(0), given->ptr(0));
}

struct Block : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(2));
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x); }
};

TEST_F(MnbnModelTest, ALayerThatCallsItsOwnBatchNormIsNamed) {
  const torch::nn::Sequential model(torch::nn::Linear(2, 2), std::make_shared<Block>());
  EXPECT_THAT([&] { static_cast<void>(create_mnbn_model(model, comm_)); },
              ThrowsMessage<ArgumentError>(HasSubstr("can't convert 1 ")));
}

TEST_F(MnbnModelTest, AnExportedModelTrainsAsOneRank) {
  const auto load = [] { return std::make_shared<ExportedModule>(test::model_file("conv.pt2"), "conv"); };
  auto alone = load(), model = create_mnbn_model(load(), comm_);
  torch::manual_seed(8);
  const at::Tensor all = torch::randn({kSamples * size_, 2, 6, 6});
  expect_as_one_rank(alone, model, all);
  model->eval(), alone->eval();
  if (comm_->rank() == 0) {  // nothing is sent
    EXPECT_TRUE(torch::allclose(model->forward(part(all)), part(alone->forward(all)), 1e-4, 1e-5));
  }
}

TEST_F(MnbnModelTest, ADecomposedBatchNormIsAnError) {
  const auto model = std::make_shared<ExportedModule>(test::model_file("conv_functional.pt2"), "conv_functional");
  EXPECT_THAT([&] { static_cast<void>(create_mnbn_model(model, comm_)); },
              ThrowsMessage<ArgumentError>(HasSubstr("without run_decompositions()")));
}

}  // namespace
}  // namespace mn
