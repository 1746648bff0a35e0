/// Maps torch.export.save's numbers of enumerations to libtorch's.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {

/// libtorch's dtype for the file's number. Throws UnknownForm for an unknown dtype.
[[nodiscard]] at::ScalarType scalar_type_of(std::int64_t number);
/// The number by which libtorch's operators know the enumerator. Throws UnknownForm for an unknown enumerator.
[[nodiscard]] std::int64_t libtorch_number(const Enumerator& enumerator);

}  // namespace mn::exported
