/// The backward of GELU on a GPU: the work of a team of threads (row.hpp) on one tile of the matrix.
///
/// A tile is kTileWidth columns wide, and several teams share its rows. A thread works on the same kSome columns in all
/// rows of its team, so it keeps the sums of these columns in registers.
#pragma once

#include <cstdint>

#include <mn/kernels/linear_gelu_call.hpp>
#include <mn/kernels/row.hpp>

namespace mn::kernels {

inline constexpr unsigned kTileThreads = 32;  ///< threads of a team that share a row
inline constexpr unsigned kTileRows = 8;      ///< rows that a team computes at a time
inline constexpr std::int64_t kTileWidth = kTileThreads * kSome;

/// Computes dx of every parts-th group of kTileRows rows, from group `part` on, and writes the tile's columns of
/// partial sum `part`. The team has kTileThreads × kTileRows threads; `shared` is its memory for kTileWidth × kTileRows
/// numbers.
template <class T, class Team>
constexpr void gelu_backward_tile(Team& team, const GeluCall& call, std::int64_t tile, std::int64_t part,
                                  Real<T>* shared) {
  using R = Real<T>;
  team.each([&](unsigned thread) {
    const std::int64_t column = tile * kTileWidth + kSome * std::int64_t{thread % kTileThreads};
    const std::int64_t first = part * kTileRows + thread / kTileThreads;
    Vector<R, kSome> sums{};
    for (std::int64_t row = first; column < call.width && row < call.rows; row += call.parts * kTileRows) {
      const std::int64_t begin = row * call.width;
      const auto x = load_some(call.aligned, static_cast<const T*>(call.x) + begin, column, call.width);
      auto d = load_some(call.aligned, static_cast<const T*>(call.d_y) + begin, column, call.width);
      for (std::int64_t j = 0; j < kSome; ++j) {
        d.values[j] *= gelu_derivative(x.values[j], [](R z) { return Team::exp(z); });
        sums.values[j] += d.values[j];
      }
      store_some<T, Team>(call.aligned, static_cast<T*>(call.d_x) + begin, column, call.width, d);
    }
    for (std::int64_t j = 0; j < kSome; ++j) shared[thread * kSome + j] = sums.values[j];
  });
  team.each([&](unsigned thread) {
    const std::int64_t column = tile * kTileWidth + thread;
    if (thread >= kTileWidth || column >= call.width) return;
    R total = 0;
    for (std::int64_t row = 0; row < kTileRows; ++row) total += shared[row * kTileWidth + thread];
    static_cast<R*>(call.partials)[part * call.width + column] = total;
  });
}

}  // namespace mn::kernels
