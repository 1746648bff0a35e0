/// Layer norm and RMS norm on the CPU (layer_norm_call.hpp). Each function works on a range of rows; several threads
/// may work on different ranges.
#pragma once

#include <cstdint>

#include <mn/kernels/layer_norm_call.hpp>

namespace mn::kernels {

/// Computes the forward of the rows [first, last).
void norm_forward_on_host(const NormCall& call, std::int64_t first, std::int64_t last);
/// Computes the backward of the rows [first, last), and adds their contributions to dg and dh to partial sum number
/// `partial`.
void norm_backward_on_host(const NormCall& call, std::int64_t first, std::int64_t last, std::int64_t partial);

}  // namespace mn::kernels
