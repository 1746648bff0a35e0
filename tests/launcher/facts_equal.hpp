/// Compares facts in tests.
#pragma once

#include "launcher/facts/json_fields.hpp"

namespace mn::launcher {

/// Compares facts with all the facts in them.
template <json_fields::Listed Facts>
bool operator==(const Facts& one, const Facts& other) {
  return one.fields() == other.fields();
}

}  // namespace mn::launcher
