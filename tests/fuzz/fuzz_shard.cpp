// A shard file of any bytes: it opens, or DataError says why not; what opens can be read to its end.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_reader.hpp>

namespace {

/// Checksums stop almost every input at the door: half of them are put right, so that what lies behind is reached.
void put_checksum_right(std::span<std::byte> file) {
  if (file.size() < mn::data::kUserBlockBytes) return;
  const auto block = file.first<mn::data::kUserBlockBytes>();
  const std::uint32_t crc = mn::data::header_crc(block);
  std::memcpy(block.data() + block.size() - sizeof crc, &crc, sizeof crc);
}

void read_field(const mn::data::ShardReader& reader, std::size_t field) {
  for (std::int64_t i = 0; i < reader.size() && reader.is_small(field); ++i) {
    std::vector<std::byte> sample(reader.length(field, i));
    reader.copy_small(field, i, sample.data());
  }
  if (reader.is_small(field)) return;
  for (std::int64_t block = 0; block < reader.num_blocks(); ++block) (void)reader.load_block(field, block);
  for (std::int64_t i = 0; i < reader.size(); ++i) {
    const std::int64_t end = reader.offset_in_block(field, i) + reader.length(field, i);
    if (end > reader.block_bytes(field, i / reader.block_samples())) __builtin_trap();
  }
}

void read_all(const std::string& path) {
  const mn::data::ShardReader reader(mn::data::open_shard(path), std::make_shared<mn::data::IoCounters>());
  for (std::size_t f = 0; f < reader.num_fields(); ++f) read_field(reader, f);
  (void)reader.read_keys();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = memfd_create("shard", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::vector<std::byte> file(size);
  if (size > 0) std::memcpy(file.data(), data, size);
  if (size % 2 == 0) put_checksum_right(file);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(size)) return 0;
  try {
    read_all(path);
  } catch (const mn::DataError&) {
  }
  return 0;
}
