#include <mn/core/one_line.hpp>

namespace mn {

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < ' ' || c == '\x7F';
    is_control ? line += '?' : line += c;
  }
  return line;
}

}  // namespace mn
