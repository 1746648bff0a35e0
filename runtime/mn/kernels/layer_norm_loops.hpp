/// The CPU's norms (layer_norm_call.hpp): loops over rows, for any number of threads.
#pragma once

#include <cstdint>

#include <mn/kernels/layer_norm_call.hpp>

namespace mn::kernels {

/// Forward of rows [first, last).
void norm_forward_on_host(const NormCall& call, std::int64_t first, std::int64_t last);
/// Backward of rows [first, last), which adds to partial sum `partial`.
void norm_backward_on_host(const NormCall& call, std::int64_t first, std::int64_t last, std::int64_t partial);

}  // namespace mn::kernels
