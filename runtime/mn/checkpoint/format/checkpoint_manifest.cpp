#include <mn/checkpoint/format/checkpoint_manifest.hpp>

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::string_view kCrcKey = R"({"crc32c":")";
constexpr std::string_view kBodyKey = R"(","manifest":)";
constexpr std::string_view kEnd = "}\n";
constexpr std::size_t kCrcDigits = 8;
constexpr std::string_view kFormat = "mn-checkpoint-3";

std::uint32_t checksum_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

/// Returns the part of a manifest's text that the checksum covers: BODY in invariant 1. Throws DataError if the text
/// has a wrong form or a wrong checksum.
std::string_view body_of(std::string_view text, const std::string& source) {
  constexpr std::size_t kStart = kCrcKey.size() + kCrcDigits + kBodyKey.size();
  const bool framed = text.size() >= kStart + kEnd.size() && text.starts_with(kCrcKey) &&
                      text.substr(kCrcKey.size() + kCrcDigits).starts_with(kBodyKey) && text.ends_with(kEnd);
  if (!framed) throw DataError(source + " is cut off, or is not the manifest of a checkpoint");
  const std::string_view body = text.substr(kStart, text.size() - kStart - kEnd.size());
  if (text.substr(kCrcKey.size(), kCrcDigits) != to_hex(checksum_of(body))) {
    throw DataError(source + " is damaged: its checksum is wrong");
  }
  return body;
}

SavedTensor read_tensor(const json& entry) {
  SavedTensor tensor{entry.at("dtype").get<std::string>(),
                     whole_numbers<std::int64_t>(entry.at("shape")),
                     {},
                     entry.value("complex", false)};
  for (const json& piece : entry.at("pieces")) {
    tensor.pieces.push_back({whole_number<std::size_t>(piece.at(0)), whole_number<std::uint64_t>(piece.at(1)),
                             whole_number<std::uint64_t>(piece.at(2)), whole_number<std::uint64_t>(piece.at(3)),
                             whole_number<std::uint32_t>(piece.at(4))});
  }
  return tensor;
}

/// A piece of a tensor, together with the tensor and its name.
struct Part {
  const std::string* name;
  const SavedTensor* tensor;
  const SavedPiece* piece;
  [[nodiscard]] std::uint64_t bytes() const {
    return (piece->end - piece->begin) * safetensors_element_bytes(tensor->dtype);
  }
};

/// Returns for each shard the pieces that it holds. The piece with the least offset in the shard comes first.
std::vector<std::vector<Part>> parts_by_shard(const Manifest& manifest) {
  std::vector<std::vector<Part>> shards(manifest.shards.size());
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const SavedPiece& piece : tensor.pieces) shards[piece.shard].push_back({&name, &tensor, &piece});
  }
  for (auto& parts : shards) {
    // A piece without elements has the same offset as the piece behind it. Sorting by size, too, puts the empty piece
    // first.
    std::ranges::stable_sort(parts, [](const Part& a, const Part& b) {
      return std::pair(a.piece->offset, a.bytes()) < std::pair(b.piece->offset, b.bytes());
    });
  }
  return shards;
}

std::string header_of(const std::vector<Part>& parts) {
  std::vector<ShardPart> in_shard;
  for (const Part& part : parts) {
    in_shard.push_back({*part.name, part.tensor->dtype, part.tensor->shape, part.piece->begin, part.piece->end});
  }
  return shard_header(in_shard);
}

/// Invariant 2: throws DataError unless the pieces of the tensor cover each of its elements once, in ascending order.
void check_tensor(const std::string& name, const SavedTensor& tensor, const Manifest& manifest,
                  const std::string& source) {
  const std::uint64_t elements =
      safetensors_bytes(name, tensor.dtype, tensor.shape, source) / safetensors_element_bytes(tensor.dtype);
  if (tensor.is_complex && !are_pairs(tensor.dtype, tensor.shape)) {
    throw DataError(source + " calls tensor " + json_quoted(name) + " complex, which does not hold pairs");
  }
  std::uint64_t covered = 0;
  for (const SavedPiece& piece : tensor.pieces) {
    if (piece.begin != covered || piece.end < piece.begin || piece.end > elements) {
      throw DataError(source + " has a gap or an overlap in tensor " + json_quoted(name));
    }
    if (piece.shard >= manifest.shards.size()) {
      throw DataError(source + " has tensor " + json_quoted(name) + " in a shard that is not there");
    }
    covered = piece.end;
  }
  if (covered != elements || tensor.pieces.empty()) {
    throw DataError(source + " lacks the end of tensor " + json_quoted(name));
  }
}

/// Invariant 3: throws DataError unless the pieces of each shard cover each byte of its data once, and fit the size of
/// its header.
void check_shards(const Manifest& manifest, const std::string& source) {
  const auto shards = parts_by_shard(manifest);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const SavedShard& shard = manifest.shards[i];
    const std::string name = checkpoint_shard_name(i, shards.size());
    if (shard.header_bytes > shard.bytes) throw DataError(source + " gives " + name + " a header beyond its end");
    std::uint64_t covered = 0;
    for (const Part& part : shards[i]) {
      if (part.piece->offset != covered || part.bytes() > shard.bytes - shard.header_bytes - covered) {
        throw DataError(source + " has a gap or an overlap in " + name + " at tensor " + json_quoted(*part.name));
      }
      covered += part.bytes();
    }
    if (covered != shard.bytes - shard.header_bytes || header_of(shards[i]).size() != shard.header_bytes) {
      throw DataError(source + " gives " + name + " another size than its tensors need");
    }
  }
}

Manifest read_manifest(const json& body, const std::string& source) {
  if (body.at("format") != kFormat) {
    throw VersionError(source + " has the format " + json_quoted(body.at("format").get<std::string>()) +
                       " of another version of mn, where this one reads " + std::string(kFormat) +
                       ": resume with that version, or name an older checkpoint");
  }
  Manifest manifest{body.at("about"), {}, {}};
  for (const json& shard : body.at("shards")) {
    manifest.shards.push_back({whole_number<std::uint64_t>(shard.at(0)), whole_number<std::uint64_t>(shard.at(1))});
  }
  if (manifest.shards.empty()) throw DataError(source + " has no shards");
  for (const auto& [name, entry] : body.at("tensors").items()) manifest.tensors.emplace(name, read_tensor(entry));
  return manifest;
}

}  // namespace

std::uint64_t SavedTensor::bytes() const {
  return pieces.empty() ? 0 : pieces.back().end * safetensors_element_bytes(dtype);
}

std::string checkpoint_shard_name(std::size_t shard, std::size_t shards) {
  char text[64];
  std::snprintf(text, sizeof text, "shard-%05zu-of-%05zu.safetensors", shard, shards);
  return text;
}

std::string own_tensor_name(std::size_t rank, const std::string& name) {
  return "rank." + std::to_string(rank) + "/" + name;
}

std::uint64_t ShardPart::bytes() const { return (end - begin) * safetensors_element_bytes(dtype); }

std::string ShardPart::name() const {
  return is_whole() ? tensor : tensor + "[" + std::to_string(begin) + ":" + std::to_string(end) + "]";
}

bool ShardPart::is_whole() const {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::uint64_t>(extent);
  return begin == 0 && end == elements;
}

std::string shard_header(const std::vector<ShardPart>& parts) {
  json header = json::object();
  std::uint64_t offset = 0;
  for (const ShardPart& part : parts) {
    header[part.name()] = {{"dtype", part.dtype},
                           {"shape", part.is_whole() ? json(part.shape) : json::array({part.end - part.begin})},
                           {"data_offsets", {offset, offset + part.bytes()}}};
    offset += part.bytes();
  }
  return safetensors_header(header);
}

std::string manifest_text(const Manifest& manifest) {
  json body = {{"format", kFormat}, {"about", manifest.about}, {"shards", json::array()}, {"tensors", json::object()}};
  for (const SavedShard& shard : manifest.shards) body["shards"].push_back({shard.bytes, shard.header_bytes});
  for (const auto& [name, tensor] : manifest.tensors) {
    json pieces = json::array();
    for (const SavedPiece& each : tensor.pieces) {
      pieces.push_back({each.shard, each.begin, each.end, each.offset, each.crc32c});
    }
    body["tensors"][name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
    if (tensor.is_complex) body["tensors"][name]["complex"] = true;
  }
  const std::string text = body.dump();
  return std::string(kCrcKey) + to_hex(checksum_of(text)) + std::string(kBodyKey) + text + std::string(kEnd);
}

Manifest parse_manifest(std::string_view text, const std::string& source) {
  const std::string_view body_text = body_of(text, source);
  const json body = parse_json(body_text, source);
  if (body.dump() != body_text) throw DataError(source + " repeats a key, or was written by another program");
  Manifest manifest = read_json(source, [&] { return read_manifest(body, source); });
  for (const auto& [name, tensor] : manifest.tensors) check_tensor(name, tensor, manifest, source);
  check_shards(manifest, source);
  return manifest;
}

std::string shard_header(const Manifest& manifest, std::size_t shard) {
  return header_of(parts_by_shard(manifest).at(shard));
}

}  // namespace mn
