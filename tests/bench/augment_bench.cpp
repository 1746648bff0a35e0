// augment_bench ROUNDS: microseconds of CPU time on one thread that each of write_augment_cases's operations takes, a
// copy of the image included, and each way of resizing. A line for each kind. augment_vs_torchvision runs it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <mn/image/mix.hpp>
#include <mn/image/resize.hpp>
#include <mn/loader/mix_images.hpp>

#include "tests/image/augment_cases.hpp"

namespace {

using namespace mn::data;

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The cases with one name: their number and the sum of their times.
struct Total {
  int count = 0;
  double seconds = 0;
};
using Totals = std::map<std::string, Total, std::less<>>;

template <class Step>
void measure(std::string_view name, int rounds, Totals& totals, const Step& step) {
  const double begin = thread_seconds();
  for (int i = 0; i < rounds; ++i) step();
  Total& total = totals[std::string(name)];
  ++total.count;
  total.seconds += (thread_seconds() - begin) / rounds;
}

/// A minibatch as a training has it: too large for a cache.
void measure_floats(int rounds, Totals& totals) {
  constexpr std::size_t kImages = 64, kValues = std::size_t{3} * 224 * 224;
  at::set_num_threads(1);
  at::Tensor images = at::full({kImages, 3, 224, 224}, 0.5F);
  const std::span<float> values(images.mutable_data_ptr<float>(), kImages * kValues);
  for (const FloatCase& one : float_cases(224, 3)) {
    const bool erases = one.erased.width > 0;
    const std::string_view name = erases ? "erase" : one.mix.pasted.width > 0 ? "cutmix" : "mixup";
    Totals batches;
    measure(name, rounds, batches, [&] {
      if (!erases) (void)mn::mix_images(images, std::vector<Mix>(kImages, one.mix));
      for (std::size_t i = 0; i < kImages && erases; ++i) {
        erase_part(one.erased, 224, PixelLayout::kNchw, values.subspan(i * kValues, kValues));
      }
    });
    totals[std::string(name)] = {1, batches.begin()->second.seconds / kImages};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: augment_bench ROUNDS\n");
    return 2;
  }
  const int rounds = std::atoi(argv[1]);
  Totals totals;
  Image out;
  ImageOperator apply;
  for (const AugmentCase& one : augment_cases(224, 224, 3, 0)) {
    measure(name_of(one.operation.kind), rounds, totals, [&] {
      out = one.in;
      apply.apply(one.operation, out);
    });
  }
  Resizer resizer;
  for (const ResizeCase& one : resize_cases(500, 375, 12)) {
    measure(one.filter == Interpolation::kBicubic ? "bicubic" : "bilinear", rounds, totals,
            [&] { resizer.resize(one.in, to_box(one.part), one.part, 224, 224, false, out, one.filter); });
  }
  measure_floats(rounds, totals);
  for (const auto& [name, total] : totals) std::printf("%s %.2f\n", name.c_str(), 1e6 * total.seconds / total.count);
  return 0;
}
