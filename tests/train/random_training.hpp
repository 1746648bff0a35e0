// What a random training of a user combines.
#pragma once

#include <algorithm>
#include <ostream>
#include <random>

#include <torch/torch.h>

#include <mn/gradients/optimizer_options.hpp>

namespace mn {

/// What a seed stands for.
class Plan {
 public:
  explicit Plan(unsigned seed) : random_(seed) {}

 private:
  std::mt19937 random_;
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance() { return below(3) == 0; }

 public:
  enum class LossKind { kSamples, kTokens, kContrastive };
  enum class When { kDefault, kOverlap, kSmallBuckets, kDoubleBuffering, kLocalSteps };

  at::ScalarType dtype = below(4) > 0 ? at::kDouble : at::kFloat;
  bool mixed = chance();  // a parameter of the other dtype
  bool norm = chance(), embedding = chance(), frozen = chance(), twice = chance(), recompute = chance();
  LossKind loss = static_cast<LossKind>(below(3));
  std::int64_t samples = 13 + below(60), accumulate = 1 + below(3), epochs = 1 + below(3);
  bool shuffle = chance(), drop_last = chance();
  When when = static_cast<When>(below(5));
  Compression compression = below(2) > 0 ? Compression::kNone : static_cast<Compression>(below(5));
  std::int64_t optimizer = when == When::kLocalSteps ? 0 : below(9);
  bool clip = chance() && when != When::kLocalSteps, decay = chance();
  bool by_trainer = when == When::kLocalSteps || below(2) > 0;
  // In a loop of one's own:
  bool two_optimizers = chance() && !by_trainer;
  bool announces = chance(), pauses = chance(), sums = chance();
  // By a Trainer:
  bool average = chance() && when != When::kLocalSteps, schedule = chance();
  std::int64_t stop = by_trainer ? below(8) : 0;  // after so many iterations, if not 0
  int first_ranks = static_cast<int>(1 + below(3));
  bool scaler = chance() && !two_optimizers && when < When::kDoubleBuffering && compression <= Compression::kBf16;
  Shard shard =
      when < When::kDoubleBuffering && compression == Compression::kNone ? static_cast<Shard>(below(4)) : Shard::kNone;
  bool keep_gradients = chance();
  int shard_group = static_cast<int>(below(3));  // all ranks, each rank alone, pairs

  [[nodiscard]] bool calls_ranks() const { return norm || loss == LossKind::kContrastive; }
  /// Plain SGD and Adagrad do.
  [[nodiscard]] bool takes_sparse() const { return (optimizer == 0 || optimizer == 8) && !decay; }
  [[nodiscard]] double tolerance() const {
    if (compression == Compression::kFp16 || compression == Compression::kBf16) return 0.1;
    if (dtype == at::kFloat || mixed) return 2e-3;
    return scaler ? 1e-6 : 1e-8;  // scaled losses are float32
  }
  [[nodiscard]] OptimizerOptions options(int ranks) const {
    OptimizerOptions options;
    if (when == When::kOverlap || when == When::kSmallBuckets) options.overlap = true;
    if (when == When::kSmallBuckets) options.bucket_bytes = 64;
    options.double_buffering = when == When::kDoubleBuffering;
    if (when == When::kLocalSteps) {
      options.local_steps = 1000;  // averaged after each by hand
    } else {
      options.compression = {.kind = compression, .density = 1, .rank = 16};
    }
    const int group = ranks % std::max(shard_group, 1) == 0 ? shard_group : ShardOptions::kAllRanks;
    options.shard = {.what = shard, .group = group, .keep_gradients = keep_gradients, .unit_bytes = 64};
    if (scaler) options.grad_scaler = GradScalerOptions{.growth_interval = 4};
    return options;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  const auto flag = [&](const char* name, bool on) { out << (on ? " " : " no-") << name; };
  out << plan.dtype << " loss " << static_cast<int>(plan.loss) << " samples " << plan.samples << " accumulate "
      << plan.accumulate << " epochs " << plan.epochs << " when " << static_cast<int>(plan.when) << " compression "
      << static_cast<int>(plan.compression) << " shard " << static_cast<int>(plan.shard) << " of " << plan.shard_group
      << " optimizer " << plan.optimizer << " stop " << plan.stop << " of " << plan.first_ranks;
  flag("mixed", plan.mixed), flag("norm", plan.norm), flag("embedding", plan.embedding), flag("frozen", plan.frozen);
  flag("twice", plan.twice), flag("recompute", plan.recompute), flag("shuffle", plan.shuffle);
  flag("drop_last", plan.drop_last), flag("clip", plan.clip), flag("decay", plan.decay);
  flag("by_trainer", plan.by_trainer), flag("two_optimizers", plan.two_optimizers), flag("announces", plan.announces);
  flag("pauses", plan.pauses), flag("sums", plan.sums), flag("average", plan.average);
  flag("schedule", plan.schedule), flag("scaler", plan.scaler), flag("keep_gradients", plan.keep_gradients);
  return out;
}

}  // namespace mn
