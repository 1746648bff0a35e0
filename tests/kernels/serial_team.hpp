/// A team of threads (mn/kernels/row.hpp) on the host. It runs its threads one after the other, so tests can run the
/// code of a GPU's kernel.
#pragma once

#include <array>
#include <cmath>

#include <mn/kernels/row.hpp>

namespace mn::testing {

class SerialTeam {
 public:
  explicit SerialTeam(unsigned threads) : threads_(threads) {}

  [[nodiscard]] unsigned size() const { return threads_; }

  template <class Work>
  void each(const Work& work) const {
    for (unsigned thread = 0; thread < threads_; ++thread) work(thread);
  }
  template <class Work>
  void once(const Work& work) const {
    work();
  }
  /// Merges values in the order of a GPU's block: first within each warp, then over the warps.
  template <class V, class Work, class Merge>
  V reduce(const V& identity, const Work& work, const Merge& merge) const {
    std::array<V, 32> parts, lanes;
    parts.fill(identity);
    for (unsigned warp = 0; warp < threads_ / 32; ++warp) {
      for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = work(warp * 32 + lane);
      parts[warp] = reduce_warp(lanes, merge);
    }
    return reduce_warp(parts, merge);
  }

  template <class R>
  static R exp(R x) {
    return std::exp(x);
  }
  template <class R>
  static R log(R x) {
    return std::log(x);
  }
  template <class R>
  static R inverse_root(R x) {
    return 1 / std::sqrt(x);
  }
  template <class T>
  static T narrow(Real<T> value) {
    return round_to<T>(value);
  }

 private:
  template <class V, class Merge>
  static V reduce_warp(std::array<V, 32>& lanes, const Merge& merge) {
    for (unsigned mask = 16; mask > 0; mask /= 2) {
      const std::array<V, 32> before = lanes;
      for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = merge(before[lane], before[lane ^ mask]);
    }
    return lanes[0];
  }

  unsigned threads_;
};

}  // namespace mn::testing
