/// The error of ranks that make different calls.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// what() names the ranks and their calls. After a CallMismatch the communicator can only be destroyed.
class CallMismatch : public CommError {
 public:
  using CommError::CommError;
};

/// Text for what(): the rule, and the beginning of the advice.
inline constexpr const char* kSameCalls =
    "all ranks must make the same calls with the same count, dtype, op and root; MN_DEBUG=1";

}  // namespace mn
