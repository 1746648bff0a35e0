// What an index of HDF5 files is made of: filters that are undone, lists of chunks, and the table itself.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/data/chunk_filters.hpp>
#include <mn/data/hdf5_table.hpp>

namespace mn::data {
namespace {

ByteBuffer bytes_from(std::initializer_list<int> values) {
  ByteBuffer bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ChunkFilters, UnpackLzf) {
  // "abc", then seven bytes from three back: "abcabcabca".
  const std::int32_t lzf[] = {32000};
  const ByteBuffer out = undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 10);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), "abcabcabca");
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 3}), lzf, 0, 1, 10), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 9), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 11), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({9, 'a'}), lzf, 0, 1, 10), DataError);
}

TEST(ChunkLists, AreWhatWasAdded) {
  std::vector<StoredChunk> chunks;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    chunks.push_back({.address = 4096 + i * 100, .bytes = 100});
    if (i % 7 == 0) chunks.push_back({});
    if (i % 11 == 0) chunks.push_back({.address = i * 977 % 500, .bytes = 4294967295U - static_cast<unsigned>(i)});
    if (i % 13 == 0) chunks.push_back({.address = ~std::uint64_t{1} - i, .bytes = 1, .skipped = 1U << (i % 32)});
  }
  ChunkList list;
  for (const StoredChunk& chunk : chunks) list.add(chunk);
  const ChunkList again(list.size(), list.code());
  ASSERT_EQ(again, list);
  std::size_t i = 0;
  again.for_each([&](const StoredChunk& chunk) { EXPECT_EQ(chunk, chunks[i++]); });
  EXPECT_EQ(i, chunks.size());
  for (i = 0; i < chunks.size(); ++i) EXPECT_EQ(again[static_cast<std::int64_t>(i)], chunks[i]) << i;
  EXPECT_THROW((void)ChunkList(list.size() + 1, list.code()), DataError);
  EXPECT_THROW((void)ChunkList(list.size() - 1, list.code()), DataError);
}

TEST(ChunkLists, TakeLittleMemory) {
  ChunkList list;
  std::uint64_t address = 4096;
  for (int i = 0; i < 1'000'000; ++i) {  // compressed, with another field's chunks in between
    const auto bytes = static_cast<std::uint32_t>(60'000 + i * 7919LL % 5000);
    list.add({.address = address, .bytes = bytes});
    address += bytes + 700 + i % 100;
  }
  list = ChunkList(list.size(), list.code());
  EXPECT_LE(list.memory_bytes(), (std::int64_t{64} << 20) / 10) << "64 MiB for 10 million";
}

TEST(Hdf5Tables, OfDamagedBytesAreErrors) {
  Hdf5File file{.path = "a.h5", .num_samples = 10, .bytes = 1000, .modified_ns = 5, .arrays = {{}}};
  file.arrays[0].fill = {0, 0, 0, 0};
  file.arrays[0].address = 100;
  const SampleSpec spec{{{.name = "x", .dtype = DType::kFloat32, .shape = {3}}}};
  const Hdf5Table table("/f", "train", spec, {file});
  const std::string bytes = table.serialize();
  EXPECT_EQ(Hdf5Table::parse(bytes).hash(), table.hash());
  EXPECT_EQ(Hdf5Table::parse(bytes).files(), table.files());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_THROW((void)Hdf5Table::parse(bytes.substr(0, at)), DataError);
    std::string other = bytes;
    other[at] ^= 0x11;
    try {
      (void)Hdf5Table::parse(other);
    } catch (const DataError&) {
    }
  }
  file.arrays[0].address = 881;  // one byte less than needed
  EXPECT_THROW((void)Hdf5Table("/f", "train", spec, {file}), DataError);
}

}  // namespace
}  // namespace mn::data
