#pragma once

#include <mn/core/error.hpp>

namespace mn::launcher {

/// The server or the library failed.
class PmixError : public Error {
 public:
  using Error::Error;
};

}  // namespace mn::launcher
