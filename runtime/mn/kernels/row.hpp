/// Rows of matrices as kernels read and write them, and arithmetic that all kernels share.
///
/// A kernel's body is a template on a Team, and runs unchanged on a GPU and, in tests, on the host. A team is a warp or
/// a block of threads that work on one row. A team has these functions:
///
/// - size(): number of threads.
/// - each(f): calls f(thread) for every thread, then waits for all threads.
/// - reduce(identity, f, merge): merge() of f(thread) over all threads; every thread gets the same bits. merge() must
/// be commutative. Waits for all threads.
/// - once(f): calls f() in one thread, and waits for nothing.
/// - exp(x), log(x), inverse_root(x), narrow<T>(x): arithmetic; narrow() rounds as round_to() does.
///
/// Invariants:
/// 1. All threads of a team call the same functions of the team in the same order.
/// 2. After a thread writes an element, another thread reads the element only after each() or reduce().
/// 3. Vectors of a row lie at addresses that are multiples of kVectorBytes, wherever the row begins. The first and the
///    last vector may be partial; a thread never touches an element outside of its row.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mn/core/half.hpp>

namespace mn::kernels {

/// Most bytes that a thread loads or stores at once.
inline constexpr std::int64_t kVectorBytes = 16;

/// N elements that one thread loads at once.
template <class T, std::int64_t N = kVectorBytes / static_cast<std::int64_t>(sizeof(T))>
struct alignas(sizeof(T) * N < kVectorBytes ? sizeof(T) * N : kVectorBytes) Vector {
  static constexpr std::int64_t kWidth = N;
  T values[N];
};

/// Number of adjacent elements that load_some() loads.
inline constexpr std::int64_t kSome = 4;

/// Loads the kSome elements from index i on, of a row of `width` elements, in the type in which kernels compute. If
/// `aligned` is true, they must lie within the row, at a multiple of a vector's alignment. If false, they are loaded
/// one by one, and elements past the row's end are 0.
template <class T>
constexpr Vector<Real<T>, kSome> load_some(bool aligned, const T* row, std::int64_t i, std::int64_t width) {
  Vector<Real<T>, kSome> result{};
  if (aligned) {
    const auto& raw = *reinterpret_cast<const Vector<T, kSome>*>(row + i);
    for (std::int64_t j = 0; j < kSome; ++j) result.values[j] = widen(raw.values[j]);
  } else {
    for (std::int64_t j = 0; j < kSome; ++j) result.values[j] = i + j < width ? widen(row[i + j]) : Real<T>{0};
  }
  return result;
}

/// Rounds the values to T, and stores those that lie within the row.
template <class T, class Team>
constexpr void store_some(bool aligned, T* row, std::int64_t i, std::int64_t width,
                          const Vector<Real<T>, kSome>& values) {
  Vector<T, kSome> raw{};
  for (std::int64_t j = 0; j < kSome; ++j) raw.values[j] = Team::template narrow<T>(values.values[j]);
  if (aligned) {
    *reinterpret_cast<Vector<T, kSome>*>(row + i) = raw;
  } else {
    for (std::int64_t j = 0; j < kSome; ++j)
      if (i + j < width) row[i + j] = raw.values[j];
  }
}

template <class R>
struct Pair {
  R first = 0, second = 0;
};
template <class R>
constexpr Pair<R> operator+(const Pair<R>& a, const Pair<R>& b) {
  return {a.first + b.first, a.second + b.second};
}

/// A row of `count` adjacent elements, cut into vectors at multiples of kVectorBytes (invariant 3 above).
template <class T>
class Row {
 public:
  using Vec = Vector<T>;
  static constexpr std::int64_t kWidth = Vec::kWidth;

  constexpr Row(T* begin, std::int64_t count)
      : begin_(begin),
        count_(count),
        lead_(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) % kVectorBytes / sizeof(T))) {}

  [[nodiscard]] constexpr std::int64_t vectors() const { return (lead_ + count_ + kWidth - 1) / kWidth; }
  /// Index, within the row, of the first element of vector v. It is negative if vector 0 begins before the row.
  [[nodiscard]] constexpr std::int64_t first_of(std::int64_t v) const { return v * kWidth - lead_; }
  [[nodiscard]] constexpr bool holds(std::int64_t i) const { return i >= 0 && i < count_; }

  /// Loads vector v. Elements of the vector that lie outside of the row are set to `filler`.
  constexpr Vec load(std::int64_t v, T filler) const {
    const std::int64_t first = first_of(v);
    if (is_whole(first)) return *reinterpret_cast<const Vec*>(begin_ + first);
    Vec vector{};
    for (std::int64_t j = 0; j < kWidth; ++j) vector.values[j] = holds(first + j) ? begin_[first + j] : filler;
    return vector;
  }

  constexpr void store(std::int64_t v, const Vec& vector) const {
    const std::int64_t first = first_of(v);
    if (is_whole(first)) {
      *reinterpret_cast<Vec*>(begin_ + first) = vector;
    } else {
      for (std::int64_t j = 0; j < kWidth; ++j)
        if (holds(first + j)) begin_[first + j] = vector.values[j];
    }
  }

 private:
  [[nodiscard]] constexpr bool is_whole(std::int64_t first) const { return first >= 0 && first + kWidth <= count_; }

  T* begin_;
  std::int64_t count_;
  std::int64_t lead_;
};

}  // namespace mn::kernels
