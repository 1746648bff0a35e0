#include "exchange/keys.hpp"

#include <mn/core/error.hpp>

namespace mn::launcher {

Key SharedKey::accept(const std::string& sealed) {
  if (!sealed.empty()) throw CommError("it offers a sealed key, but this job's launchers have one already");
  return key_;
}

}  // namespace mn::launcher
