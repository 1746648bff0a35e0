// A shard file of any bytes: it opens, or DataError says why not; what opens can be read to its end.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/shard_reader.hpp>

namespace {

using mn::data::Extent;
using mn::data::ShardHeader;

/// Recomputes the header's checksum.
void put_header_right(std::span<std::byte> file) {
  const auto block = file.first<mn::data::kUserBlockBytes>();
  const std::uint32_t crc = mn::data::header_crc(block);
  std::memcpy(block.data() + block.size() - sizeof crc, &crc, sizeof crc);
}

/// Recomputes the checksum of a part, which stands in the header behind the part's address and length.
void put_part_right(std::span<std::byte> file, const Extent& extent) {
  const std::uint64_t entry[] = {extent.address, extent.bytes};
  const std::uint32_t crc = mn::crc32c(file.subspan(extent.address, extent.bytes));
  for (std::size_t at = 0; at + sizeof entry + sizeof crc < mn::data::kUserBlockBytes; at += 8) {
    if (std::memcmp(file.data() + at, entry, sizeof entry) == 0)
      std::memcpy(file.data() + at + sizeof entry, &crc, sizeof crc);
  }
}

void put_parts_right(std::span<std::byte> file, ShardHeader& header) {
  for (const mn::data::NamedExtent& part : mn::data::parts_of(header)) {
    if (!part.has_checksums && part.extent->bytes > 0) put_part_right(file, *part.extent);
  }
  put_header_right(file);
}

void write(int fd, std::span<const std::byte> file) {
  if (ftruncate(fd, 0) != 0 || pwrite(fd, file.data(), file.size(), 0) != std::ssize(file)) __builtin_trap();
}

/// Checksums stop almost every input at the door: those of half of them are put right, so that what lies behind is
/// reached. What is not a shard at all stays as it is.
void put_checksums_right(std::span<std::byte> file, int fd, const std::string& path) {
  if (file.size() < mn::data::kUserBlockBytes) return;
  put_header_right(file);
  ShardHeader header = mn::data::decode_header(file.first<mn::data::kUserBlockBytes>(), path);
  if (header.file_bytes > file.size()) return;
  put_parts_right(file, header);
  write(fd, file);
  const mn::data::ShardReader reader(mn::data::open_shard(path), std::make_shared<mn::data::IoCounters>());
  for (std::size_t f = 0; f < reader.header().fields.size(); ++f) {
    for (std::int64_t block = 0; block < reader.num_blocks(f) && !reader.is_small(f); ++block) {
      std::vector<std::byte> bytes(reader.block_bytes(f, block));
      reader.read_blocks(f, block, 1, bytes);
      const std::uint32_t crc = mn::crc32c(bytes);
      std::memcpy(file.data() + header.fields[f].checksums.address + 4 * block, &crc, sizeof crc);
    }
  }
  put_parts_right(file, header);
}

void read_field(const mn::data::ShardReader& reader, std::size_t field) {
  for (std::int64_t i = 0; i < reader.size() && reader.is_small(field); ++i) {
    std::vector<std::byte> sample(reader.length(field, i));
    reader.copy_small(field, i, sample.data());
  }
  for (std::int64_t block = 0; block < reader.num_blocks(field); ++block) (void)reader.load_block(field, block);
  for (std::int64_t i = 0; i < reader.size(); ++i) {
    const std::int64_t end = reader.offset_in_block(field, i) + reader.length(field, i);
    if (end > reader.block_bytes(field, reader.block_of(field, i))) __builtin_trap();
  }
}

void read_all(const std::string& path) {
  const mn::data::ShardReader reader(mn::data::open_shard(path), std::make_shared<mn::data::IoCounters>());
  for (std::size_t f = 0; f < reader.header().fields.size(); ++f) read_field(reader, f);
  reader.check_rest();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = memfd_create("shard", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::vector<std::byte> file(size);
  if (size > 0) std::memcpy(file.data(), data, size);
  try {
    if (size % 2 == 0) put_checksums_right(file, fd, path);
    write(fd, file);
    read_all(path);
  } catch (const mn::DataError&) {
  }
  return 0;
}
