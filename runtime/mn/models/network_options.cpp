#include <mn/models/network_options.hpp>

#include <string>

#include <mn/core/error.hpp>

namespace mn::models {

LlamaOptions LlamaOptions::resolved() const {
  LlamaOptions result = *this;
  const auto divides = [](std::int64_t part, std::int64_t whole) { return part > 0 && whole % part == 0; };
  if (key_value_heads == 0) result.key_value_heads = heads;
  if (head_width == 0 && !divides(heads, width)) {
    throw ArgumentError("a width of " + std::to_string(width) + " can't be divided into " + std::to_string(heads) +
                        " heads");
  }
  if (head_width == 0) result.head_width = width / heads;
  if (hidden == 0) result.hidden = (width * 8 / 3 + 31) / 32 * 32;
  if (result.head_width % 2 != 0)
    throw ArgumentError("heads of width " + std::to_string(result.head_width) +
                        " can't be rotated: not an even number");
  if (!divides(result.key_value_heads, heads)) {
    throw ArgumentError(std::to_string(heads) + " heads can't share " + std::to_string(result.key_value_heads) +
                        " heads of keys and values");
  }
  return result;
}

}  // namespace mn::models
