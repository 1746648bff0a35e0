// A .npy file of any bytes: rows of what opens can be read.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <mn/core/error.hpp>

#include "data/npy.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mn::fuzz::InputFile file("npy");
  if (!file.replace(std::as_bytes(std::span(data, size)))) return 0;
  try {
    const mn::data::NpyArray array = mn::data::open_npy(file.path());
    const std::int64_t rows = std::min<std::int64_t>(array.rows(), 4);
    if (array.header().row_elements() == 0 || rows == 0) return 0;
    std::vector<std::byte> bytes(rows * array.header().row_bytes());
    array.read_rows(array.rows() - rows, array.rows(), bytes);
  } catch (const mn::DataError&) {
  }
  return 0;
}
