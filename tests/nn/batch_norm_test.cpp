// Batch normalization over all ranks against libtorch's on one rank with all samples, on the CPU and, where there is
// one, on a device: a GPU, or the test device, on which a program of tests/nn/CMakeLists.txt runs these cases too.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/core/error.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using torch::nn::BatchNormOptions;

const auto kThrowsThatGradientsEnd =
    ::testing::ThrowsMessage<std::exception>(::testing::HasSubstr("can't be differentiated"));

class BatchNormTest : public test::DeviceCases {
 protected:
  [[nodiscard]] c10::Device device() const { return c10::Device(comm_->device()); }

  /// Rank r's part: r + `least` samples of all.
  [[nodiscard]] std::int64_t first_of(std::int64_t rank, std::int64_t least) const {
    return rank * least + rank * (rank - 1) / 2;
  }
  [[nodiscard]] at::Tensor part(const at::Tensor& all, std::int64_t least) const {
    return all.narrow(0, first_of(rank_, least), rank_ + least);
  }
  [[nodiscard]] at::Tensor sum(const at::Tensor& own) const {
    const at::Tensor total = own.detach().clone();
    comm_->allreduce(total);
    return total;
  }

  /// Samples weigh alike, so a rank's mean loss and its gradients weigh by its samples, as step(samples) weighs them.
  void expect_as_one_rank(std::vector<std::int64_t> shape, std::int64_t least, at::ScalarType dtype, double mean,
                          double tolerance, bool relu = false, bool with_added = false) {
    SCOPED_TRACE("least " + std::to_string(least) + ", dims " + std::to_string(shape.size()) + ", relu " +
                 std::to_string(relu) + ", added " + std::to_string(with_added));
    torch::manual_seed(3);
    shape[0] = first_of(size_, least);
    const at::Tensor x = torch::randn(shape, at::kDouble) * 2 + mean;
    const at::Tensor factors = torch::randn(shape, at::kDouble);
    const at::Tensor added = torch::randn(shape, at::kDouble).requires_grad_();
    const at::Tensor weight = torch::randn(shape[1], at::kDouble), bias = torch::randn(shape[1], at::kDouble);

    // The reference in float64, as one long row of values for each channel.
    torch::nn::BatchNorm1d expected(BatchNormOptions(shape[1]).momentum(0.3));
    expected->to(at::kDouble);
    MultiNodeBatchNorm layer(comm_, BatchNormOptions(shape[1]).momentum(0.3));
    layer->to(device(), dtype);
    {
      const torch::NoGradGuard no_grad;
      expected->weight.copy_(weight), expected->bias.copy_(bias);
      layer->weight.copy_(weight), layer->bias.copy_(bias);
    }
    const at::Tensor all = x.clone().requires_grad_();
    const auto reference = [&] {
      at::Tensor y = expected->forward(all.flatten(2 < all.dim() ? 2 : 1)).view_as(all);
      if (with_added) y = y + added;
      return relu ? y.relu() : y;
    };
    const at::Tensor wanted = reference();
    (wanted * factors).sum().backward();

    const at::Tensor own_added = part(added.detach(), least).to(device(), dtype, false, /*copy=*/true).requires_grad_();
    const auto forward = [&](const at::Tensor& input) {
      return relu ? batch_norm_relu(layer, input, with_added ? own_added : at::Tensor()) : layer->forward(input);
    };
    at::Tensor own = part(x, least).to(device(), dtype).contiguous();
    if (own.dim() == 4) own = own.contiguous(at::MemoryFormat::ChannelsLast);
    own.requires_grad_();
    const at::Tensor output = forward(own);
    EXPECT_EQ(output.scalar_type(), dtype);
    const auto samples = static_cast<double>(own.size(0));
    ((output * part(factors, least).to(device(), dtype)).sum() / std::max(samples, 1.0)).backward();
    const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
      return torch::allclose(a.cpu().to(at::kDouble), b.cpu().to(at::kDouble), tolerance, tolerance);
    };
    EXPECT_TRUE(near(output, part(wanted, least)));
    EXPECT_TRUE(near(own.grad() * samples, part(all.grad(), least)));
    if (with_added) {
      EXPECT_TRUE(near(own_added.grad() * samples, part(added.grad(), least)));
    }
    EXPECT_TRUE(near(sum(layer->weight.grad() * samples), expected->weight.grad()));
    EXPECT_TRUE(near(sum(layer->bias.grad() * samples), expected->bias.grad()));
    EXPECT_TRUE(near(layer->running_mean, expected->running_mean));
    EXPECT_TRUE(near(layer->running_var, expected->running_var));
    layer->eval(), expected->eval();
    EXPECT_TRUE(near(forward(own), part(reference(), least)));
  }
};

TEST_P(BatchNormTest, AsOneRankWithAllSamples) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 3}, {0, 4, 5}, {0, 2, 3, 4}, {0, 2, 3, 2, 2}}) {
    expect_as_one_rank(shape, 3, at::kDouble, 0, 1e-12);
    expect_as_one_rank(shape, 3, at::kFloat, 0.5, 1e-4);
  }
}

TEST_P(BatchNormTest, WithReluAsOneRankWithAllSamples) {
  for (const bool with_added : {false, true}) {
    expect_as_one_rank({0, 3}, 3, at::kDouble, 0, 1e-12, /*relu=*/true, with_added);
    expect_as_one_rank({0, 4, 3, 5}, 3, at::kDouble, 0, 1e-12, /*relu=*/true, with_added);
    expect_as_one_rank({0, 4, 3, 5}, 1, at::kFloat, 0.5, 1e-4, /*relu=*/true, with_added);
  }
}

TEST_P(BatchNormTest, WithoutWeightAndBias) {
  const auto options = BatchNormOptions(3).affine(false);
  MultiNodeBatchNorm layer(comm_, options);
  layer->to(device());
  torch::nn::BatchNorm1d expected(options);
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({2 * size_, 3}), factors = torch::randn({2 * size_, 3});
  const at::Tensor all = x.clone().requires_grad_();
  const at::Tensor own = x.narrow(0, 2 * rank_, 2).to(device(), false, /*copy=*/true).requires_grad_();
  const at::Tensor wanted = expected->forward(all), output = layer->forward(own);
  (wanted * factors).sum().backward();
  (output * factors.narrow(0, 2 * rank_, 2).to(device())).sum().backward();
  EXPECT_TRUE(torch::allclose(output.cpu(), wanted.narrow(0, 2 * rank_, 2), 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(own.grad().cpu(), all.grad().narrow(0, 2 * rank_, 2), 1e-3, 1e-4));
  EXPECT_TRUE(torch::allclose(layer->running_var.cpu(), expected->running_var, 1e-4, 1e-5));
}

TEST_P(BatchNormTest, ARankMayHaveNoSample_from_3_ranks) {
  expect_as_one_rank({0, 4, 5}, 0, at::kDouble, 1, 1e-12);
  expect_as_one_rank({0, 4, 5}, 0, at::kDouble, 1, 1e-12, /*relu=*/true, /*with_added=*/true);
}

TEST_P(BatchNormTest, VariancesDoNotCancel) { expect_as_one_rank({0, 3, 50}, 20, at::kFloat, 3000, 2e-2); }

TEST_P(BatchNormTest, KeepsSixteenBitsAndMemoryOrder) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {  // of the layer
    MultiNodeBatchNorm layer(comm_, BatchNormOptions(4));
    layer->to(device(), dtype);
    at::Tensor x = torch::randn({3, 4, 5, 5}).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
    x = x.to(device()).requires_grad_();
    const at::Tensor y = layer->forward(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    y.sum().backward();
    EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
    EXPECT_EQ(layer->weight.grad().scalar_type(), dtype);
    EXPECT_EQ(layer->running_mean.scalar_type(), dtype);
  }
}

/// One value of a channel has no variance.
TEST_P(BatchNormTest, FewerThanTwoValuesMoveNoRunningStatistics) {
  for (const std::int64_t values : {0, 1}) {
    MultiNodeBatchNorm layer(comm_, BatchNormOptions(3));
    layer->to(device());
    const std::int64_t own = rank_ + 1 == size_ ? values : 0;
    const at::Tensor x = torch::full({own, 3}, 7.0, device()).requires_grad_();
    layer->forward(x).sum().backward();
    EXPECT_TRUE(layer->running_mean.cpu().equal(torch::zeros(3)));
    EXPECT_TRUE(layer->running_var.cpu().equal(torch::ones(3)));
    EXPECT_EQ(x.grad().abs().sum().item<float>(), 0);
  }
}

TEST_P(BatchNormTest, HasBatchNormsNames) {
  const MultiNodeBatchNorm layer(comm_, BatchNormOptions(3));
  const torch::nn::BatchNorm2d theirs(3);
  EXPECT_EQ(layer->named_parameters().keys(), theirs->named_parameters().keys());
  EXPECT_EQ(layer->named_buffers().keys(), theirs->named_buffers().keys());
}

TEST_P(BatchNormTest, AWrongShapeIsNamed) {
  MultiNodeBatchNorm layer(comm_, BatchNormOptions(3));
  try {
    layer->forward(torch::zeros({2, 5}));
    ADD_FAILURE() << "it took five channels";
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("of 3 channels got an input of shape (2, 5)"), std::string::npos);
  }
}

/// An evaluation of one rank alone, as one whose ranks have different numbers of minibatches.
TEST_P(BatchNormTest, EvaluationIsLocal) {
  for (const bool tracks : {true, false}) {
    const auto options = BatchNormOptions(3).track_running_stats(tracks);
    MultiNodeBatchNorm layer(comm_, options);
    torch::nn::BatchNorm1d expected(options);
    layer->to(device()), expected->to(device());
    layer->eval(), expected->eval();
    if (rank_ != 0) continue;
    const at::Tensor x = torch::randn({4, 3}, device());
    EXPECT_TRUE(layer->forward(x).equal(expected->forward(x))) << tracks;
  }
}

/// As those of torch.nn.SyncBatchNorm: an error, and no wrong numbers.
TEST_P(BatchNormTest, GradientsOfGradientsAreAnError) {
  MultiNodeBatchNorm norm(comm_, BatchNormOptions(3));
  norm->to(device());
  const at::Tensor x = torch::randn({4, 3}, device()).requires_grad_();
  const at::Tensor loss = norm->forward(x).pow(3).sum();
  const at::Tensor gradient = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true).front();
  EXPECT_THAT([&] { gradient.square().sum().backward(); }, kThrowsThatGradientsEnd);
  EXPECT_TRUE(gradient.equal(torch::autograd::grad({loss}, {x}).front()));
}

struct LocalCase {
  BatchNormOptions options;
  at::ScalarType dtype;
  bool last;
  double tolerance;
};

/// Two steps of training, then an evaluation, with libtorch's layer, sum and ReLU in float64 as the reference.
TEST_P(BatchNormTest, LayersOfOneRankWithSumAndReluAreLibtorchs) {
  const BatchNormOptions usual(4);
  for (const LocalCase& c : {LocalCase{usual, at::kDouble, false, 1e-12},
                             {usual, at::kFloat, true, 1e-5},
                             {usual, at::kBFloat16, true, 0.02},
                             {usual, at::kHalf, false, 0.003},
                             {BatchNormOptions(4).momentum(std::nullopt), at::kDouble, true, 1e-12},
                             {BatchNormOptions(4).affine(false), at::kDouble, false, 1e-12},
                             {BatchNormOptions(4).track_running_stats(false), at::kDouble, false, 1e-12}}) {
    torch::manual_seed(7);
    torch::nn::BatchNorm2d expected(c.options), layer(c.options);
    expected->to(at::kDouble), layer->to(device(), c.dtype == at::kDouble ? at::kDouble : at::kFloat);
    const auto format = c.last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
      return (a.detach().cpu().to(at::kDouble) - b.detach()).abs().max().item<double>() <=
             c.tolerance * std::max(1.0, b.detach().abs().max().item<double>());
    };
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE(std::string(c10::toString(c.dtype)) + ", step " + std::to_string(step));
      if (step == 2) expected->eval(), layer->eval();
      const at::Tensor values = torch::randn({3, 4, 2, 3}).to(c.dtype), around = torch::randn({3, 4, 2, 3}).to(c.dtype);
      const at::Tensor factors = torch::randn({3, 4, 2, 3}).to(c.dtype);
      const auto leaf = [](const at::Tensor& tensor) { return tensor.detach().clone().requires_grad_(); };
      const at::Tensor x = leaf(values.to(at::kDouble)), added = leaf(around.to(at::kDouble));
      const at::Tensor own = leaf(values.to(device()).contiguous(format)), own_added = leaf(around.to(device()));
      const at::Tensor wanted = torch::relu(expected->forward(x) + added);
      const at::Tensor output = batch_norm_relu(layer, own, own_added);
      const at::Tensor alone = batch_norm_relu(layer, own);
      EXPECT_TRUE(near(output, wanted));
      EXPECT_TRUE(near(alone, torch::relu(expected->forward(x))));
      EXPECT_TRUE(output.is_contiguous(format));
      (wanted * factors.to(at::kDouble)).sum().backward();
      (output * factors.to(device())).sum().backward();
      EXPECT_TRUE(near(own.grad(), x.grad()));
      EXPECT_TRUE(near(own_added.grad(), added.grad()));
      const auto theirs = expected->named_parameters(), buffers = expected->named_buffers();
      for (const auto& item : layer->named_parameters())
        EXPECT_TRUE(near(item.value().grad(), theirs[item.key()].grad())) << item.key();
      for (const auto& item : layer->named_buffers())
        EXPECT_TRUE(near(item.value(), buffers[item.key()].to(at::kDouble))) << item.key();
      expected->zero_grad(), layer->zero_grad();
    }
  }
}

TEST_P(BatchNormTest, FusedReluRejectsWrongArguments) {
  torch::nn::BatchNorm2d layer(3);
  layer->to(device());
  const auto message = [&](const at::Tensor& x, const at::Tensor& added) -> std::string {
    try {
      static_cast<void>(batch_norm_relu(layer, x.to(device()), added));
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  const at::Tensor x = torch::randn({2, 3, 4, 4});
  EXPECT_NE(message(x, x.narrow(0, 0, 1).to(device())).find("a shortcut [1, 3, 4, 4]"), std::string::npos);
  EXPECT_NE(message(x.narrow(1, 0, 2), {}).find("a weight, bias or mean [3]"), std::string::npos);
  EXPECT_NE(message(x.narrow(0, 0, 1).mean({2, 3}, true), {}).find("one value of each channel"), std::string::npos);
  EXPECT_EQ(batch_norm_relu(layer, torch::empty({0, 3, 4, 4}, device())).size(0), 0);
  if (GetParam() == DeviceType::kCpu) return;  // libtorch's operators
  const at::Tensor leaf = x.to(device()).requires_grad_();
  const at::Tensor gradient =
      torch::autograd::grad({batch_norm_relu(layer, leaf).square().sum()}, {leaf}, {}, true, /*create_graph=*/true)[0];
  EXPECT_THAT([&] { gradient.square().sum().backward(); }, kThrowsThatGradientsEnd);
}

/// The backward of the layer below waits for its peers while gradients above are reduced already.
TEST_P(BatchNormTest, TrainsAsOneRankWithAllSamples) {
  const auto train = [&](const std::shared_ptr<Communicator>& comm, bool overlap) {
    torch::manual_seed(5);
    torch::nn::Linear first(6, 8), second(8, 2);
    MultiNodeBatchNorm norm(comm, BatchNormOptions(8));
    first->to(device()), norm->to(device()), second->to(device());
    std::vector<at::Tensor> parameters;
    for (const auto& list : {first->parameters(), norm->parameters(), second->parameters()}) {
      parameters.insert(parameters.end(), list.begin(), list.end());
    }
    const auto optimizer = create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(parameters, 0.1), comm,
                                                       {.overlap = overlap, .bucket_bytes = 64});
    torch::manual_seed(6);
    for (int step = 0; step < 4; ++step) {
      const at::Tensor x = torch::randn({14, 6}).to(device()), y = torch::randn({14, 2}).to(device());
      const std::int64_t begin = 2 * comm->rank();  // the last rank has most
      const std::int64_t own = comm->rank() + 1 == comm->size() ? 14 - begin : 2;
      optimizer->zero_grad();
      const at::Tensor output = second(torch::relu(norm(first(x.narrow(0, begin, own)))));
      (output - y.narrow(0, begin, own)).square().mean().backward();  // no mse_loss: the test device has none
      optimizer->step(own);
    }
    std::vector<at::Tensor> values;
    for (const auto& parameter : parameters) values.push_back(parameter.detach().flatten().cpu());
    return torch::cat(values);
  };
  const at::Tensor expected = train(comm_->split(rank_, 0), false);
  for (const bool overlap : {false, true}) {
    EXPECT_TRUE(torch::allclose(train(comm_, overlap), expected, 1e-4, 1e-5)) << overlap;
  }
}

INSTANTIATE_TEST_SUITE_P(On, BatchNormTest, ::testing::ValuesIn(test::kDeviceTypes), test::name_of_device);

}  // namespace
}  // namespace mn
