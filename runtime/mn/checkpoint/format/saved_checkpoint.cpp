#include <mn/checkpoint/format/saved_checkpoint.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;  // small enough to be in the cache for both read and checksum

constexpr const char* kRemedy = "; resume from an earlier one (--resume auto finds the newest that is whole)";

}  // namespace

bool is_of_storage(const FileError& error) noexcept {
  const int number = error.error_number();
  return number != ENOENT && number != ENOTDIR && number != ELOOP;  // ELOOP: the path is a link, not a file
}

void wait_to_retry(const FileError& error, int attempt) {
  constexpr std::array kPauses = {std::chrono::milliseconds(500), std::chrono::milliseconds(2000)};
  if (!is_of_storage(error) || attempt >= static_cast<int>(kPauses.size())) throw;
  log_warning(std::string(error.what()) + "; trying again");
  std::this_thread::sleep_for(kPauses[static_cast<std::size_t>(attempt)]);
}

std::string SavedCheckpoint::read_text(const fs::path& folder) {
  return with_retries([&] {
    if (!is_committed(folder)) {
      throw DataError("there is no checkpoint " + folder.string() + ": give an existing one, or auto");
    }
    const File file(folder / kCheckpointManifestName, File::Mode::kReadInPlace);
    std::string text(file.size(), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  });
}

SavedCheckpoint::SavedCheckpoint(const fs::path& folder) : SavedCheckpoint(folder, read_text(folder)) {}

SavedCheckpoint::SavedCheckpoint(fs::path folder, std::string_view text)
    : folder_(std::move(folder)), manifest_(parse_manifest(text, (folder_ / kCheckpointManifestName).string())) {}

void SavedCheckpoint::damaged(std::size_t shard, const std::string& how) const {
  throw DataError("the checkpoint " + folder_.string() + " is damaged: " + checkpoint_shard_name(shard, ranks()) + " " +
                  how + kRemedy);
}

const File& SavedCheckpoint::open(std::size_t shard) {
  // Only one shard is open at a time. This is enough, because tensors are read in the order of their names, and
  // neighbors mostly share a shard.
  if (opened_ && opened_->first == shard) return opened_->second;
  opened_.reset();
  const auto open_file = [&] {
    return File(folder_ / checkpoint_shard_name(shard, ranks()), File::Mode::kReadInPlace);
  };
  try {
    opened_.emplace(shard, with_retries(open_file));
  } catch (const DataError& error) {
    const auto* own = dynamic_cast<const FileError*>(&error);
    if (own != nullptr && is_of_storage(*own)) throw;
    throw DataError("the checkpoint " + folder_.string() + " is damaged: " + error.what() + kRemedy);
  }
  const std::uint64_t bytes = opened_->second.size();
  // A wrong size of the shard is found here, before its data are read.
  if (bytes != manifest_.shards[shard].bytes) {
    damaged(shard,
            "has " + std::to_string(bytes) + " bytes in place of " + std::to_string(manifest_.shards[shard].bytes));
  }
  return opened_->second;
}

/// Reads a piece of a tensor in chunks, and checks the checksum. room_for(first byte within the piece, bytes) returns
/// the memory for each chunk.
template <class RoomFor>
void SavedCheckpoint::read_piece(const std::string& name, const SavedTensor& tensor, const SavedPiece& piece,
                                 const RoomFor& room_for) {
  const File& file = open(piece.shard);
  const std::uint64_t begin = manifest_.shards[piece.shard].header_bytes + piece.offset;
  const std::uint64_t bytes = (piece.end - piece.begin) * safetensors_element_bytes(tensor.dtype);
  std::uint32_t checksum = 0;
  for (std::uint64_t done = 0; done < bytes; done += kChunkBytes) {
    const std::span<std::byte> chunk = room_for(done, std::min<std::uint64_t>(kChunkBytes, bytes - done));
    with_retries([&] { file.read_at(begin + done, chunk); });
    checksum = crc32c(chunk, checksum);
  }
  if (checksum == piece.crc32c) return;
  const ShardPart part{name, tensor.dtype, tensor.shape, piece.begin, piece.end};
  damaged(piece.shard, "has tensor " + json_quoted(part.name()) + " with a wrong checksum");
}

void SavedCheckpoint::read(const std::string& tensor, std::span<std::byte> out) {
  const auto found = manifest_.tensors.find(tensor);
  if (found == manifest_.tensors.end() || found->second.bytes() != out.size()) {
    throw ArgumentError("the checkpoint " + folder_.string() + " has no tensor " + tensor + " of " +
                        std::to_string(out.size()) + " bytes");
  }
  const std::uint64_t wide = safetensors_element_bytes(found->second.dtype);
  for (const SavedPiece& piece : found->second.pieces) {
    read_piece(tensor, found->second, piece,
               [&](std::uint64_t begin, std::size_t bytes) { return out.subspan(piece.begin * wide + begin, bytes); });
  }
}

void SavedCheckpoint::read_range(const std::string& tensor, std::uint64_t begin, std::span<std::byte> out) {
  const auto found = manifest_.tensors.find(tensor);
  const std::uint64_t wide = found == manifest_.tensors.end() ? 1 : safetensors_element_bytes(found->second.dtype);
  if (found == manifest_.tensors.end() || begin * wide + out.size() > found->second.bytes()) {
    throw ArgumentError("the checkpoint " + folder_.string() + " has no " + std::to_string(out.size()) + " bytes of " +
                        tensor + " from element " + std::to_string(begin) + " on");
  }
  const std::uint64_t end = begin + out.size() / wide;
  for (const SavedPiece& piece : found->second.pieces) {
    const std::uint64_t first = std::max(begin, piece.begin), last = std::min(end, piece.end);
    if (first >= last) continue;
    const File& file = open(piece.shard);
    const std::uint64_t offset =
        manifest_.shards[piece.shard].header_bytes + piece.offset + (first - piece.begin) * wide;
    const auto room = out.subspan((first - begin) * wide, (last - first) * wide);
    with_retries([&] { file.read_at(offset, room); });
  }
}

void SavedCheckpoint::check_header(std::size_t shard) {
  const std::string expected = shard_header(manifest_, shard);
  std::string header(expected.size(), '\0');
  const File& file = open(shard);
  with_retries([&] { file.read_at(0, std::as_writable_bytes(std::span(header))); });
  // The header needs no checksum: the manifest determines each of its bytes.
  if (header != expected) damaged(shard, "has another header than the manifest says");
}

void SavedCheckpoint::check_shard(std::size_t shard) {
  check_header(shard);
  std::vector<std::byte> chunk(kChunkBytes);
  const auto room_for = [&](std::uint64_t, std::size_t bytes) { return std::span(chunk).first(bytes); };
  for (const auto& [name, tensor] : manifest_.tensors) {
    for (const SavedPiece& piece : tensor.pieces) {
      if (piece.shard == shard) read_piece(name, tensor, piece, room_for);
    }
  }
}

void SavedCheckpoint::check() {
  for (std::size_t shard = 0; shard < ranks(); ++shard) check_shard(shard);
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;  // is also set if nothing is at the path
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() != fs::file_type::none) return status;
  throw FileError(with_errno("cannot see " + path.string(), error.value()), error.value());
}

bool is_committed(const fs::path& folder) {
  // A symbolic link does not count as a manifest, because its target would belong to a different checkpoint.
  return fs::is_regular_file(status_of(folder / kCheckpointManifestName));
}

}  // namespace mn
