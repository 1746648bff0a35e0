/// The token loss on a GPU: the work of a team of threads (row.hpp) on one row.
#pragma once

#include <cstdint>
#include <limits>

#include <mn/kernels/row.hpp>
#include <mn/kernels/token_loss_call.hpp>

namespace mn::kernels {

/// For a part of a row: the maximum of x, the sum of exp(x − maximum), and the sum of x.
template <class R>
struct Softmax {
  R max = -std::numeric_limits<R>::infinity();
  R sum = 0;
  R total = 0;
};

/// The number to subtract before exp(): the maximum. A finite number if all elements are −∞, because −∞ − (−∞) is NaN.
template <class R>
constexpr R shift_of(R max) {
  return max == -std::numeric_limits<R>::infinity() ? R{0} : max;
}

/// Merges two parts of a row. max() drops a NaN, but the sum keeps it, so the loss is NaN.
template <class Team, class R>
constexpr Softmax<R> merged(const Softmax<R>& a, const Softmax<R>& b) {
  const R max = a.max > b.max ? a.max : b.max;
  const R shift = shift_of(max);
  return {max, a.sum * Team::exp(a.max - shift) + b.sum * Team::exp(b.max - shift), a.total + b.total};
}

template <class Team, class T>
constexpr void add_vector(Softmax<Real<T>>& own, const Row<T>& row, std::int64_t v, const Vector<T>& vector) {
  using R = Real<T>;
  R max = own.max;
  for (const T& value : vector.values) max = widen(value) > max ? widen(value) : max;
  const R shift = shift_of(max);
  R sum = own.sum * Team::exp(own.max - shift);
  R total = own.total;
  for (std::int64_t j = 0; j < Row<T>::kWidth; ++j) {
    const R x = widen(vector.values[j]);
    sum += Team::exp(x - shift);
    total += row.holds(row.first_of(v) + j) ? x : R{0};
  }
  own = {max, sum, total};
}

/// A row's gradient is exp(x − shift) × probability − uniform, less `target` for the target's element.
template <class R>
struct GradientFactors {
  R shift, probability, uniform, target;
};

template <class R>
constexpr GradientFactors<R> gradient_factors(const TokenLossCall& call, const Softmax<R>& all, R log_sum, R scale) {
  const R smoothing = static_cast<R>(call.smoothing);
  return {shift_of(all.max), scale * (1 + 2 * static_cast<R>(call.z_loss) * log_sum) / all.sum,
          scale * smoothing / static_cast<R>(call.vocabulary), scale * (1 - smoothing)};
}

template <class Team, class T>
constexpr Vector<T> gradient_of(const Vector<T>& x, std::int64_t target, const GradientFactors<Real<T>>& factors) {
  Vector<T> gradient{};
  for (std::int64_t j = 0; j < Row<T>::kWidth; ++j) {
    Real<T> g = Team::exp(widen(x.values[j]) - factors.shift) * factors.probability - factors.uniform;
    if (j == target) g -= factors.target;
    gradient.values[j] = Team::template narrow<T>(g);
  }
  return gradient;
}

/// The row's weight w; 0 if the row is ignored.
template <class R>
constexpr R weight_of(const TokenLossCall& call, std::int64_t row) {
  if (call.targets[row] == call.ignore_index) return 0;
  return call.weights == nullptr ? R{1} : static_cast<const R*>(call.weights)[row];
}

/// Writes 1/W for the sum W of all rows' weights: 1 if the mean is not wanted, 0 if W is 0.
template <class R, class Team>
constexpr void weigh_rows(Team& team, const TokenLossCall& call) {
  const auto sum_of_thread = [&](unsigned thread) {
    R sum = 0;
    for (std::int64_t row = thread; row < call.rows; row += team.size()) sum += weight_of<R>(call, row);
    return sum;
  };
  const R total = team.reduce(R{0}, sum_of_thread, [](R a, R b) { return a + b; });
  team.once([&] { *static_cast<R*>(call.inverse) = !call.mean ? R{1} : total != 0 ? 1 / total : R{0}; });
}

template <class R>
constexpr R loss_of_row(const TokenLossCall& call, R log_sum, R target_logit, R total) {
  const R smoothing = static_cast<R>(call.smoothing);
  R loss = (1 - smoothing) * (log_sum - target_logit);
  if (smoothing != 0) loss += smoothing * (log_sum - total / static_cast<R>(call.vocabulary));
  if (call.z_loss != 0) loss += static_cast<R>(call.z_loss) * log_sum * log_sum;
  return loss;
}

/// `kept`, shared memory, holds row.vectors() vectors. If it is null, the row is read from global memory twice.
template <class T, class Team>
constexpr void token_loss_row(Team& team, const TokenLossCall& call, std::int64_t index, Vector<T>* kept) {
  using R = Real<T>;
  T* const begin = static_cast<T*>(call.logits) + index * call.row_stride;
  const Row<T> row(begin, call.vocabulary);
  R* const loss = static_cast<R*>(call.losses) + index;
  const R weight = weight_of<R>(call, index);
  if (weight == 0) {
    team.once([&] { *loss = 0; });
    if (!call.gradient) return;
    team.each([&](unsigned thread) {
      for (std::int64_t v = thread; v < row.vectors(); v += team.size()) row.store(v, Vector<T>{});
    });
    return;
  }
  const std::int64_t target = call.targets[index];
  // Reads the target's logit now, because other threads will overwrite it with the gradient.
  const R target_logit = row.holds(target) ? widen(begin[target]) : std::numeric_limits<R>::quiet_NaN();
  const auto sum_of_thread = [&](unsigned thread) {
    Softmax<R> own;
    for (std::int64_t v = thread; v < row.vectors(); v += team.size()) {
      const Vector<T> x = row.load(v, round_to<T>(-std::numeric_limits<R>::infinity()));
      if (kept != nullptr) kept[v] = x;
      add_vector<Team>(own, row, v, x);
    }
    return own;
  };
  const auto merge = [](const Softmax<R>& a, const Softmax<R>& b) { return merged<Team>(a, b); };
  const Softmax<R> all = team.reduce(Softmax<R>{}, sum_of_thread, merge);
  const R log_sum = all.max + Team::log(all.sum);
  const R inverse = *static_cast<const R*>(call.inverse);
  team.once([&] { *loss = weight * inverse * loss_of_row(call, log_sum, target_logit, all.total); });
  if (!call.gradient) return;
  const R scale = row.holds(target) ? weight * (call.scaled ? inverse : R{1}) : target_logit;
  const GradientFactors<R> factors = gradient_factors(call, all, log_sum, scale);
  team.each([&](unsigned thread) {
    for (std::int64_t v = thread; v < row.vectors(); v += team.size()) {
      const Vector<T> x = kept != nullptr ? kept[v] : row.load(v, T{});
      row.store(v, gradient_of<Team>(x, target - row.first_of(v), factors));
    }
  });
}

template <class T, class Team>
constexpr void scale_row(Team& team, const ScaleRowsCall& call, std::int64_t index) {
  const Real<T> factor = static_cast<const Real<T>*>(call.factors)[call.count == 1 ? 0 : index];
  if (factor == 1) return;
  const Row<T> row(static_cast<T*>(call.data) + index * call.row_stride, call.columns);
  team.each([&](unsigned thread) {
    for (std::int64_t v = thread; v < row.vectors(); v += team.size()) {
      Vector<T> x = row.load(v, T{});
      for (T& value : x.values) value = Team::template narrow<T>(widen(value) * factor);
      row.store(v, x);
    }
  });
}

}  // namespace mn::kernels
