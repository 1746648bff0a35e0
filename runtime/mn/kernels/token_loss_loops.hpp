/// The CPU's token loss (token_loss_call.hpp): loops over rows, for any number of threads.
#pragma once

#include <cstdint>

#include <mn/kernels/token_loss_call.hpp>

namespace mn::kernels {

/// Computes 1/W. Call it before the losses.
void weigh_rows_on_host(const TokenLossCall& call);
/// Losses and gradients of rows [first, last). Returns the first row whose target is outside of [0, V) and is not
/// ignored, or −1. This row's loss and gradient are NaN.
std::int64_t token_loss_on_host(const TokenLossCall& call, std::int64_t first, std::int64_t last);

/// Multiplies rows [first, last). Rows with factor 1 are not touched.
void scale_rows_on_host(const ScaleRowsCall& call, std::int64_t first, std::int64_t last);

}  // namespace mn::kernels
