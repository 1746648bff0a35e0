/// The numbers that torch.export.save gives to libtorch's enumerations.
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {

/// Throws UnknownForm for a dtype that is not known.
[[nodiscard]] at::ScalarType scalar_type_of(std::int64_t number);

/// libtorch's own number for it, which operators take. Throws UnknownForm.
[[nodiscard]] std::int64_t libtorch_number(const Enumerator& enumerator);

}  // namespace mn::exported
