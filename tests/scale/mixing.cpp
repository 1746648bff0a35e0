#include "tests/scale/mixing.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mn/data/step_division.hpp>

namespace mn::test {
namespace {

/// By position.
std::vector<std::int64_t> samples_of(std::int64_t n, const data::OrderOptions& options) {
  const data::EpochOrder order(n, options, 11, 3);
  std::vector<std::int64_t> samples;
  samples.reserve(n);
  for (const auto& stretch : order.stretches(0, n)) {
    const data::OrderWindow window(order, stretch.window);
    const auto rounds = window.rounds(stretch.first, stretch.last);
    const std::int64_t last = rounds[0].last + 1;
    for (std::int64_t round = 0; round < last; ++round) {
      for (std::size_t lane = 0; lane < rounds.size(); ++lane) {
        if (round < rounds[lane].last) samples.push_back(window.sample(static_cast<std::int64_t>(lane), round));
      }
    }
  }
  return samples;
}

}  // namespace

Mixing measure_mixing(std::int64_t n, const data::OrderOptions& options, std::int64_t classes, std::int64_t batch) {
  const std::vector<std::int64_t> samples = samples_of(n, options);
  std::vector<std::int64_t> positions(n);
  for (std::int64_t p = 0; p < n; ++p) positions[samples[p]] = p;

  Mixing mixing;
  std::vector<std::int64_t> distances(n - 1);
  for (std::int64_t s = 0; s + 1 < n; ++s) {
    distances[s] = std::abs(positions[s + 1] - positions[s]);
    if (positions[s] / batch == positions[s + 1] / batch) mixing.near += 1.0 / static_cast<double>(n - 1);
  }
  std::nth_element(distances.begin(), distances.begin() + n / 2, distances.end());
  mixing.median_distance = static_cast<double>(distances[n / 2]);

  const std::int64_t batches = n / batch;
  const double expected = static_cast<double>(batch) / static_cast<double>(classes);
  for (std::int64_t b = 0; b < batches; ++b) {
    std::vector<double> counts(classes);
    for (std::int64_t p = b * batch; p < (b + 1) * batch; ++p) counts[samples[p] * classes / n] += 1;
    double sum = 0;
    for (const double count : counts) {
      sum += (count - expected) * (count - expected) / expected;
      if (count > 0) mixing.classes += 1.0 / static_cast<double>(batches);
    }
    mixing.chi_square += sum / static_cast<double>(classes - 1) / static_cast<double>(batches);
  }
  return mixing;
}

void print_mixing() {
  struct Row {
    const char* name;
    std::int64_t n;
    StorageLayout layout;
  };
  const Row rows[] = {
      {"12 KB fixed x 1 M", 1'000'000, {std::int64_t{12288} * 1'000'000, 46, 6, 5'000'000}},
      {"110 KB JPEG x 1.28 M", 1'281'167, {std::int64_t{110'000} * 1'281'167, 560, 1, 20'000'000}},
      {"50 MB fields x 10 k", 10'000, {std::int64_t{50'000'000} * 10'000, 20, 1, 80'000}},
      {"4 KB tokens x 10 M", 10'000'000, {std::int64_t{4096} * 10'000'000, 4'300, 16, 42'500'000}},
      {"3 KB fixed x 100 k", 100'000, {std::int64_t{3072} * 100'000, 2, 22, 420'000}},
  };
  std::printf("%-21s %-22s %6s  %16s %12s %15s %10s\n", "1,000 sorted classes", "order", "batch", "median distance",
              "same batch", "classes/batch", "chi2/dof");
  for (const Row& row : rows) {
    for (const bool full : {false, true}) {
      const auto order = full ? data::OrderOptions{.shuffle = true} : data::default_order(row.n, row.layout, true);
      char name[64];
      std::snprintf(name, sizeof name, full ? "full shuffle" : "%lld/%lld lanes, %lld win",
                    static_cast<long long>(order.lanes), static_cast<long long>(order.adjacent),
                    static_cast<long long>(order.windows));
      for (const std::int64_t batch : {256, 4096}) {
        if (batch * 2 > row.n) continue;
        const Mixing mixing = measure_mixing(row.n, order, 1000, batch);
        std::printf("%-21s %-22s %6lld  %16.0f %12.5f %15.1f %10.3f\n", row.name, name, static_cast<long long>(batch),
                    mixing.median_distance, mixing.near, mixing.classes, mixing.chi_square);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace mn::test
