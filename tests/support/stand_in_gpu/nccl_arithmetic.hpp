/// What NCCL computes: element by element, with each result rounded to the elements' type.
#pragma once

#include <cstddef>
#include <functional>

#include <nccl.h>

namespace mn::stand_in {

/// 0 for types that there are not.
[[nodiscard]] std::size_t size_of(ncclDataType_t type);

/// Reduces the elements of all ranks. As in rings, the order of ranks changes along the buffer.
void reduce(std::byte* result, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int ranks,
            const std::function<const std::byte*(int rank)>& values_of);

}  // namespace mn::stand_in
