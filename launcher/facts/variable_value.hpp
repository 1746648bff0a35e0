/// Values of environment variables as hashes, for nodes with too many variables.
#pragma once

#include <string>

#include <mn/core/checksum.hpp>

namespace mn::launcher {

/// "#" and a hash. A value that is a hash stays.
[[nodiscard]] inline std::string hash_of_value(const std::string& value) {
  const bool is_hash = value.starts_with('#') && value.find_first_not_of("0123456789", 1) == std::string::npos;
  return is_hash ? value : "#" + std::to_string(hash64(value));
}

}  // namespace mn::launcher
