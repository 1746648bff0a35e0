// IDX content of any bytes.
#include <cstdint>
#include <span>

#include <mn/core/error.hpp>
#include <mn/data/idx.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto content = std::as_bytes(std::span(data, size));
  for (const std::size_t dims : {1, 2}) {
    try {
      const auto array = mn::data::parse_idx(content, dims, "input");
      unsigned sum = 0;
      for (const std::byte b : array.bytes) sum += std::to_integer<unsigned>(b);
      volatile unsigned sink = sum;
      (void)sink;
    } catch (const mn::DataError&) {
    }
  }
  return 0;
}
