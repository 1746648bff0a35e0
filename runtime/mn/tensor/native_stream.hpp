/// A stream of libtorch as the device's own library knows it.
#pragma once

#include <c10/core/Stream.h>

namespace mn {

/// Returns the device's handle of the stream, such as a cudaStream_t. Works with each libtorch that mn builds with.
[[nodiscard]] void* native_stream(const c10::Stream& stream);

}  // namespace mn
