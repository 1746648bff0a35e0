#include "tests/scale/sparse_shards.hpp"

#include <filesystem>
#include <vector>

#include <mn/core/checksum.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::test {
namespace {

using data::Extent;

/// Places every part of the file; what is written later has no bytes yet.
void lay_out(data::ShardHeader& header, std::int64_t sample_bytes) {
  std::uint64_t at = data::kUserBlockBytes;
  const std::uint64_t values = header.num_samples * static_cast<std::uint64_t>(sample_bytes);
  for (const data::NamedExtent& part : data::parts_of(header)) {
    const bool varies = part.multiple_of > 0;
    part.extent->bytes = varies ? (part.has_checksums ? values : 0) : part.bytes;
    part.extent->address = at;
    at += (part.extent->bytes + 4095) / 4096 * 4096;
  }
  header.file_bytes = at;
}

template <class T>
void write(File& file, Extent& extent, const std::vector<T>& content) {
  const auto bytes = std::as_bytes(std::span(content));
  extent.crc = crc32c(bytes);
  file.write_at(extent.address, bytes);
}

std::vector<std::uint32_t> checksums(const data::ShardHeader& header, std::int64_t sample_bytes) {
  const auto crc_of = [&](std::int64_t samples) { return crc32c(std::vector<std::byte>(samples * sample_bytes)); };
  const std::int64_t block = header.block_samples;
  std::vector<std::uint32_t> crcs(header.num_blocks(), crc_of(block));
  const std::int64_t rest = static_cast<std::int64_t>(header.num_samples) % block;
  if (rest > 0) crcs.back() = crc_of(rest);
  return crcs;
}

data::ShardInfo make_shard(const std::filesystem::path& path, const SampleSpec& spec, std::int64_t samples,
                           std::int64_t sample_bytes) {
  data::ShardHeader header{.block_samples = data::default_block_samples(spec),
                           .spec = data::without_classes(spec),
                           .num_samples = static_cast<std::uint64_t>(samples),
                           .fields = std::vector<data::FieldExtents>(2)};
  lay_out(header, sample_bytes);
  File file(path, File::Mode::kReplace);
  write(file, header.fields[0].checksums, checksums(header, sample_bytes));
  if (!spec.is_fixed()) {
    std::vector<std::uint64_t> offsets(samples + 1);
    for (std::int64_t i = 0; i <= samples; ++i) offsets[i] = static_cast<std::uint64_t>(i * sample_bytes);
    write(file, header.fields[0].offsets, offsets);
  }
  header.fields[1].values.crc = crc32c(std::vector<std::byte>(header.fields[1].values.bytes));
  const data::UserBlock block = data::encode_header(header);
  file.write_at(0, block);
  std::filesystem::resize_file(path, header.file_bytes);
  return {path.filename().string(), samples, static_cast<std::int64_t>(header.file_bytes), header.uuid,
          data::header_crc(block)};
}

}  // namespace

data::ShardTable make_sparse_shards(const std::string& folder, FieldKind kind, std::int64_t samples,
                                    std::int64_t sample_bytes, std::int64_t shards) {
  const bool fixed = kind == FieldKind::kFixed;
  const SampleSpec spec =
      labeled({.kind = kind, .shape = fixed ? std::vector{sample_bytes} : std::vector<std::int64_t>()}, 1000);
  std::filesystem::create_directories(folder);
  std::vector<data::ShardInfo> infos;
  for (std::int64_t i = 0; i < shards; ++i) {
    const std::int64_t count = samples * (i + 1) / shards - samples * i / shards;
    infos.push_back(make_shard(std::filesystem::path(folder) / data::shard_file_name("train", i, shards), spec, count,
                               sample_bytes));
  }
  return {folder, "train", spec, std::move(infos)};
}

}  // namespace mn::test
