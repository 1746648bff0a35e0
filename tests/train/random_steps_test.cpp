// Random programs of optimizer calls: two optimizers, minibatches that reach some parameters on some ranks, uneven
// samples, frozen and added parameters, 16-bit, float64 and sparse gradients, clipping, compression, experts. All ranks
// together train as one rank does that has all samples. tests/train/planted_faults tests this test.
//
// Losses are linear, so gradients do not depend on the parameters: with plain SGD a lossy compression, too, has the
// result of one rank, less what the ranks keep as residuals.
#include <gtest/gtest.h>

#include <mn/nn/collectives.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/random_steps.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;
using Comm = std::shared_ptr<Communicator>;

constexpr double kMaxNorm = 500;
constexpr double kSum = 64;  // what sums over samples are divided by first: a float16 must hold them

class Run {
 public:
  /// `comm` trains with the samples of `ranks` ranks; `alone` is this rank.
  Run(Program program, Comm comm, Comm alone, int ranks)
      : p_(std::move(program)), comm_(std::move(comm)), alone_(std::move(alone)), ranks_(ranks) {
    for (int i = 0; i < kParameters; ++i) {
      const at::Tensor all = torch::zeros(shape(i), p_.dtypes[static_cast<std::size_t>(i)]);
      parameters_.push_back((p_.is_expert(i) ? own_part(all) : all).clone().requires_grad_());
      model_.register_parameter("p" + std::to_string(i), parameters_.back());
    }
    add_optimizer(0, p_.middle());
    if (p_.two) add_optimizer(p_.middle(), p_.known());
  }

  /// The parameters at the end, with what the ranks' compression keeps.
  [[nodiscard]] std::vector<at::Tensor> train() {
    for (int k = 0; k < kSteps; ++k) step(k);
    std::vector<at::Tensor> result(kParameters);
    const WholeParameters whole(model_);
    for (auto& [optimizer, members] : optimizers_) {
      optimizer->synchronize();
      for (std::size_t i = 0; i < members.size(); ++i) {
        at::Tensor own = parameters_[static_cast<std::size_t>(members[i])].detach().clone();
        at::Tensor residual = torch::zeros({own.numel()});
        for (const auto& [name, tensor] : optimizer->rank_state()) {
          if (name == "residual." + std::to_string(i)) residual.copy_(tensor);
        }
        comm_->allreduce(residual);
        if (p_.is_expert(members[i])) {  // of which no residual is kept
          const at::Tensor mine = own;
          own = torch::empty(shape(members[i]), mine.options());
          comm_->allgather(mine, own);
          residual = torch::zeros({own.numel()});
        }
        result[static_cast<std::size_t>(members[i])] =
            own.flatten().to(at::kDouble) - residual.to(at::kDouble) * p_.rate() / comm_->size();
      }
    }
    return result;
  }

 private:
  struct Group {
    std::unique_ptr<MultiNodeOptimizer> optimizer;
    std::vector<int> members;
  };

  /// Experts have a part for each rank.
  [[nodiscard]] std::vector<std::int64_t> shape(int i) const {
    if (p_.sparse[static_cast<std::size_t>(i)]) return {9, 4};
    std::vector<std::int64_t> shape = {3 + i};
    if (i % 2 == 1) shape = {40, 36};
    if (p_.is_expert(i)) shape.insert(shape.begin(), ranks_);
    return shape;
  }
  [[nodiscard]] at::Tensor own_part(const at::Tensor& experts) const {
    return comm_->size() == 1 ? experts : experts.narrow(0, comm_->rank(), 1);
  }

  void add_optimizer(int begin, int end) {
    std::vector<at::Tensor> own;
    std::vector<int> members;
    for (int i = begin; i < end; ++i) own.push_back(parameters_[static_cast<std::size_t>(i)]), members.push_back(i);
    OptimizerOptions options = p_.options;
    if (p_.is_expert(begin)) options.loss_ranks = comm_;
    optimizers_.push_back({create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(own, p_.rate()),
                                                       p_.is_expert(begin) ? alone_ : comm_, options),
                           std::move(members)});
    // Double buffering clips the mean of the step before, also where synchronize() applies it.
    if (p_.clips && p_.options.double_buffering)
      optimizers_.back().optimizer->add_hook("clip", gradient_clipping(kMaxNorm));
  }

  /// Adds the last parameter, after a backward if `late`. A gradient that it had before does not count.
  void add_parameter(bool late) {
    Group& last = optimizers_.back();
    const at::Tensor& added = parameters_.back();
    if (late) added.mutable_grad().reset();
    last.optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}));
    last.members.push_back(kParameters - 1);
  }

  void change_set() {
    if (!p_.freezes) return;
    for (int i = 0; i < kParameters; ++i) parameters_[static_cast<std::size_t>(i)].requires_grad_(!p_.draw.chance());
  }

  /// Of a minibatch: ranks have 0 to 2 each, at least 1 where their losses call each other.
  [[nodiscard]] std::vector<Sample> draw_samples(double count) {
    std::vector<Sample> samples;
    for (int r = 0; r < ranks_; ++r) {
      for (std::int64_t n = p_.calls_ranks || p_.experts ? 1 + p_.draw.below(2) : p_.draw.below(3); n > 0; --n) {
        const double many = p_.counts_differ && p_.draw.chance() ? 3000 : 1;
        Sample sample{r,
                      {},
                      count * many * static_cast<double>(1 + p_.draw.below(3)),
                      static_cast<unsigned>(p_.draw.below(1 << 20))};
        for (int i = 0; i < kParameters; ++i) {
          if (!p_.draw.chance()) sample.terms.push_back(i);
        }
        samples.push_back(std::move(sample));
      }
    }
    return samples;
  }

  [[nodiscard]] at::Tensor term(int i, unsigned seed) const {
    const at::Tensor& own = parameters_[static_cast<std::size_t>(i)];
    auto numbers = at::detail::createCPUGenerator(seed * kParameters + static_cast<unsigned>(i));
    if (p_.sparse[static_cast<std::size_t>(i)]) {
      const bool is_sparse = seed % 4 != 0;  // some samples have a dense gradient
      return at::embedding(own, at::randint(0, 9, {3}, numbers), -1, false, is_sparse).sum().to(at::kDouble) * 64;
    }
    // Small integers: exact in each dtype; large enough that a float16 can't hold the norm.
    const at::Tensor c = at::randint(-8, 9, shape(i), numbers, at::TensorOptions(at::kFloat)) * 512;
    return (own * (p_.is_expert(i) ? own_part(c) : c).to(own.scalar_type())).to(at::kDouble).sum();
  }

  /// The experts' terms of a minibatch: each rank computes those of its experts for the samples of all ranks.
  [[nodiscard]] at::Tensor expert_terms(const std::vector<Sample>& samples) const {
    std::vector<at::Tensor> parts;
    for (int r = 0; r < comm_->size(); ++r) parts.push_back(torch::zeros({}, at::kDouble));
    for (const Sample& sample : samples) {
      at::Tensor& part = parts[comm_->size() == 1 ? 0 : static_cast<std::size_t>(sample.rank)];
      for (const int i : sample.terms) {
        if (p_.is_expert(i)) part = part + term(i, sample.seed) * sample.count;
      }
    }
    return torch::stack(alltoall(comm_, parts)).sum();
  }

  void step(int k) {
    if (p_.adds && !p_.adds_late && k == kSteps / 2) add_parameter(false);
    change_set();
    for (auto& each : optimizers_) each.optimizer->zero_grad();
    const std::int64_t parts = 1 + p_.draw.below(3);
    const double scale = p_.counts_vary && p_.draw.chance() ? 100 : 1;
    const bool second_first = p_.draw.chance(2);
    double counted = 0;
    for (std::int64_t part = 0; part < parts; ++part)
      counted += backward(draw_samples(scale), scale, part + 1 == parts, counted);
    if (p_.adds_late && k == kSteps / 2) add_parameter(true);
    if (second_first) std::reverse(optimizers_.begin(), optimizers_.end());
    for (auto& each : optimizers_) {
      if (!p_.weighs && counted > 0) each.optimizer->scale_gradients(kSum * scale / counted);
      if (p_.clips && !p_.options.double_buffering) clip_grad_norm(*each.optimizer, kMaxNorm, counted);
      each.optimizer->step(counted);
    }
    if (second_first) std::reverse(optimizers_.begin(), optimizers_.end());
  }

  /// Returns what this rank's samples count.
  double backward(const std::vector<Sample>& samples, double scale, bool last, double before) {
    double own = 0, all = 0;
    at::Tensor sum, shared;
    for (const Sample& sample : samples) {
      all += sample.count;
      if (comm_->size() > 1 && sample.rank != comm_->rank()) continue;
      own += sample.count;
      for (const int i : sample.terms) {
        if (p_.is_expert(i)) continue;
        const at::Tensor one = term(i, sample.seed) * sample.count;
        if (!one.requires_grad()) continue;
        at::Tensor& into = p_.calls_ranks && i % 2 == 0 ? shared : sum;
        into = into.defined() ? into + one : one;
      }
    }
    if (p_.calls_ranks) {  // a part that each rank's loss has as a whole
      shared = all_reduce(comm_, shared.defined() ? shared : torch::zeros({}, at::kDouble)) / all * own;
      if (shared.requires_grad()) sum = sum.defined() ? sum + shared : shared;
    }
    if (p_.experts) {
      const at::Tensor terms = expert_terms(samples);
      if (terms.requires_grad()) sum = sum.defined() ? sum + terms : terms;
    }
    std::vector<std::shared_ptr<void>> quiet;
    for (auto& each : optimizers_) {
      if (p_.announces && !last) quiet.push_back(each.optimizer->no_sync());
    }
    MultiNodeOptimizer& first = *optimizers_.front().optimizer;
    if (!sum.defined()) {  // a loss that reaches no parameter: its samples count
      if (p_.weighs && own > 0) static_cast<void>(first.scale_loss(torch::zeros({}), own));
      return own;
    }
    const at::Tensor loss = p_.weighs ? first.scale_loss(sum / own, own) : sum / (kSum * scale);
    for (auto& each : optimizers_) {
      if (p_.announces && p_.weighs && last) each.optimizer->announce_step(before + own);
    }
    loss.backward();
    return own;
  }

  Program p_;
  Comm comm_, alone_;
  int ranks_;
  std::vector<at::Tensor> parameters_;
  torch::nn::Module model_;  // has the parameters
  std::vector<Group> optimizers_;
};

void compare(unsigned seed, const Comm& alone) {
  const Program program(seed);
  SCOPED_TRACE(testing::Message() << program);
  const std::vector<at::Tensor> found = Run(program, world(), alone, world()->size()).train();
  const std::vector<at::Tensor> wanted = Run(program, alone, alone, world()->size()).train();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    EXPECT_TRUE(found[i].isfinite().all().item<bool>()) << "parameter " << i;
    const double error = ((found[i] - wanted[i]).abs() / (1 + wanted[i].abs())).max().item<double>();
    EXPECT_LT(error, program.tolerance(program.dtypes[i])) << "parameter " << i;
  }
}

/// MN_RANDOM_PROGRAMS of them, from the seed MN_FIRST_PROGRAM on.
TEST(RandomSteps, EqualThoseOfOneRank) {
  const auto number = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return static_cast<unsigned>(text == nullptr ? otherwise : std::atoi(text));
  };
  const Comm alone = world()->split(world()->rank(), 0);
  const unsigned first = number("MN_FIRST_PROGRAM", 1), count = number("MN_RANDOM_PROGRAMS", 60);
  if (count == 1 && world()->rank() == 0) std::cerr << Program(first) << std::endl;  // it may hang
  for (unsigned seed = first; seed < first + count; ++seed) {
    try {
      compare(seed, alone);
    } catch (const std::exception&) {
      std::cerr << Program(seed) << std::endl;
      throw;
    }
  }
}

}  // namespace
}  // namespace mn
