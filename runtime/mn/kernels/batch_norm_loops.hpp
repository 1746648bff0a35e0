/// Batch normalization on the CPU (batch_norm_call.hpp): loops over rows, which any number of threads may share. A row
/// is a channel of an image, or all channels of a position if the channels are adjacent (inner = 1).
#pragma once

#include <cstdint>

#include <mn/kernels/batch_norm_call.hpp>

namespace mn::kernels {

[[nodiscard]] constexpr std::int64_t rows_of(const BatchNormCall& call) {
  return call.inner > 1 ? call.outer * call.channels : call.outer;
}
/// Computes the forward of the rows [first, last).
void batch_norm_forward_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last);
/// Computes d_added and the sums of the rows [first, last). If inner is 1, adds the sums to partial sum number `part`.
/// Otherwise writes the sums of each row to the partial sum whose number is the index of the row's image.
void batch_norm_sums_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last, std::int64_t part);
/// Computes d_x of the rows [first, last).
void batch_norm_backward_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last);

}  // namespace mn::kernels
