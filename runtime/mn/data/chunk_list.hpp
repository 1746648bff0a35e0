/// Stores the addresses of the chunks of an HDF5 dataset. In memory a list takes about one byte for each chunk, or four
/// to six bytes if the chunks are compressed.
#pragma once

#include <cstdint>
#include <vector>

namespace mn::data {

/// The address of a chunk that was never written. Readers get the fill value for its elements.
inline constexpr std::uint64_t kNotStored = ~std::uint64_t{0};

struct StoredChunk {
  std::uint64_t address = kNotStored;
  std::uint32_t bytes = 0;    ///< length in the file
  std::uint32_t skipped = 0;  ///< bit f: filter f of the dataset was not applied to this chunk
  bool operator==(const StoredChunk&) const = default;
};

/// A list of chunks that only grows. Each chunk is coded by its difference from the previous chunk. Reading one chunk
/// decodes at most 64 chunks.
class ChunkList {
 public:
  ChunkList() = default;
  /// Decodes `count` chunks from `code`, the code() of another list. Throws DataError if `code` is malformed.
  ChunkList(std::int64_t count, std::vector<std::uint8_t> code);

  void add(const StoredChunk& chunk);
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }
  [[nodiscard]] StoredChunk operator[](std::int64_t number) const;
  [[nodiscard]] const std::vector<std::uint8_t>& code() const noexcept { return code_; }
  [[nodiscard]] std::int64_t memory_bytes() const noexcept;
  bool operator==(const ChunkList& other) const { return count_ == other.count_ && code_ == other.code_; }

  template <class Use>
  void for_each(const Use& use) const {
    At at;
    for (std::int64_t i = 0; i < count_; ++i) use(next(at));
  }

 private:
  /// The state of the decoder just before it decodes a chunk.
  struct At {
    std::uint64_t offset = 0;   // in code_
    std::uint64_t address = 0;  // address in the file of the end of the last stored chunk
    std::uint32_t bytes = 0;    // length of the last stored chunk
  };

  [[nodiscard]] StoredChunk next(At& at) const;
  [[nodiscard]] std::uint64_t number_at(std::uint64_t& offset) const;
  void add_number(std::uint64_t number);

  std::int64_t count_ = 0;
  std::vector<std::uint8_t> code_;
  std::vector<At> groups_;  // state of the decoder before each 64th chunk
  At end_;
};

}  // namespace mn::data
