// Codes the addresses and lengths of chunks in few bytes. zigzag() turns a small difference, positive or negative, into
// a small positive number.
//
// The code of a chunk begins with the number 4 · zigzag(bytes − bytes of the last stored chunk) + kind. The kind tells
// which numbers follow:
//
//   kNext      none: the chunk begins at the end of the last stored chunk
//   kMoved     zigzag(address − end of the last stored chunk)
//   kSkipping  the number that follows kMoved, then StoredChunk::skipped
//   kAbsent    none: the chunk was never written; its code is the kind alone
//
// Numbers are stored with 7 bits a byte, lowest bits first; the highest bit of a byte is set if another byte follows.
#include <mn/data/chunk_list.hpp>

#include <utility>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kGroup = 64;
enum Kind : std::uint64_t { kNext, kMoved, kSkipping, kAbsent };

std::uint64_t zigzag(std::uint64_t difference) {
  const auto number = static_cast<std::int64_t>(difference);
  return static_cast<std::uint64_t>(number) << 1 ^ static_cast<std::uint64_t>(number >> 63);
}

std::uint64_t unzigzag(std::uint64_t number) { return number >> 1 ^ (~(number & 1) + 1); }

}  // namespace

ChunkList::ChunkList(std::int64_t count, std::vector<std::uint8_t> code) : code_(std::move(code)) {
  code_.shrink_to_fit();
  for (; count_ < count; ++count_) {
    if (count_ % kGroup == 0) groups_.push_back(end_);
    (void)next(end_);
  }
  if (end_.offset != code_.size()) throw DataError("a list of chunks is too long");
}

void ChunkList::add(const StoredChunk& chunk) {
  if (count_++ % kGroup == 0) groups_.push_back(end_);
  if (chunk.address == kNotStored) {
    add_number(kAbsent);
  } else {
    const Kind kind = chunk.skipped != 0 ? kSkipping : chunk.address != end_.address ? kMoved : kNext;
    add_number(zigzag(std::uint64_t{chunk.bytes} - end_.bytes) << 2 | kind);
    if (kind != kNext) add_number(zigzag(chunk.address - end_.address));
    if (kind == kSkipping) add_number(chunk.skipped);
    end_.address = chunk.address + chunk.bytes;
    end_.bytes = chunk.bytes;
  }
  end_.offset = code_.size();
}

StoredChunk ChunkList::operator[](std::int64_t number) const {
  At at = groups_[number / kGroup];
  for (std::int64_t i = number / kGroup * kGroup; i < number; ++i) (void)next(at);
  return next(at);
}

std::int64_t ChunkList::memory_bytes() const noexcept {
  return static_cast<std::int64_t>(code_.capacity() + groups_.capacity() * sizeof(At));
}

StoredChunk ChunkList::next(At& at) const {
  const std::uint64_t first = number_at(at.offset);
  const std::uint64_t kind = first & 3;
  if (kind == kAbsent) return {};
  StoredChunk chunk{.address = at.address, .bytes = static_cast<std::uint32_t>(at.bytes + unzigzag(first >> 2))};
  if (kind != kNext) chunk.address += unzigzag(number_at(at.offset));
  if (kind == kSkipping) chunk.skipped = static_cast<std::uint32_t>(number_at(at.offset));
  at.address = chunk.address + chunk.bytes;
  at.bytes = chunk.bytes;
  return chunk;
}

std::uint64_t ChunkList::number_at(std::uint64_t& offset) const {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (offset >= code_.size()) break;
    const std::uint8_t byte = code_[offset++];
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  throw DataError("a list of chunks is cut off or damaged");
}

void ChunkList::add_number(std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) code_.push_back(static_cast<std::uint8_t>(number | 0x80));
  code_.push_back(static_cast<std::uint8_t>(number));
}

}  // namespace mn::data
