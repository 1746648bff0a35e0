/// Layer norm and RMS norm on a GPU: what a team of threads (row.hpp) does for one row.
#pragma once

#include <cstdint>

#include <mn/kernels/layer_norm_call.hpp>
#include <mn/kernels/row.hpp>

namespace mn::kernels {

/// The number of adjacent elements that a thread computes at a time. If NormCall::aligned is true, one vector holds
/// them; otherwise the thread loads them one after the other.
inline constexpr std::int64_t kNormWidth = 4;

/// Loads kNormWidth elements from index i of a row on, in the type in which the kernel computes.
template <class T>
constexpr Vector<Real<T>, kNormWidth> load_some(const NormCall& call, const T* row, std::int64_t i) {
  Vector<Real<T>, kNormWidth> result{};
  if (call.aligned) {
    const auto& raw = *reinterpret_cast<const Vector<T, kNormWidth>*>(row + i);
    for (std::int64_t j = 0; j < kNormWidth; ++j) result.values[j] = widen(raw.values[j]);
  } else {
    for (std::int64_t j = 0; j < kNormWidth; ++j)
      result.values[j] = i + j < call.width ? widen(row[i + j]) : Real<T>{0};
  }
  return result;
}

template <class T, class Team>
constexpr void store_some(const NormCall& call, T* row, std::int64_t i, const Vector<Real<T>, kNormWidth>& values) {
  Vector<T, kNormWidth> raw{};
  for (std::int64_t j = 0; j < kNormWidth; ++j) raw.values[j] = Team::template narrow<T>(values.values[j]);
  if (call.aligned) {
    *reinterpret_cast<Vector<T, kNormWidth>*>(row + i) = raw;
  } else {
    for (std::int64_t j = 0; j < kNormWidth; ++j)
      if (i + j < call.width) row[i + j] = raw.values[j];
  }
}

/// Calls work(i) for each group of kNormWidth elements that belongs to `thread`; i is the index of the group's first
/// element. A thread has the same elements in every row.
template <class Team, class Work>
constexpr void for_own(const Team& team, unsigned thread, std::int64_t width, const Work& work) {
  for (std::int64_t i = kNormWidth * std::int64_t{thread}; i < width; i += kNormWidth * std::int64_t{team.size()})
    work(i);
}

template <class R>
struct Pair {
  R first = 0, second = 0;
};
template <class R>
constexpr Pair<R> operator+(const Pair<R>& a, const Pair<R>& b) {
  return {a.first + b.first, a.second + b.second};
}

/// Computes the forward of one row. `kept` is the team's shared memory for the row's sum: a multiple of kNormWidth
/// numbers.
template <class S, class B, class Team>
constexpr void norm_forward_row(Team& team, const NormCall& call, std::int64_t row, Real<S>* kept) {
  using R = Real<S>;
  using Some = Vector<R, kNormWidth>;
  const std::int64_t width = call.width, begin = row * width;
  const auto plus = [](R a, R b) { return a + b; };
  const auto read = [&](unsigned thread) {
    R total = 0;
    for_own(team, thread, width, [&](std::int64_t i) {
      Some x = load_some(call, static_cast<const S*>(call.x) + begin, i);
      if (call.added != nullptr) {
        const auto b = load_some(call, static_cast<const B*>(call.added) + begin, i);
        // The sum is rounded to the stream's type here, so forward normalizes the same numbers that backward will read.
        for (std::int64_t j = 0; j < kNormWidth; ++j)
          x.values[j] = widen(Team::template narrow<S>(x.values[j] + static_cast<R>(b.values[j])));
        store_some<S, Team>(call, static_cast<S*>(call.sum) + begin, i, x);
      }
      for (std::int64_t j = 0; j < kNormWidth; ++j) total += x.values[j], kept[i + j] = x.values[j];
    });
    return total;
  };
  const R total = team.reduce(R{0}, read, plus);
  const R mean = call.centered ? total / static_cast<R>(width) : R{0};
  const auto square = [&](unsigned thread) {
    R squares = 0;
    for_own(team, thread, width, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < kNormWidth; ++j)
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
      const Some g = load_some(call, static_cast<const R*>(call.weight), i);
      Some h{};
      if (call.bias != nullptr) h = load_some(call, static_cast<const R*>(call.bias), i);
      Vector<Real<B>, kNormWidth> y{};
      for (std::int64_t j = 0; j < kNormWidth; ++j)
        y.values[j] = static_cast<Real<B>>((kept[i + j] - mean) * scale * g.values[j] + h.values[j]);
      store_some<B, Team>(call, static_cast<B*>(call.normalized) + begin, i, y);
    });
  });
}

/// What backward needs of kNormWidth elements of a row: dn and n (layer_norm_call.hpp).
template <class R>
struct NormParts {
  Vector<R, kNormWidth> d_normalized, n;
};
template <class S, class B>
constexpr NormParts<Real<S>> load_parts(const NormCall& call, std::int64_t row, std::int64_t i) {
  using R = Real<S>;
  const std::int64_t begin = row * call.width;
  const R mean = static_cast<const R*>(call.statistics)[2 * row];
  const R scale = static_cast<const R*>(call.statistics)[2 * row + 1];
  const auto dn = load_some(call, static_cast<const B*>(call.d_normalized) + begin, i);
  const auto x = load_some(call, static_cast<const S*>(call.x) + begin, i);
  NormParts<R> parts{};
  for (std::int64_t j = 0; j < kNormWidth; ++j) {
    parts.d_normalized.values[j] = static_cast<R>(dn.values[j]);
    parts.n.values[j] = i + j < call.width ? (x.values[j] - mean) * scale : R{0};
  }
  return parts;
}

/// Computes the backward of one row, and adds the row's part of dg and dh to `sums`. The team has 2 × `stride` sums of
/// its own, and each sum belongs to one thread.
template <class S, class B, class Team>
constexpr void norm_backward_row(Team& team, const NormCall& call, std::int64_t row, Real<S>* sums,
                                 std::int64_t stride) {
  using R = Real<S>;
  using Some = Vector<R, kNormWidth>;
  const std::int64_t width = call.width, begin = row * width;
  const R* const weight = static_cast<const R*>(call.weight);
  const auto read = [&](unsigned thread) {
    Pair<R> total;
    for_own(team, thread, width, [&](std::int64_t i) {
      const auto parts = load_parts<S, B>(call, row, i);
      const Some g = load_some(call, weight, i);
      for (std::int64_t j = 0; j < kNormWidth; ++j) {
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
      const Some g = load_some(call, weight, i);
      Some dx{};
      if (call.d_sum != nullptr) dx = load_some(call, static_cast<const S*>(call.d_sum) + begin, i);
      for (std::int64_t j = 0; j < kNormWidth; ++j) {
        dx.values[j] +=
            scale * (parts.d_normalized.values[j] * g.values[j] - mean_of_first - parts.n.values[j] * mean_of_second);
      }
      store_some<S, Team>(call, static_cast<S*>(call.d_x) + begin, i, dx);
      if (call.d_added == nullptr) return;
      Vector<Real<B>, kNormWidth> db{};
      for (std::int64_t j = 0; j < kNormWidth; ++j) db.values[j] = static_cast<Real<B>>(dx.values[j]);
      store_some<B, Team>(call, static_cast<B*>(call.d_added) + begin, i, db);
    });
  });
}

/// Adds up the sums of a block's teams, and writes the result as the block's partial sum. Each of `threads` threads
/// calls this function.
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
