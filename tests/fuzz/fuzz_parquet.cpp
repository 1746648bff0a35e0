// A Parquet file of any bytes: texts of the column "text", or a DataError of one line that names the file. Arrow itself
// is not instrumented, but its buffers are ASan's.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>

#include "data/parquet.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  return setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1);  // malloc, before Arrow asks
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile file("parquet");
  if (!file.replace(std::as_bytes(std::span(data, size)))) return 0;
  try {
    std::vector<mn::data::TextPiece> pieces;
    mn::data::cut_parquet(file.path(), 0, "text", pieces);
    unsigned sum = 0;
    const auto add = [&](std::string_view text) {
      for (const char c : text) sum += static_cast<unsigned char>(c);
    };
    for (const auto& piece : pieces) mn::data::read_parquet(file.path(), piece, "text", add);
    volatile unsigned sink = sum;
    (void)sink;
  } catch (const mn::DataError& error) {
    const std::string_view what = error.what();
    if (!what.starts_with(file.path()) || what.find('\n') != std::string_view::npos) __builtin_trap();
  }
  return 0;
}
