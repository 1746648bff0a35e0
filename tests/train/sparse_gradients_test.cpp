// Gradients that are sparse: their mean, and what they go together with.
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;

constexpr std::int64_t kRows = 12;

/// Two tables of words and a dense layer; the same values on all ranks.
struct Words {
  explicit Words(bool is_sparse, at::ScalarType dtype = at::kFloat) : sparse(is_sparse) {
    const at::Tensor values = torch::arange(kRows * 3).remainder(7).to(dtype).view({kRows, 3});
    words = values.clone().requires_grad_();
    others = (values - 3).requires_grad_();
    layer = torch::ones({3}, dtype).requires_grad_();
  }
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return {words, layer, others}; }
  [[nodiscard]] at::Tensor rows(const at::Tensor& table, const std::vector<std::int64_t>& which) const {
    return torch::embedding(table, torch::tensor(which, at::kLong), -1, false, sparse);
  }
  at::Tensor words, others, layer;
  bool sparse;
};

/// The rows of a rank's step, some of them twice, some of other ranks; none on some ranks.
std::vector<std::int64_t> rows_of(int rank, int step) {
  if ((rank + step) % 4 == 3) return {};
  return {(rank * 2 + step) % kRows, 1, (step * 5) % kRows, 1};
}

/// A step of integers; in the third one rank 0 alone reaches `others`, and no rank in the fifth.
void backward(const Words& model, int rank, int step) {
  at::Tensor loss = (model.rows(model.words, rows_of(rank, step)) * (rank + step + 1)).sum();
  if (step != 4 && (step != 2 || rank == 0)) loss = loss + model.rows(model.others, {step % kRows, rank}).sum();
  (loss + model.layer.sum() * (rank + 1)).backward();
}

class SparseGradientsTest : public OptimizerTest {
 protected:
  std::unique_ptr<MultiNodeOptimizer> make(const Words& model) { return sgd(model.parameters(), 0.5); }
  /// All ranks have the same bits, and those of the dense model to rounding.
  void compare(const Words& sparse, const Words& dense, const std::string& when, double tolerance = 1e-5) {
    for (std::size_t i = 0; i < 3; ++i) {
      const at::Tensor ours = sparse.parameters()[i].detach(), theirs = dense.parameters()[i].detach();
      EXPECT_TRUE(torch::allclose(ours, theirs, tolerance, tolerance)) << when << ", parameter " << i << ours << theirs;
      at::Tensor roots = ours.clone();
      comm_->bcast(roots);
      EXPECT_TRUE(roots.equal(ours)) << when << ", parameter " << i;
    }
  }
};

TEST_P(SparseGradientsTest, TrainAsDenseOnesDo) {
  const Words sparse(true), dense(false);
  const auto a = make(sparse), b = make(dense);
  for (int step = 0; step < 8; ++step) {
    for (const auto& [model, optimizer] : {std::pair(&sparse, a.get()), {&dense, b.get()}}) {
      const std::uint64_t sent = optimizer->bytes_sent();
      if (step < 6) optimizer->zero_grad();  // then gradients add to the mean
      EXPECT_GE(optimizer->bytes_sent(), sent) << "also where another order in memory comes";
      if (step == 3) optimizer->announce_step(rank_ + 2);
      backward(*model, rank_, step);
      if (step == 5) backward(*model, rank_, 0);
      step == 1 ? optimizer->step() : optimizer->step(rank_ + (step == 6 ? 1 : 2));
    }
    EXPECT_TRUE(sparse.words.grad().is_sparse());
    EXPECT_TRUE(size_ == 1 || sparse.words.grad().is_coalesced());
    EXPECT_EQ(sparse.others.grad().defined(), step != 4);
    compare(sparse, dense, "step " + std::to_string(step));
  }
}

TEST_P(SparseGradientsTest, SendTheirRowsAlone) {
  const at::Tensor table = torch::zeros({100'000, 2}).requires_grad_();
  const auto optimizer = sgd({table});
  std::uint64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    torch::embedding(table, torch::tensor({rank_, 7}, at::kLong), -1, false, true).sum().backward();
    const at::Tensor own = table.grad();
    optimizer->step();
    EXPECT_TRUE(size_ > 1 || table.grad().is_same(own)) << "one rank keeps its gradient as it is";
    EXPECT_TRUE(step == 0 || optimizer->bytes_sent() - before < 200) << optimizer->bytes_sent() - before;
    before = optimizer->bytes_sent();
  }
  EXPECT_EQ(table.sum().item<double>(), -6.0 * 2);
}

TEST_P(SparseGradientsTest, MayBeDenseOrMissingOnSomeRanks) {
  const at::Tensor table = torch::zeros({4, 2}).requires_grad_(), other = torch::zeros({3}).requires_grad_();
  const auto optimizer = sgd({table, other});
  at::Tensor wanted = torch::zeros({4, 2});
  for (int step = 0; step < 6; ++step) {
    optimizer->zero_grad();
    // Each rank in its turn is the one with another kind of gradient: dense, none, empty, dense, none, empty.
    const bool is_odd = rank_ == step % size_;
    const at::Tensor rows = torch::tensor(std::vector<std::int64_t>{rank_ % 4, 1, 1});
    if (!is_odd) {
      torch::embedding(table, rows, -1, false, true).sum().backward();
    } else if (step % 3 == 0) {
      (table * 2).sum().backward();
    } else if (step % 3 == 2) {
      torch::embedding(table, rows.narrow(0, 0, 0), -1, false, true).sum().backward();
    } else {
      other.sum().backward();
    }
    optimizer->step();
    for (int r = 0; r < size_; ++r) {
      if (r != step % size_) {
        wanted[r % 4] -= 1.0 / size_;
        wanted[1] -= 2.0 / size_;
      } else if (step % 3 == 0) {
        wanted -= 2.0 / size_;
      }
    }
    EXPECT_TRUE(torch::allclose(table, wanted)) << step << table << wanted;
    EXPECT_TRUE(!table.grad().defined() || table.grad().is_sparse() == (step % 3 != 0)) << step;
  }
}

TEST_P(SparseGradientsTest, AreClippedByTheNormOfAll) {
  const Words sparse(true), dense(false);
  const auto a = make(sparse), b = make(dense);
  a->add_hook("clip", gradient_clipping(0.5));
  b->add_hook("clip", gradient_clipping(0.5));
  for (int step = 0; step < 4; ++step) {
    double norms[2] = {};
    for (const auto& [model, optimizer] : {std::pair(&sparse, a.get()), {&dense, b.get()}}) {
      optimizer->zero_grad();
      backward(*model, rank_, step);
      if (step == 3) norms[model == &dense] = clip_grad_norm(*optimizer, 0.25);
      optimizer->step();
    }
    EXPECT_NEAR(norms[0], norms[1], 1e-5);
    compare(sparse, dense, "step " + std::to_string(step));
  }
}

TEST_P(SparseGradientsTest, WorkWithEachWayToReduce) {
  const auto check = [&](const std::string& what, double tolerance, const auto& change) {
    const OptimizerOptions before = options_;
    change(options_);
    if (options_.double_buffering || options_.local_steps > 1) options_.overlap.reset();
    const Words sparse(true), dense(false);
    const auto a = make(sparse), b = make(dense);
    for (int step = 0; step < 6; ++step) {
      for (const auto& [model, optimizer] : {std::pair(&sparse, a.get()), {&dense, b.get()}}) {
        optimizer->zero_grad();
        for (int micro = 0; micro < 2; ++micro) {  // accumulated
          const auto quiet = micro == 0 ? optimizer->no_sync() : nullptr;
          backward(*model, rank_, step);
        }
        optimizer->step();
      }
    }
    a->synchronize();
    b->synchronize();
    compare(sparse, dense, what, tolerance);
    options_ = before;
  };
  check("double buffering", 1e-5, [](OptimizerOptions& options) { options.double_buffering = true; });
  check("local steps", 1e-5, [](OptimizerOptions& options) { options.local_steps = 2; });
  check("top-k", 1e-5,
        [](OptimizerOptions& options) { options.compression = {.kind = Compression::kTopK, .density = 1}; });
  // Only dense gradients are rounded.
  check("bf16", 0.05, [](OptimizerOptions& options) { options.compression = {.kind = Compression::kBf16}; });
  check("fp16", 0.05, [](OptimizerOptions& options) { options.compression = {.kind = Compression::kFp16}; });
}

TEST_P(SparseGradientsTest, OfSixteenBitsAreSummedInFloat32) {
  const at::Tensor table = torch::zeros({3, 2}, at::kBFloat16).requires_grad_();
  const auto optimizer = sgd({table});
  for (int step = 1; step < 3; ++step) {
    optimizer->zero_grad();
    // 300 times 1: a sum in bfloat16 would stay at 256.
    torch::embedding(table, torch::ones({300}, at::kLong), -1, false, true).sum().backward();
    optimizer->add_hook("look " + std::to_string(step), [&](const std::vector<at::Tensor>& parameters) {
      const at::Tensor sum = parameters[0].grad().coalesce().values();
      EXPECT_TRUE(size_ == 1 || sum[0][0].item<double>() == 300) << sum;
    });
    optimizer->step(step * (rank_ + 1));
  }
}

TEST_P(SparseGradientsTest, OverflowsAreFoundAndScalesUndone) {
  options_.grad_scaler = GradScalerOptions{.init_scale = 4};
  const at::Tensor table = torch::zeros({3, 2}).requires_grad_();
  const auto optimizer = sgd({table});
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {1.0, infinity, 1.0};
  values.insert(values.end(), 20, infinity);  // after as many a warning names the gradient
  for (const double value : values) {
    optimizer->zero_grad();
    const at::Tensor rows = torch::embedding(table, torch::ones({2}, at::kLong), -1, false, true);
    optimizer->scale_loss(rows.sum() * (rank_ == size_ - 1 ? value : 1.0)).backward();
    optimizer->step();
  }
  EXPECT_TRUE(table[1].equal(torch::full({2}, -4.0))) << table;
  EXPECT_EQ(optimizer->scaler()->skipped(), 21);
}

TEST_P(SparseGradientsTest, GiveTheSameErrorOnAllRanks) {
  const Words model(true);
  auto optimizer = make(model);
  optimizer->add_hook("decay", weight_decay(0.1));
  backward(model, rank_, 0);
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<ArgumentError>(HasSubstr("weight decay does not take sparse")));
  optimizer.reset();  // a parameter has one optimizer
  const auto fails = [&](std::unique_ptr<torch::optim::Optimizer> actual, const std::string& text) {
    const auto other = create_multi_node_optimizer(std::move(actual), comm_, options_);
    other->zero_grad();
    backward(model, rank_, 0);
    EXPECT_THAT([&] { other->step(); }, ThrowsMessage<std::exception>(HasSubstr(text)));
  };
  fails(std::make_unique<torch::optim::Adam>(model.parameters(), torch::optim::AdamOptions(0.1)), "sparse gradients");
  fails(std::make_unique<FusedAdam>(model.parameters(), torch::optim::AdamOptions(0.1)), "Adam does not take sparse");
  fails(std::make_unique<FusedSgd>(model.parameters(), SGDOptions(1).weight_decay(0.1)),
        "SGD with weight decay does not");
}

/// Rows that a rank alone gives another shape. After the error training goes on, also in steps that were announced.
TEST_P(SparseGradientsTest, MustHaveOneForm_from_2_ranks) {
  options_.check_gradients = false;
  const at::Tensor table = torch::zeros({4, 2}).requires_grad_(), dense = parameter({3});
  const auto optimizer = sgd({table, dense});
  const auto step = [&](std::int64_t sparse_dims) {
    optimizer->zero_grad();
    optimizer->announce_step(1);
    dense.sum().backward();
    table.mutable_grad() = torch::eye(4, 2).to_sparse(sparse_dims);
    optimizer->step(1);
  };
  for (int k = 0; k < 4; ++k) step(1);
  EXPECT_THAT([&] { step(rank_ == size_ - 1 ? 2 : 1); },
              ThrowsMessage<ArgumentError>(HasSubstr("other sparse dimensions")));
  step(1);
  EXPECT_TRUE(dense.equal(torch::full({3}, -5.0))) << dense;
}

INSTANTIATE_TEST_SUITE_P(Ways, SparseGradientsTest, kWays, way_name);

/// Steps of SGD with sparse gradients, then a dense one: as torch's.
TEST(FusedSgdSparse, StepsAsTorchsDoes) {
  for (const SGDOptions& options :
       {SGDOptions(0.5), SGDOptions(0.5).momentum(0.5), SGDOptions(0.5).momentum(0.5).dampening(0.25),
        SGDOptions(0.5).momentum(0.5).nesterov(true)}) {
    const at::Tensor a = torch::ones({5, 2}).requires_grad_(), b = torch::ones({5, 2}).requires_grad_();
    SGD theirs({a}, options);
    FusedSgd ours(std::vector<at::Tensor>{b}, options);
    for (std::int64_t k = 0; k < 4; ++k) {
      for (const auto& [p, optimizer] : {std::pair(a, static_cast<torch::optim::Optimizer*>(&theirs)), {b, &ours}}) {
        p.mutable_grad().reset();
        torch::embedding(p, torch::tensor({k, k, std::int64_t{1}}), -1, false, true).sum().backward();
        optimizer->step();
      }
      EXPECT_TRUE(a.equal(b)) << k << a << b;
    }
    b.mutable_grad() = torch::ones({5, 2});
    ours.step();
    EXPECT_TRUE(b.isfinite().all().item<bool>() && b.lt(1).all().item<bool>()) << b;
  }
}

TEST(FusedSgdSparse, MomentumIsSavedDenseAndHoldsEachRowOnce) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  FusedSgd optimizer(table->parameters(), SGDOptions(0.5).momentum(0.5));
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    table(torch::tensor({1, 1, 3}, at::kLong)).sum().backward();
    optimizer.step();
  }
  const auto& state = static_cast<torch::optim::SGDParamState&>(*optimizer.state().begin()->second);
  EXPECT_EQ(state.momentum_buffer()._nnz(), 2);
  const NamedTensors saved = optimizer_tensors(optimizer, *table);
  ASSERT_EQ(saved.size(), 1);
  EXPECT_EQ(saved[0].first, "weight/momentum_buffer");
  EXPECT_TRUE(!saved[0].second.is_sparse() && saved[0].second.equal(state.momentum_buffer().to_dense()));
}

}  // namespace
}  // namespace mn
