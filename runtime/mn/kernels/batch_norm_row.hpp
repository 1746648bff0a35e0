/// Batch normalization on a GPU: the work of a team of threads (row.hpp) on one strip (batch_norm_call.hpp).
///
/// A strip is a column of rows: each row holds `length` adjacent elements, and rows begin `pitch` elements apart.
/// Several teams (`parts`) share the rows of a strip. A team's threads stand side by side in a row, or in several rows
/// if rows are short. A thread keeps its position in the row, and therefore its channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include <mn/kernels/batch_norm_call.hpp>
#include <mn/kernels/row.hpp>

namespace mn::kernels {

/// The part of a strip that one team computes.
struct StripPart {
  std::int64_t begin;    ///< index of the strip's first element
  std::int64_t length;   ///< elements of a row
  std::int64_t pitch;    ///< elements between the beginnings of two rows
  std::int64_t channel;  ///< channel of the first element
  std::int64_t part;     ///< index of this part
  std::int64_t parts;    ///< number of parts of the strip
};

constexpr std::int64_t strips_of(const BatchNormCall& call) {
  return call.inner > 1 ? call.channels : (call.channels + kStripChannels - 1) / kStripChannels;
}
/// The number of threads, of `threads` (a power of two), that stand side by side in a row.
constexpr std::int64_t threads_in_row(const BatchNormCall& call, std::int64_t threads) {
  const std::int64_t length = call.inner > 1 ? call.inner : std::min(call.channels, kStripChannels);
  std::int64_t in_row = 1;
  while (in_row < threads && in_row * kSome < length) in_row *= 2;
  return in_row;
}

constexpr StripPart strip_part(const BatchNormCall& call, std::int64_t strip, std::int64_t part, std::int64_t parts) {
  if (call.inner > 1) return {strip * call.inner, call.inner, call.channels * call.inner, strip, part, parts};
  const std::int64_t first = strip * kStripChannels;
  return {first, std::min(call.channels - first, kStripChannels), call.channels, first, part, parts};
}

/// Mean, weight and other numbers of the channels of kSome adjacent elements.
template <class R>
struct ChannelNumbers {
  Vector<R, kSome> mean, invstd, weight, bias;
  Vector<R, kSome> db, dw;  ///< 0 if the call has no sums

  [[nodiscard]] constexpr R normalized(std::int64_t j, R x) const {
    return (x - mean.values[j]) * (invstd.values[j] * weight.values[j]) + bias.values[j];
  }
};

/// Returns the numbers of the channels of the kSome elements from index i of a row on.
template <class R>
constexpr ChannelNumbers<R> channels_of(const BatchNormCall& call, const StripPart& part, std::int64_t i) {
  const auto load = [&](const void* numbers) {
    Vector<R, kSome> result{};
    const R* const from = static_cast<const R*>(numbers) + part.channel;
    for (std::int64_t j = 0; j < kSome; ++j)
      if (i + j < part.length) result.values[j] = from[call.inner > 1 ? 0 : i + j];
    return result;
  };
  ChannelNumbers<R> all{load(call.mean), load(call.invstd), load(call.weight), load(call.bias), {}, {}};
  if (call.sums == nullptr) return all;
  all.db = load(call.sums);
  all.dw = load(static_cast<const R*>(call.sums) + call.channels);
  return all;
}

/// Calls work(i, channels, begin) for each group of kSome elements of `thread`: i is the group's index in its row, and
/// `begin` the index of the row's first element.
template <class R, class Team, class Work>
constexpr void for_own(const Team& team, const BatchNormCall& call, const StripPart& part, unsigned thread,
                       const Work& work) {
  const std::int64_t in_row = threads_in_row(call, team.size()), rows = team.size() / in_row;
  for (std::int64_t i = kSome * (thread % in_row); i < part.length; i += kSome * in_row) {
    const auto channels = channels_of<R>(call, part, i);
    for (std::int64_t row = part.part * rows + thread / in_row; row < call.outer; row += part.parts * rows)
      work(i, channels, part.begin + row * part.pitch);
  }
}

template <class T, class Team>
constexpr void batch_norm_forward_strip(Team& team, const BatchNormCall& call, const StripPart& part) {
  using R = Real<T>;
  team.each([&](unsigned thread) {
    for_own<R>(team, call, part, thread, [&](std::int64_t i, const ChannelNumbers<R>& channels, std::int64_t begin) {
      auto y = load_some(call.aligned, static_cast<const T*>(call.x) + begin, i, part.length);
      Vector<R, kSome> a{};
      if (call.added != nullptr) a = load_some(call.aligned, static_cast<const T*>(call.added) + begin, i, part.length);
      for (std::int64_t j = 0; j < kSome; ++j) {
        const R sum = channels.normalized(j, y.values[j]) + a.values[j];
        y.values[j] = call.relu && sum < 0 ? R{0} : sum;
      }
      store_some<T, Team>(call.aligned, static_cast<T*>(call.y) + begin, i, part.length, y);
    });
  });
}

/// Loads the gradients dy of the elements `x`, and returns g (batch_norm_call.hpp).
template <class T>
constexpr Vector<Real<T>, kSome> masked_gradient(const BatchNormCall& call, const StripPart& part, std::int64_t begin,
                                                 std::int64_t i, const ChannelNumbers<Real<T>>& channels,
                                                 const Vector<Real<T>, kSome>& x) {
  using R = Real<T>;
  auto g = load_some(call.aligned, static_cast<const T*>(call.d_y) + begin, i, part.length);
  if (!call.relu) return g;
  Vector<R, kSome> y{};
  if (call.mask != nullptr) {
    y = load_some(call.aligned, static_cast<const T*>(call.mask) + begin, i, part.length);
  } else {
    for (std::int64_t j = 0; j < kSome; ++j) y.values[j] = channels.normalized(j, x.values[j]);
  }
  for (std::int64_t j = 0; j < kSome; ++j) g.values[j] = y.values[j] <= 0 ? R{0} : g.values[j];
  return g;
}

/// Sums over a thread's elements for each of its channels: Σ g and Σ g (x − mean).
template <class R>
struct ThreadSums {
  Vector<R, kSome> gradients, products;
};

template <class T, class Team>
constexpr ThreadSums<Real<T>> sums_of_thread(Team& team, const BatchNormCall& call, const StripPart& part,
                                             unsigned thread) {
  using R = Real<T>;
  ThreadSums<R> sums{};
  for_own<R>(team, call, part, thread, [&](std::int64_t i, const ChannelNumbers<R>& channels, std::int64_t begin) {
    const auto x = load_some(call.aligned, static_cast<const T*>(call.x) + begin, i, part.length);
    const auto g = masked_gradient<T>(call, part, begin, i, channels, x);
    if (call.d_added != nullptr)
      store_some<T, Team>(call.aligned, static_cast<T*>(call.d_added) + begin, i, part.length, g);
    for (std::int64_t j = 0; j < kSome; ++j) {
      sums.gradients.values[j] += g.values[j];
      sums.products.values[j] += g.values[j] * (x.values[j] - channels.mean.values[j]);
    }
  });
  return sums;
}

/// Writes the partial sums db and dw of this part of the strip. `kept`, shared memory, has one element for each thread.
template <class T, class Team>
constexpr void batch_norm_sums_strip(Team& team, const BatchNormCall& call, const StripPart& part,
                                     ThreadSums<Real<T>>* kept) {
  using R = Real<T>;
  R* const partial = static_cast<R*>(call.partials) + part.part * 2 * call.channels + part.channel;
  const auto write = [&](std::int64_t channel, const Pair<R>& total) {
    partial[channel] = total.first;
    partial[call.channels + channel] = total.second * static_cast<const R*>(call.invstd)[part.channel + channel];
  };
  const auto plus = [](const Pair<R>& a, const Pair<R>& b) { return a + b; };
  if (call.inner > 1) {
    const auto add_up = [&](unsigned thread) {
      const ThreadSums<R> sums = sums_of_thread<T>(team, call, part, thread);
      Pair<R> total;
      for (std::int64_t j = 0; j < kSome; ++j)
        total = total + Pair<R>{sums.gradients.values[j], sums.products.values[j]};
      return total;
    };
    const Pair<R> total = team.reduce(Pair<R>{}, add_up, plus);
    team.once([&] { write(0, total); });
    return;
  }
  team.each([&](unsigned thread) { kept[thread] = sums_of_thread<T>(team, call, part, thread); });
  const std::int64_t in_row = threads_in_row(call, team.size());
  team.each([&](unsigned thread) {
    for (std::int64_t channel = thread; channel < part.length; channel += team.size()) {
      Pair<R> total;
      for (std::int64_t t = channel / kSome; t < team.size(); t += in_row)
        total = total + Pair<R>{kept[t].gradients.values[channel % kSome], kept[t].products.values[channel % kSome]};
      write(channel, total);
    }
  });
}

template <class T, class Team>
constexpr void batch_norm_backward_strip(Team& team, const BatchNormCall& call, const StripPart& part) {
  using R = Real<T>;
  const R share = static_cast<R>(1 / call.count);
  team.each([&](unsigned thread) {
    for_own<R>(team, call, part, thread, [&](std::int64_t i, const ChannelNumbers<R>& channels, std::int64_t begin) {
      auto x = load_some(call.aligned, static_cast<const T*>(call.x) + begin, i, part.length);
      const auto g = masked_gradient<T>(call, part, begin, i, channels, x);
      for (std::int64_t j = 0; j < kSome; ++j) {
        const R n = (x.values[j] - channels.mean.values[j]) * channels.invstd.values[j];
        x.values[j] = channels.invstd.values[j] * channels.weight.values[j] *
                      (g.values[j] - share * (channels.db.values[j] + n * channels.dw.values[j]));
      }
      store_some<T, Team>(call.aligned, static_cast<T*>(call.d_x) + begin, i, part.length, x);
    });
  });
}

}  // namespace mn::kernels
