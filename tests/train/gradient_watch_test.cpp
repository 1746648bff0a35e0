// Gradients are a rank's own until the step: what changes them before is found, and what wants their mean can have it.
#include <cstring>

#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;

class WatchTest : public OptimizerTest {
 protected:
  WatchTest() {
    optimizer_ = sgd({p_, q_});
    optimizer_->zero_grad();
    backward();
  }
  void backward() { ((p_.sum() + 3 * q_.sum()) * (rank_ + 1)).backward(); }

  /// The step throws where other ranks would not see the change; one rank alone may do as it likes.
  void expect_error(const std::function<void()>& call, const char* what) {
    if (size_ == 1) return call();
    EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr(what)));
    optimizer_->zero_grad();  // the ranks go on together
    backward();
    optimizer_->step();
  }
  void expect_found(const char* parameter) {
    expect_error([&] { optimizer_->step(); }, (std::string("the gradient of ") + parameter + " changed").c_str());
  }

  at::Tensor p_ = parameter({40, 5});
  at::Tensor q_ = parameter({7});
  std::unique_ptr<MultiNodeOptimizer> optimizer_;
};

/// PyTorch's idiom; libtorch writes past the count of its own versions.
TEST_P(WatchTest, FindsTorchsClipping) {
  torch::nn::utils::clip_grad_norm_(std::vector<at::Tensor>{p_, q_}, 0.5);
  expect_found("parameter 0");
}

TEST_P(WatchTest, FindsAnyScaling) {
  q_.mutable_grad().mul_(0.5);
  expect_found("parameter 1");
}

TEST_P(WatchTest, FindsAnotherTensor) {
  p_.mutable_grad() = torch::ones({40, 5});
  expect_found("parameter 0");
}

/// What one rank sees, all throw.
TEST_P(WatchTest, FindsWhatOneRankAloneChanges) {
  const int culprit = size_ - 1;
  if (rank_ == culprit) q_.mutable_grad().mul_(0.5);
  expect_found("parameter 1");
  const at::Tensor frozen = torch::ones({2});
  optimizer_ = sgd({p_, q_, frozen});
  optimizer_->zero_grad();
  backward();
  if (rank_ == culprit) frozen.mutable_grad() = torch::ones({2});
  EXPECT_THAT([&] { optimizer_->step(); }, ThrowsMessage<UsageError>(HasSubstr("is not reduced over the ranks")));
  optimizer_->zero_grad();
  backward();
  optimizer_->step();
}

TEST_P(WatchTest, FindsItAStepLateWithDoubleBuffering) {
  options_.overlap.reset();
  options_.double_buffering = true;
  optimizer_ = sgd({p_, q_});
  optimizer_->zero_grad();
  backward();
  if (rank_ == size_ - 1) q_.mutable_grad().mul_(0.5);
  optimizer_->step();
  optimizer_->zero_grad();
  backward();
  expect_error([&] { optimizer_->step(); }, "the gradient of parameter 1 changed");
  optimizer_->synchronize();
}

TEST_P(WatchTest, LetsGradientsBeZeroedOrDropped) {
  q_.mutable_grad().zero_();
  p_.mutable_grad().reset();
  optimizer_->step();
  EXPECT_TRUE(p_.equal(torch::zeros({40, 5})));
  optimizer_->zero_grad();
  backward();
  optimizer_->actual().zero_grad(/*set_to_none=*/false);
  backward();
  optimizer_->step();
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -rank_sum_ / size_)));
}

TEST_P(WatchTest, AllowsWhatIsAskedFor) {
  options_.check_gradients = false;
  optimizer_ = sgd({p_, q_});
  optimizer_->zero_grad();
  backward();
  p_.mutable_grad().mul_(2);
  optimizer_->step();
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -2 * rank_sum_ / size_)));
}

TEST_P(WatchTest, LetsThisRanksGradientsBeScaledOnPurpose) {
  optimizer_->scale_gradients(0.5);
  optimizer_->step();
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -rank_sum_ / size_ / 2)));
}

/// One element of many, and not by torch.
TEST_P(WatchTest, DebugModeFindsEveryByte) {
  const auto comm = create_communicator(GetParam().backend, MPI_COMM_WORLD, {.device = Device{}, .debug = true});
  for (const bool changes : {false, true}) {
    const at::Tensor r = parameter({1000});
    const auto optimizer =
        create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{r}, SGDOptions(1)), comm, options_);
    optimizer->zero_grad();
    (r.sum() * (rank_ + 1)).backward();
    if (changes) static_cast<float*>(r.grad().data_ptr())[3] = 9;
    if (changes && size_ > 1) {
      EXPECT_THROW(optimizer->step(), UsageError);
      optimizer->zero_grad();
    } else {
      optimizer->step();
    }
  }
}

TEST_P(WatchTest, ReduceGradientsMakesTheMeanOnce) {
  const std::uint64_t before = optimizer_->bytes_sent();
  int hooks = 0;
  optimizer_->add_hook("count", [&](const auto&) { ++hooks; });
  optimizer_->reduce_gradients();
  optimizer_->reduce_gradients();
  EXPECT_TRUE(torch::allclose(p_.grad(), torch::full({40, 5}, rank_sum_ / size_)));
  EXPECT_EQ(hooks, 0);
  p_.mutable_grad().mul_(2);  // as every rank does
  optimizer_->step();
  EXPECT_EQ(hooks, 1);
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -2 * rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(q_, torch::full({7}, -3 * rank_sum_ / size_)));
  const std::uint64_t sent = optimizer_->bytes_sent() - before;
  EXPECT_TRUE(size_ == 1 ? sent == 0 : sent < 2 * 207 * 4) << sent;
  optimizer_->zero_grad();
  backward();
  optimizer_->step();
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -3 * rank_sum_ / size_)));
}

TEST_P(WatchTest, ABackwardAfterTheReductionIsAnError) {
  optimizer_->reduce_gradients();
  backward();
  EXPECT_THAT([&] { optimizer_->step(); }, ThrowsMessage<UsageError>(HasSubstr("after the last backward")));
}

TEST_P(WatchTest, AStepThatIsLeftOutIsForgotten) {
  for (const bool by_torch : {true, false}) {
    const at::Tensor before = p_.detach().clone();
    optimizer_->zero_grad();
    backward();
    optimizer_->reduce_gradients();
    by_torch ? optimizer_->actual().zero_grad() : optimizer_->zero_grad();
    backward();
    backward();
    optimizer_->step();
    EXPECT_TRUE(torch::allclose(p_, before - 2 * rank_sum_ / size_)) << by_torch;
  }
}

/// A gradient that was dropped leaves its address to any tensor, also to a new gradient.
TEST_P(WatchTest, ANewGradientMayHaveTheAddressOfOneThatWasReduced) {
  for (std::size_t others = 0; others < 8; ++others) {
    optimizer_.reset();
    optimizer_ = sgd({p_});  // its first reduction is not made where the later ones are
    optimizer_->zero_grad();
    p_.sum().backward();
    optimizer_->reduce_gradients();
    const at::Tensor loss = p_.sum();
    std::vector<at::Tensor> between;
    while (between.size() < others) between.push_back(torch::ones({1}));
    optimizer_->actual().zero_grad();
    between.clear();  // so many tensors take other addresses first
    loss.backward();
    p_.sum().backward();
    optimizer_->step();
  }
}

TEST_P(WatchTest, ReductionsAreWeightedAsSteps) {
  optimizer_->reduce_gradients(rank_ + 1);
  double weighted = 0;
  for (int r = 0; r < size_; ++r) weighted += (r + 1.0) * (r + 1.0);
  EXPECT_TRUE(torch::allclose(p_.grad(), torch::full({40, 5}, weighted / rank_sum_)));
  optimizer_->step(rank_ + 1);
  EXPECT_TRUE(torch::allclose(p_, torch::full({40, 5}, -weighted / rank_sum_)));
}

/// Gradients 1 of three samples on rank 0, 2 of one sample elsewhere.
TEST_P(WatchTest, AStepThatWeighsOtherwiseThanItsReductionIsAnError) {
  const at::Tensor r = parameter({1});
  options_.check_parameters = 0;  // rank 0 alone comes to the end of its steps
  const auto optimizer = sgd({r});
  const std::int64_t samples = rank_ == 0 ? 3 : 1;
  const auto backward_only = [&] {
    optimizer->zero_grad();
    (r.sum() * (rank_ == 0 ? 1 : 2)).backward();
  };
  backward_only();
  clip_grad_norm(*optimizer, 100);
  const auto step = [&] { optimizer->step(samples); };
  if (rank_ == 0) {
    step();
  } else {
    EXPECT_THAT(step, ThrowsMessage<ArgumentError>(HasSubstr("clip_grad_norm(optimizer, max_norm, samples)")));
  }
  backward_only();
  clip_grad_norm(*optimizer, 100, samples);
  if (rank_ == 0) {
    optimizer->step();
  } else {
    EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<ArgumentError>(HasSubstr("step() counts")));
  }
  backward_only();
  const double norm = clip_grad_norm(*optimizer, 100, samples);
  EXPECT_NEAR(norm, (3.0 + 2 * (size_ - 1)) / (3 + size_ - 1), 1e-6);  // 1.25 for two ranks
  optimizer->step(samples);
}

INSTANTIATE_TEST_SUITE_P(Backends, WatchTest, kWays, way_name);

/// n ranks that clip train as one rank with the whole minibatch.
TEST_P(OptimizerTest, ClippingByTheGlobalNormIsThatOfOneRank) {
  constexpr std::int64_t kSamples = 12;
  const auto train = [&](const std::shared_ptr<Communicator>& comm) {
    Net net;
    const auto optimizer =
        create_multi_node_optimizer(std::make_unique<SGD>(net.parameters(), SGDOptions(0.5)), comm, options_);
    torch::manual_seed(1);
    const at::Tensor x = torch::randn({kSamples, 5}) * 10;
    const at::Tensor y = torch::randn({kSamples, 2});
    std::vector<double> norms;
    for (int k = 0; k < 4; ++k) {
      const std::int64_t first = kSamples * comm->rank() / comm->size();
      const std::int64_t last = kSamples * (comm->rank() + 1) / comm->size();
      optimizer->zero_grad();
      torch::mse_loss(net.forward(x.slice(0, first, last)), y.slice(0, first, last)).backward();
      norms.push_back(clip_grad_norm(*optimizer, 0.05, last - first));
      optimizer->step(last - first);
    }
    at::Tensor all = torch::tensor(norms);
    for (const auto& p : net.parameters()) all = torch::cat({all, p.detach().flatten()});
    return all;
  };
  const at::Tensor together = train(comm_);
  const at::Tensor reference = train(comm_->split(rank_, 0));
  EXPECT_TRUE(torch::allclose(together, reference, 1e-4, 1e-5)) << together - reference;
  EXPECT_GT(together[0].item<double>(), 0.05) << "nothing was clipped";
  EXPECT_THROW(gradient_clipping(0), ArgumentError);
}

}  // namespace
}  // namespace mn
