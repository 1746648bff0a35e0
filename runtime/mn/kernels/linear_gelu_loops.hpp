/// The backward of GELU on the CPU (linear_gelu_call.hpp). The function works on a range of rows; several threads may
/// work on different ranges.
#pragma once

#include <cstdint>

#include <mn/kernels/linear_gelu_call.hpp>

namespace mn::kernels {

/// Computes dx of the rows [first, last), and adds their contributions to db to partial sum number `part`.
void gelu_backward_on_host(const GeluCall& call, std::int64_t first, std::int64_t last, std::int64_t part);

}  // namespace mn::kernels
