// A safetensors file of any bytes: every byte behind a sound header belongs to one tensor.
#include <cstdint>
#include <string>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/error.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  try {
    const char* end = nullptr;
    for (const auto& entry : mn::parse_safetensors_header(file, "input")) {
      if (end != nullptr && entry.bytes.data() != end) __builtin_trap();
      end = entry.bytes.data() + entry.bytes.size();
      if (end > file.data() + size) __builtin_trap();
    }
    if (end != nullptr && end != file.data() + size) __builtin_trap();
  } catch (const mn::DataError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
