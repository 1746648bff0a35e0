/// The error of ranks that do not make the same call.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// what() says which rank gives what. After it the communicator can only be destroyed.
class CallMismatch : public CommError {
 public:
  using CommError::CommError;
};

/// For what(): the rule, and the beginning of the advice.
inline constexpr const char* kSameCalls =
    "all ranks must make the same calls with the same count, dtype, op and root; MN_DEBUG=1";

}  // namespace mn
