/// Layer norm and RMS norm on a GPU: the work of a team of threads (row.hpp) on one row.
#pragma once

#include <cstdint>

#include <mn/kernels/layer_norm_call.hpp>
#include <mn/kernels/row.hpp>

namespace mn::kernels {

/// Calls work(i) for each group of kSome elements of `thread`; i is the index of the group's first element. A thread
/// has the same elements in every row.
template <class Team, class Work>
constexpr void for_own(const Team& team, unsigned thread, std::int64_t width, const Work& work) {
  for (std::int64_t i = kSome * std::int64_t{thread}; i < width; i += kSome * std::int64_t{team.size()}) work(i);
}

/// `kept` is the team's shared memory for the row's sum: a multiple of kSome numbers.
template <class S, class B, class Team>
constexpr void norm_forward_row(Team& team, const NormCall& call, std::int64_t row, Real<S>* kept) {
  using R = Real<S>;
  using Some = Vector<R, kSome>;
  const std::int64_t width = call.width, begin = row * width;
  const auto plus = [](R a, R b) { return a + b; };
  const auto read = [&](unsigned thread) {
    R total = 0;
    for_own(team, thread, width, [&](std::int64_t i) {
      Some x = load_some(call.aligned, static_cast<const S*>(call.x) + begin, i, call.width);
      if (call.added != nullptr) {
        const auto b = load_some(call.aligned, static_cast<const B*>(call.added) + begin, i, call.width);
        // The sum is rounded to the stream's type, so that forward normalizes the numbers that backward will read.
        for (std::int64_t j = 0; j < kSome; ++j)
          x.values[j] = widen(Team::template narrow<S>(x.values[j] + static_cast<R>(b.values[j])));
        store_some<S, Team>(call.aligned, static_cast<S*>(call.sum) + begin, i, call.width, x);
      }
      for (std::int64_t j = 0; j < kSome; ++j) total += x.values[j], kept[i + j] = x.values[j];
    });
    return total;
  };
  const R total = team.reduce(R{0}, read, plus);
  const R mean = call.centered ? total / static_cast<R>(width) : R{0};
  const auto square = [&](unsigned thread) {
    R squares = 0;
    for_own(team, thread, width, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < kSome; ++j)
        squares += i + j < width ? (kept[i + j] - mean) * (kept[i + j] - mean) : R{0};
    });
    return squares;
  };
  const R variance = team.reduce(R{0}, square, plus) / static_cast<R>(width);
  const R scale = Team::inverse_root(variance + static_cast<R>(call.eps));
  team.once([&] {
    static_cast<R*>(call.statistics)[2 * row] = mean;
    static_cast<R*>(call.statistics)[2 * row + 1] = scale;
  });
  team.each([&](unsigned thread) {
    for_own(team, thread, width, [&](std::int64_t i) {
      const Some g = load_some(call.aligned, static_cast<const R*>(call.weight), i, call.width);
      Some h{};
      if (call.bias != nullptr) h = load_some(call.aligned, static_cast<const R*>(call.bias), i, call.width);
      Vector<Real<B>, kSome> y{};
      for (std::int64_t j = 0; j < kSome; ++j)
        y.values[j] = static_cast<Real<B>>((kept[i + j] - mean) * scale * g.values[j] + h.values[j]);
      store_some<B, Team>(call.aligned, static_cast<B*>(call.normalized) + begin, i, call.width, y);
    });
  });
}

/// Gradients (dn) of kSome normalized elements, and the elements (n) before weight and bias: see layer_norm_call.hpp.
template <class R>
struct NormParts {
  Vector<R, kSome> d_normalized, n;
};
template <class S, class B>
constexpr NormParts<Real<S>> load_parts(const NormCall& call, std::int64_t row, std::int64_t i) {
  using R = Real<S>;
  const std::int64_t begin = row * call.width;
  const R mean = static_cast<const R*>(call.statistics)[2 * row];
  const R scale = static_cast<const R*>(call.statistics)[2 * row + 1];
  const auto dn = load_some(call.aligned, static_cast<const B*>(call.d_normalized) + begin, i, call.width);
  const auto x = load_some(call.aligned, static_cast<const S*>(call.x) + begin, i, call.width);
  NormParts<R> parts{};
  for (std::int64_t j = 0; j < kSome; ++j) {
    parts.d_normalized.values[j] = static_cast<R>(dn.values[j]);
    parts.n.values[j] = i + j < call.width ? (x.values[j] - mean) * scale : R{0};
  }
  return parts;
}

/// Adds the row's contributions to dg and dh to `sums`: 2 × `stride` sums of the team; each belongs to one thread.
template <class S, class B, class Team>
constexpr void norm_backward_row(Team& team, const NormCall& call, std::int64_t row, Real<S>* sums,
                                 std::int64_t stride) {
  using R = Real<S>;
  using Some = Vector<R, kSome>;
  const std::int64_t width = call.width, begin = row * width;
  const R* const weight = static_cast<const R*>(call.weight);
  const auto read = [&](unsigned thread) {
    Pair<R> total;
    for_own(team, thread, width, [&](std::int64_t i) {
      const auto parts = load_parts<S, B>(call, row, i);
      const Some g = load_some(call.aligned, weight, i, call.width);
      for (std::int64_t j = 0; j < kSome; ++j) {
        const R dn = parts.d_normalized.values[j], n = parts.n.values[j];
        total = total + Pair<R>{dn * g.values[j], dn * g.values[j] * n};
        sums[i + j] += dn * n;
        sums[stride + i + j] += dn;
      }
    });
    return total;
  };
  const auto total = team.reduce(Pair<R>{}, read, [](const Pair<R>& a, const Pair<R>& b) { return a + b; });
  const R scale = static_cast<const R*>(call.statistics)[2 * row + 1];
  const R mean_of_first = call.centered ? total.first / static_cast<R>(width) : R{0};
  const R mean_of_second = total.second / static_cast<R>(width);
  team.each([&](unsigned thread) {
    for_own(team, thread, width, [&](std::int64_t i) {
      const auto parts = load_parts<S, B>(call, row, i);
      const Some g = load_some(call.aligned, weight, i, call.width);
      Some dx{};
      if (call.d_sum != nullptr) dx = load_some(call.aligned, static_cast<const S*>(call.d_sum) + begin, i, call.width);
      for (std::int64_t j = 0; j < kSome; ++j) {
        dx.values[j] +=
            scale * (parts.d_normalized.values[j] * g.values[j] - mean_of_first - parts.n.values[j] * mean_of_second);
      }
      store_some<S, Team>(call.aligned, static_cast<S*>(call.d_x) + begin, i, call.width, dx);
      if (call.d_added == nullptr) return;
      Vector<Real<B>, kSome> db{};
      for (std::int64_t j = 0; j < kSome; ++j) db.values[j] = static_cast<Real<B>>(dx.values[j]);
      store_some<B, Team>(call.aligned, static_cast<B*>(call.d_added) + begin, i, call.width, db);
    });
  });
}

/// Writes the total of the sums of a block's teams as the block's partial sum. Call it in all `threads` threads.
template <class R>
constexpr void write_partials(const NormCall& call, const R* sums, std::int64_t stride, std::int64_t teams,
                              std::int64_t block, unsigned thread, unsigned threads) {
  R* const partial = static_cast<R*>(call.partials) + block * 2 * call.width;
  for (std::int64_t i = thread; i < 2 * call.width; i += threads) {
    const std::int64_t at = i < call.width ? i : stride + i - call.width;
    R total = 0;
    for (std::int64_t team = 0; team < teams; ++team) total += sums[team * 2 * stride + at];
    partial[i] = total;
  }
}

}  // namespace mn::kernels
