#include <mn/core/error.hpp>

#include <cstring>

namespace mn {

std::string with_errno(const std::string& what, int error_number) { return what + ": " + std::strerror(error_number); }

}  // namespace mn
