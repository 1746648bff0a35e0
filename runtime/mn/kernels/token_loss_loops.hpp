/// The token loss on the CPU (token_loss_call.hpp): loops over rows, which any number of threads may share.
#pragma once

#include <cstdint>

#include <mn/kernels/token_loss_call.hpp>

namespace mn::kernels {

/// Computes 1/W, one divided by the sum of the rows' weights. Call it before token_loss_on_host().
void weigh_rows_on_host(const TokenLossCall& call);
/// Computes the losses and gradients of the rows [first, last). Returns the first row whose target is outside of [0, V)
/// and is not ignored; its loss and gradient are NaN. Returns −1 if there is no such row.
std::int64_t token_loss_on_host(const TokenLossCall& call, std::int64_t first, std::int64_t last);

/// Multiplies the rows [first, last) by their factors. Rows with factor 1 are not touched.
void scale_rows_on_host(const ScaleRowsCall& call, std::int64_t first, std::int64_t last);

}  // namespace mn::kernels
