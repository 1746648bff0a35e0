/// Sums elements of several ranks that MPI has received into a GPU's memory.
///
/// Invariants:
/// 1. Elements are added in rank order. 16-bit floats are added in float32, and the sum is rounded once. The result has
///    the same bits as the result of reduce_in_order().
/// 2. The work of a GPU thread is a plain constexpr function (as in pack.hpp), so tests can run it on the host.
///
/// Cost: one kernel, which reads every element once and writes every sum once.
#pragma once

#include <cstddef>

#include <mn/core/buffer.hpp>
#include <mn/core/half.hpp>

namespace mn {

/// The operands of a sum. `own` holds the elements of the calling rank, `rank`. `received` holds the elements of all
/// other ranks; those of rank r begin at index r × count.
struct OrderedSum {
  const void* own = nullptr;
  const void* received = nullptr;
  void* out = nullptr;  ///< may be `own`
  std::size_t count = 0;
  unsigned rank = 0;
  unsigned ranks = 1;
};

/// Enqueues the sum on `stream` (a cudaStream_t). Throws ArgumentError unless `dtype` is a float dtype.
void sum_on_device(const OrderedSum& sum, DType dtype, void* stream);

template <class T>
constexpr void sum_thread(const OrderedSum& sum, std::size_t thread, std::size_t threads) {
  const auto* const own = static_cast<const T*>(sum.own);
  const auto* const received = static_cast<const T*>(sum.received);
  auto* const out = static_cast<T*>(sum.out);
  for (std::size_t i = thread; i < sum.count; i += threads) {
    auto total = widen(sum.rank == 0 ? own[i] : received[i]);
    for (unsigned r = 1; r < sum.ranks; ++r) {
      total += widen(sum.rank == r ? own[i] : received[r * sum.count + i]);
    }
    out[i] = round_to<T>(total);
  }
}

}  // namespace mn
