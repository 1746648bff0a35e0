/// The error of ranks that do not make the same call.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// what() says which rank gives what. After it the communicator can only be destroyed.
class CallMismatch : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace mn
