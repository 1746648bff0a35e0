// An HDF5 file that was indexed, of any bytes: its index is a table or DataError says why not; blocks of a table can be
// read, or DataError says why not. Bytes 0 to 5 say how the samples lie, then there are chunks of 8 bytes: address,
// length, filters left out.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/data/hdf5_table.hpp>

namespace {

using namespace mn;
using namespace mn::data;

Hdf5File described(const std::uint8_t* data, std::size_t size, const FieldSpec& field, const std::string& path) {
  const auto [modified_ns, bytes] = modified_and_bytes(path);
  Hdf5File file{.path = path, .num_samples = data[1] % 32, .bytes = bytes, .modified_ns = modified_ns};
  Hdf5Array& array = file.arrays.emplace_back();
  array.is_swapped = data[0] % 2 == 1;
  array.fill.assign(size_of(field.dtype), data[0]);
  array.address = data[5];
  if (data[3] == 0) return file;
  array.chunk = {data[3], data[4]};
  for (const int filter : {2, 1, 3, 32000}) {  // shuffle, gzip, fletcher32, lzf
    const int bit = filter == 32000 ? 4 : filter;
    if ((data[0] >> bit & 1) != 0) array.filters.push_back(filter);
  }
  const std::int64_t columns = (field.shape[0] + data[4] - 1) / std::max<std::int64_t>(data[4], 1);
  const std::int64_t chunks = (file.num_samples + data[3] - 1) / data[3] * columns;
  for (std::size_t i = 0, at = 6; i < static_cast<std::size_t>(chunks) && at + 8 <= size; ++i, at += 8) {
    std::uint16_t numbers[4];
    std::memcpy(numbers, data + at, sizeof numbers);
    array.chunks.add({numbers[0] == 0xffff ? kNotStored : numbers[0], numbers[1], numbers[2]});
  }
  return file;
}

void read_blocks(const std::uint8_t* data, std::size_t size, const std::string& path) {
  constexpr DType kTypes[] = {DType::kUInt8, DType::kInt16, DType::kFloat32, DType::kFloat64};
  const SampleSpec spec{{{.name = "x", .dtype = kTypes[data[2] % 4], .shape = {data[2] / 4 + 1}}}};
  const Hdf5Table table("/", "train", spec, {described(data, size, spec[0], path)});
  if (Hdf5Table::parse(table.serialize()).hash() != table.hash()) __builtin_trap();
  const auto reader = table.open_alone(0);
  for (std::int64_t block = 0; block < reader->num_blocks(0); ++block) {
    try {
      const auto values = reader->load_block(0, block);
      if (std::ssize(*values) != reader->samples_in(0, block) * spec[0].sample_bytes()) __builtin_trap();
    } catch (const DataError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = memfd_create("indexed", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  try {
    (void)Hdf5Table::parse("MNINDEX2" + std::string(reinterpret_cast<const char*>(data), size));
  } catch (const DataError&) {
  }
  if (size < 6 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    read_blocks(data, size, path);
  } catch (const DataError&) {
  }
  return 0;
}
