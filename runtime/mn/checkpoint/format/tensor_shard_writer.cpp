#include <mn/checkpoint/format/tensor_shard_writer.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/checksum.hpp>

namespace mn {

using nlohmann::json;

TensorShardWriter::TensorShardWriter(const std::filesystem::path& path, std::vector<ShardPart> parts)
    : file_(path, File::Mode::kNew), parts_(std::move(parts)) {
  // The header has its final size, because all parts are known.
  const std::string header = shard_header(parts_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  header_bytes_ = written_ = header.size();
}

void TensorShardWriter::write(std::span<const std::byte> bytes) {
  checksum_ = crc32c(bytes, checksum_);
  file_.write_at(written_, bytes);
  written_ += bytes.size();
  written_of_part_ += bytes.size();
  assert(written_of_part_ <= parts_.at(checksums_.size()).bytes());
  if (written_of_part_ < parts_.at(checksums_.size()).bytes()) return;
  checksums_.push_back(std::exchange(checksum_, 0));
  written_of_part_ = 0;
}

json TensorShardWriter::finish() {
  // The shard must be on stable storage before a manifest names it.
  assert(checksums_.size() == parts_.size());  // finish() comes after the last part
  file_.sync();
  file_ = File();
  json parts = json::array();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& [tensor, dtype, shape, begin, end, is_complex] = parts_[i];
    parts.push_back({tensor, dtype, shape, begin, end, checksums_.at(i), is_complex});
  }
  return {{"bytes", written_}, {"header_bytes", header_bytes_}, {"parts", std::move(parts)}};
}

void add_shard(Manifest& manifest, const json& description) {
  std::uint64_t offset = 0;
  for (const json& part : description.at("parts")) {
    SavedTensor& tensor = manifest.tensors[part.at(0).get<std::string>()];
    tensor.dtype = part.at(1).get<std::string>();
    tensor.shape = part.at(2).get<std::vector<std::int64_t>>();
    tensor.is_complex = part.at(6).get<bool>();
    const auto begin = part.at(3).get<std::uint64_t>(), end = part.at(4).get<std::uint64_t>();
    tensor.pieces.push_back({manifest.shards.size(), begin, end, offset, part.at(5).get<std::uint32_t>()});
    offset += (end - begin) * safetensors_element_bytes(tensor.dtype);
  }
  manifest.shards.push_back(
      {description.at("bytes").get<std::uint64_t>(), description.at("header_bytes").get<std::uint64_t>()});
}

/// Sorts the pieces of each tensor, because they may be in the shards in any order.
void complete(Manifest& manifest) {
  for (auto& [name, tensor] : manifest.tensors) std::ranges::sort(tensor.pieces, {}, &SavedPiece::begin);
}

}  // namespace mn
