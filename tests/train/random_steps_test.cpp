// Random programs of optimizer calls: two optimizers, minibatches that reach some parameters on some ranks, uneven
// samples, frozen and added parameters, 16-bit, float64 and sparse gradients, clipping, compression. All ranks together
// train as one rank does that has all samples.
//
// Losses are linear, so gradients do not depend on the parameters: with plain SGD a lossy compression, too, has the
// result of one rank, less what the ranks keep as residuals.
#include <random>

#include <gtest/gtest.h>

#include <mn/nn/collectives.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;
using Comm = std::shared_ptr<Communicator>;

constexpr double kRate = 1e-3;
constexpr double kSum = 64;  // what sums over samples are divided by first: a float16 must hold them
constexpr int kParameters = 6, kSteps = 6;

/// Numbers of a seed, the same on all ranks.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int of = 3) { return below(of) == 0; }

 private:
  std::mt19937 random_;
};

struct Program {
  explicit Program(unsigned number) : seed(number), draw(number) {
    const std::int64_t way = draw.below(6);
    if (way == 1 || way == 2) options.overlap = true;
    if (way == 2) options.bucket_bytes = 64;
    options.double_buffering = way == 3;
    const bool lossy = draw.chance();
    if (lossy || draw.chance()) options.compression.kind = static_cast<Compression>(1 + draw.below(4));
    options.compression.density = lossy ? 0.05 : 1;
    options.compression.rank = lossy ? 1 : 40;
    const bool casts = options.compression.kind == Compression::kFp16 || options.compression.kind == Compression::kBf16;
    clips = !lossy && !casts && draw.chance();
    two = draw.chance(2), freezes = draw.chance(2), adds = draw.chance(), weighs = draw.chance(2);
    announces = draw.chance(), calls_ranks = weighs && draw.chance(), counts_vary = draw.chance(2);
    for (int i = 0; i < kParameters; ++i) {
      constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
      dtypes.push_back(draw.chance(2) ? at::kFloat : kTypes[draw.below(4)]);
      // Other ranks' losses may weigh many times as much as this rank's.
      if (calls_ranks && dtypes.back() == at::kHalf) dtypes.back() = at::kFloat;
      sparse.push_back(dtypes.back() == at::kFloat && draw.chance(5));
    }
  }
  [[nodiscard]] double tolerance(at::ScalarType dtype) const {
    if (clips) return 0.05;  // the norm has the rounding of all
    if (options.compression.kind == Compression::kBf16 || dtype == at::kBFloat16) return 0.05;
    if (options.compression.kind == Compression::kFp16 || dtype == at::kHalf) return 0.01;
    return dtype == at::kDouble ? 1e-6 : 1e-3;  // weights travel as float32 where no parameter is float64
  }

  unsigned seed;
  Draw draw;
  OptimizerOptions options;
  bool clips, two, freezes, adds, weighs, announces, calls_ranks, counts_vary;
  std::vector<at::ScalarType> dtypes;
  std::vector<bool> sparse;
};

std::ostream& operator<<(std::ostream& out, const Program& program) {
  const auto flag = [&](const char* name, bool on) { out << (on ? " " : " no-") << name; };
  out << "program " << program.seed << ": compression "
      << compression_names()[static_cast<std::size_t>(program.options.compression.kind)] << " density "
      << program.options.compression.density << " types";
  for (const at::ScalarType dtype : program.dtypes) out << " " << dtype;
  flag("overlap", program.options.overlap.value_or(false)), flag("double", program.options.double_buffering);
  flag("clips", program.clips), flag("two", program.two), flag("freezes", program.freezes), flag("adds", program.adds);
  flag("weighs", program.weighs), flag("announces", program.announces), flag("calls_ranks", program.calls_ranks);
  return out;
}

/// One sample: the parameters that its loss has, and how often it counts.
struct Sample {
  int rank;  // of `ranks`, which it belongs to
  std::vector<int> terms;
  double count;
  unsigned seed;
};

class Run {
 public:
  Run(Program program, Comm comm, int ranks) : p_(std::move(program)), comm_(std::move(comm)), ranks_(ranks) {
    for (int i = 0; i < kParameters; ++i) {
      const std::vector<std::int64_t> shape =
          i % 2 == 0 ? std::vector<std::int64_t>{3 + i} : std::vector<std::int64_t>{40, 36};
      const bool is_table = p_.sparse[static_cast<std::size_t>(i)];
      parameters_.push_back(torch::zeros(is_table ? at::IntArrayRef{9, 4} : at::IntArrayRef(shape),
                                         p_.dtypes[static_cast<std::size_t>(i)])
                                .requires_grad_());
    }
    const int known = p_.adds ? kParameters - 1 : kParameters, middle = p_.two ? known / 2 : known;
    add_optimizer(0, middle);
    if (p_.two) add_optimizer(middle, known);
    added_ = known;
  }

  /// The parameters at the end, with what the ranks' compression keeps.
  [[nodiscard]] std::vector<at::Tensor> train() {
    for (int k = 0; k < kSteps; ++k) step(k);
    std::vector<at::Tensor> result(kParameters);
    for (auto& [optimizer, members] : optimizers_) {
      optimizer->synchronize();
      for (std::size_t i = 0; i < members.size(); ++i) {
        const at::Tensor& own = parameters_[static_cast<std::size_t>(members[i])];
        at::Tensor residual = torch::zeros({own.numel()});
        for (const auto& [name, tensor] : optimizer->rank_state()) {
          if (name == "residual." + std::to_string(i)) residual.copy_(tensor);
        }
        comm_->allreduce(residual);
        result[static_cast<std::size_t>(members[i])] =
            own.detach().flatten().to(at::kDouble) - residual.to(at::kDouble) * kRate / comm_->size();
      }
    }
    return result;
  }

 private:
  struct Group {
    std::unique_ptr<MultiNodeOptimizer> optimizer;
    std::vector<int> members;
  };

  void add_optimizer(int begin, int end) {
    std::vector<at::Tensor> own;
    std::vector<int> members;
    for (int i = begin; i < end; ++i) own.push_back(parameters_[static_cast<std::size_t>(i)]), members.push_back(i);
    optimizers_.push_back(
        {create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(own, kRate), comm_, p_.options),
         std::move(members)});
  }

  void change_set(int k) {
    if (p_.adds && k == kSteps / 2) {
      Group& last = optimizers_.back();
      last.optimizer->actual().add_param_group(
          torch::optim::OptimizerParamGroup({parameters_[static_cast<std::size_t>(added_)]}));
      last.members.push_back(added_);
    }
    if (!p_.freezes) return;
    for (int i = 0; i < kParameters; ++i) parameters_[static_cast<std::size_t>(i)].requires_grad_(!p_.draw.chance());
  }

  /// Of a minibatch: ranks have 0 to 2 each, at least 1 where their losses call each other.
  [[nodiscard]] std::vector<Sample> draw_samples(double count) {
    std::vector<Sample> samples;
    for (int r = 0; r < ranks_; ++r) {
      for (std::int64_t n = p_.calls_ranks ? 1 + p_.draw.below(2) : p_.draw.below(3); n > 0; --n) {
        Sample sample{
            r, {}, count * static_cast<double>(1 + p_.draw.below(3)), static_cast<unsigned>(p_.draw.below(1 << 20))};
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
      return at::embedding(own, at::randint(0, 9, {3}, numbers), -1, false, /*sparse=*/true).sum().to(at::kDouble) * 64;
    }
    // Small integers: exact in each dtype; large enough that a float16 can't hold the norm.
    const at::Tensor c = at::randint(-8, 9, own.sizes(), numbers, at::TensorOptions(at::kFloat)) * 256;
    return (own * c.to(own.scalar_type())).to(at::kDouble).sum();
  }

  void step(int k) {
    change_set(k);
    for (auto& each : optimizers_) each.optimizer->zero_grad();
    const std::int64_t parts = 1 + p_.draw.below(3);
    const double scale = p_.counts_vary && p_.draw.chance() ? 100 : 1;
    const bool second_first = p_.draw.chance(2);
    double counted = 0;
    for (std::int64_t part = 0; part < parts; ++part)
      counted += backward(draw_samples(scale), scale, part + 1 == parts, counted);
    if (second_first) std::reverse(optimizers_.begin(), optimizers_.end());
    for (auto& each : optimizers_) {
      if (!p_.weighs && counted > 0) each.optimizer->scale_gradients(kSum * scale / counted);
      if (p_.clips) clip_grad_norm(*each.optimizer, 500, counted);
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
  Comm comm_;
  int ranks_;
  std::vector<at::Tensor> parameters_;
  std::vector<Group> optimizers_;
  int added_ = 0;
};

void compare(unsigned seed, const Comm& alone) {
  const Program program(seed);
  SCOPED_TRACE(testing::Message() << program);
  const std::vector<at::Tensor> found = Run(program, world(), world()->size()).train();
  const std::vector<at::Tensor> wanted = Run(program, alone, world()->size()).train();
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
