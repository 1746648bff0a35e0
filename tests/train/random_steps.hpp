// What a random program of optimizer calls combines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include <torch/torch.h>

#include <mn/gradients/optimizer_options.hpp>

namespace mn {

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
    // The norm of one rank's experts is not the norm of all experts.
    experts = weighs && two && !clips && !calls_ranks && draw.chance(2);
    counts_differ = weighs && draw.chance();
    adds_late = adds && !announces && draw.chance(2);
    for (int i = 0; i < kParameters; ++i) {
      constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
      dtypes.push_back(draw.chance(2) ? at::kFloat : kTypes[draw.below(4)]);
      sparse.push_back(dtypes.back() == at::kFloat && !is_expert(i) && draw.chance(5));
    }
    const bool has_half = std::ranges::find(dtypes, at::kHalf) != dtypes.end();
    if (way >= 4 && options.compression.kind == Compression::kNone && !has_half) {
      options.shard = {
          .what = static_cast<Shard>(1 + number % 3), .keep_gradients = number % 2 == 0, .unit_bytes = 1 << 10};
      adds = adds_late = false;       // a parameter cannot join
      calls_ranks = experts = false;  // needs ranks that use the same parameters; the samples of all ranks
    }
  }
  /// The parameters from the start; one more may be added.
  [[nodiscard]] int known() const { return adds ? kParameters - 1 : kParameters; }
  /// The first parameter of the second optimizer.
  [[nodiscard]] int middle() const { return two ? known() / 2 : known(); }
  /// True if each rank has a part of its own of parameter i, and computes with it for all ranks.
  [[nodiscard]] bool is_expert(int i) const { return experts && i >= middle(); }
  /// Clipped gradients are small. Parameters near 1 show the relative error of clipping.
  [[nodiscard]] double rate() const { return clips ? 0.05 : 5e-4; }
  [[nodiscard]] double tolerance(at::ScalarType dtype) const {
    if (!clips) return tolerance_of(dtype);
    double most = 2 * tolerance_of(dtype);
    for (const at::ScalarType other : dtypes)
      most = std::max(most, tolerance_of(other) / 2);  // the norm has the rounding of all
    return most;
  }

  unsigned seed;
  Draw draw;
  OptimizerOptions options;
  bool clips, two, freezes, adds, weighs, announces, calls_ranks, counts_vary, counts_differ, experts, adds_late;
  std::vector<at::ScalarType> dtypes;
  std::vector<bool> sparse;

 private:
  [[nodiscard]] double tolerance_of(at::ScalarType dtype) const {
    if (options.compression.kind == Compression::kBf16 || dtype == at::kBFloat16) return 0.05;
    if (options.compression.kind == Compression::kFp16 || dtype == at::kHalf) return 0.01;
    return dtype == at::kDouble ? 1e-6 : 1e-3;  // weights travel as float32 where no parameter is float64
  }
};

inline std::ostream& operator<<(std::ostream& out, const Program& program) {
  const auto flag = [&](const char* name, bool on) { out << (on ? " " : " no-") << name; };
  out << "program " << program.seed << ": compression "
      << compression_names()[static_cast<std::size_t>(program.options.compression.kind)] << " density "
      << program.options.compression.density << " types";
  for (const at::ScalarType dtype : program.dtypes) out << " " << dtype;
  out << " shard " << static_cast<int>(program.options.shard.what);
  flag("overlap", program.options.overlap.value_or(false)), flag("double", program.options.double_buffering);
  flag("clips", program.clips), flag("two", program.two), flag("freezes", program.freezes), flag("adds", program.adds);
  flag("weighs", program.weighs), flag("announces", program.announces), flag("calls_ranks", program.calls_ranks);
  flag("counts_differ", program.counts_differ), flag("experts", program.experts), flag("adds_late", program.adds_late);
  return out;
}

/// One sample: the parameters that its loss has, and how often it counts.
struct Sample {
  int rank;  // of all ranks, which it belongs to
  std::vector<int> terms;
  double count;
  unsigned seed;
};

}  // namespace mn
