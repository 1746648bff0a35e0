/// Maps the numbers that torch.export.save writes for enumerations to libtorch's numbers.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {

/// Returns libtorch's dtype for the file's number. Throws UnknownForm if the number stands for no known dtype.
[[nodiscard]] at::ScalarType scalar_type_of(std::int64_t number);
/// Returns the number by which libtorch's operators know the enumerator. Throws UnknownForm for an unknown enumerator.
[[nodiscard]] std::int64_t libtorch_number(const Enumerator& enumerator);

}  // namespace mn::exported
