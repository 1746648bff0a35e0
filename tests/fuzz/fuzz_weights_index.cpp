// An index of weights of any bytes: names of files beside it, each with tensors, or a DataError of one line that names
// the index.
#include <cstdint>
#include <span>
#include <string_view>

#include <mn/checkpoint/format/weights_index.hpp>
#include <mn/core/error.hpp>

#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile index("index");
  if (!index.replace(std::as_bytes(std::span(data, size)))) return 0;
  try {
    for (const auto& [file, tensors] : mn::read_weights_index(index.path())) {
      const bool is_beside = !file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos;
      if (!is_beside || tensors.empty()) __builtin_trap();
    }
  } catch (const mn::DataError& error) {
    const std::string_view what = error.what();
    if (!what.starts_with(index.path()) || what.find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
