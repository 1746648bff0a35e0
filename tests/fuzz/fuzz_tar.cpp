// A tar file of any bytes: samples come to an end, or DataError says why not.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include <mn/core/error.hpp>

#include "data/webdataset.hpp"
#include "tests/fuzz/input_file.hpp"

namespace {

/// Checksums stop almost every input at the door: those of all blocks are put right in half of them.
void put_checksums_right(std::span<std::byte> file) {
  constexpr std::size_t kBlock = 512, kSumAt = 148;
  for (; file.size() >= kBlock; file = file.subspan(kBlock)) {
    std::memcpy(&file[kSumAt], "        ", 8);
    unsigned sum = 0;
    for (const std::byte b : file.first(kBlock)) sum += std::to_integer<unsigned>(b);
    if (sum == 8 * ' ') {  // nothing else: the end
      std::memset(&file[kSumAt], 0, 8);
      continue;
    }
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(&file[kSumAt], text, 7);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile file("tar");
  std::vector<std::byte> content(size);
  if (size > 0) std::memcpy(content.data(), data, size);
  if (size % 2 == 0) put_checksums_right(content);
  if (!file.replace(content)) return 0;
  try {
    mn::data::WebReader reader(file.path());
    for (mn::data::WebSample sample; reader.next(sample);) {
    }
  } catch (const mn::DataError&) {
  }
  return 0;
}
