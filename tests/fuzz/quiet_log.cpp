// Fuzzed code says nothing.
#include <mn/core/log.hpp>

namespace mn {

void log(Severity /*severity*/, std::string_view /*message*/) {}

}  // namespace mn
