// Undoes the filters (compression, shuffling, checksums) that HDF5 applied to a chunk when it was written.
//
// (1) No filter writes or reads outside its buffers, for any stored bytes.
// (2) No buffer grows beyond the chunk's length plus its checksums.
//
// Sources: the HDF5 File Format Specification 3.0, IV.A.2.l (filter pipeline); RFC 1950 (zlib); LibLZF's format, stored
// by h5py.
#include <mn/data/chunk_filters.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <isa-l/igzip_lib.h>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::size_t kChecksumBytes = 4;

/// Throws DataError if the data are damaged, or if the unpacked data have more than `most` bytes.
ByteBuffer inflated(const ByteBuffer& stored, std::size_t most) {
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (most >= kMax || stored.size() > kMax) throw DataError("its gzip data are too long");
  ByteBuffer out(most + 1);  // one byte more than allowed, to notice data that are too long
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_ZLIB;
  state.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(stored.data()));
  state.avail_in = static_cast<std::uint32_t>(stored.size());
  state.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  state.avail_out = static_cast<std::uint32_t>(out.size());
  const int status = isal_inflate(&state);
  if (state.avail_out == 0) throw DataError("its gzip data are longer than the chunk");
  if (status != ISAL_DECOMP_OK || state.block_state != ISAL_BLOCK_FINISH) throw DataError("its gzip data are damaged");
  out.resize(state.total_out);
  return out;
}

/// Byte b of element i lies at from[b * elements + i].
template <std::size_t kBytes>
void unshuffle_elements(const std::byte* from, std::byte* to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    for (std::size_t b = 0; b < kBytes; ++b) to[i * kBytes + b] = from[b * elements + i];
  }
}

/// Undoes the shuffle filter, which stores byte 0 of all elements, then byte 1 of all elements, and so on. If the last
/// bytes do not fill an element, they were not shuffled. Elements must have 0, 1, 2, 4 or 8 bytes.
ByteBuffer unshuffled(const ByteBuffer& stored, std::size_t element_bytes) {
  if (element_bytes <= 1 || stored.size() < element_bytes) return stored;
  const std::size_t elements = stored.size() / element_bytes;
  ByteBuffer out(stored.size());
  const auto unshuffle = element_bytes == 2   ? unshuffle_elements<2>
                         : element_bytes == 4 ? unshuffle_elements<4>
                                              : unshuffle_elements<8>;
  unshuffle(stored.data(), out.data(), elements);
  const auto whole = static_cast<std::ptrdiff_t>(elements * element_bytes);
  std::copy(stored.begin() + whole, stored.end(), out.begin() + whole);
  return out;
}

/// Unpacks LZF data: a byte n < 32 begins a run of n + 1 literal bytes, and a larger byte begins a copy of earlier
/// output. Throws DataError if the data are damaged, or if the unpacked data have more than `most` bytes.
ByteBuffer unpacked_lzf(const ByteBuffer& stored, std::size_t most) {
  const auto damaged = [] { return DataError("its lzf data are damaged"); };
  ByteBuffer out;
  out.reserve(most);
  std::size_t at = 0;
  const auto next = [&] {
    if (at == stored.size()) throw damaged();
    return std::to_integer<std::size_t>(stored[at++]);
  };
  while (at < stored.size()) {
    const std::size_t control = next();
    if (control < 32) {
      const std::size_t count = control + 1;
      if (count > stored.size() - at || count > most - out.size()) throw damaged();
      out.insert(out.end(), stored.begin() + static_cast<std::ptrdiff_t>(at),
                 stored.begin() + static_cast<std::ptrdiff_t>(at + count));
      at += count;
      continue;
    }
    std::size_t count = control >> 5;
    if (count == 7) count += next();
    count += 2;
    const std::size_t back = ((control & 31) << 8 | next()) + 1;
    if (back > out.size() || count > most - out.size()) throw damaged();
    // The bytes are copied one by one, because source and target may overlap.
    for (std::size_t i = 0; i < count; ++i) out.push_back(out[out.size() - back]);
  }
  return out;
}

ByteBuffer without_checksum(ByteBuffer stored) {
  if (stored.size() < kChecksumBytes) throw DataError("it is shorter than its checksum");
  std::uint32_t expected = 0;
  std::memcpy(&expected, stored.data() + stored.size() - kChecksumBytes, sizeof expected);
  stored.resize(stored.size() - kChecksumBytes);
  if (fletcher32(stored) != expected) throw DataError("its checksum (fletcher32) differs");
  return stored;
}

ByteBuffer undo(std::int32_t filter, ByteBuffer stored, std::size_t element_bytes, std::size_t most) {
  const auto kind = static_cast<ChunkFilter>(filter);
  if (kind == ChunkFilter::kDeflate) return inflated(stored, most);
  if (kind == ChunkFilter::kShuffle) return unshuffled(stored, element_bytes);
  if (kind == ChunkFilter::kFletcher32) return without_checksum(std::move(stored));
  if (kind == ChunkFilter::kLzf) return unpacked_lzf(stored, most);
  throw DataError("filter " + std::to_string(filter) + " can't be undone");
}

}  // namespace

std::string filter_name(std::int32_t filter) {
  using Name = std::pair<ChunkFilter, const char*>;
  constexpr Name kNames[] = {{ChunkFilter::kDeflate, "gzip"},
                             {ChunkFilter::kShuffle, "shuffle"},
                             {ChunkFilter::kFletcher32, "fletcher32"},
                             {ChunkFilter::kLzf, "lzf"}};
  const auto found = std::ranges::find(kNames, static_cast<ChunkFilter>(filter), &Name::first);
  return found != std::end(kNames) ? found->second : "";
}

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kWords = 360;  // after this many words the 32-bit sums are reduced, before they overflow
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  const std::size_t words = bytes.size() / 2;
  for (std::size_t first = 0; first < words; first += kWords) {
    for (std::size_t i = first; i < std::min(words, first + kWords); ++i) {
      low += std::to_integer<std::uint32_t>(bytes[2 * i]) << 8 | std::to_integer<std::uint32_t>(bytes[2 * i + 1]);
      high += low;
    }
    low = fold(low);
    high = fold(high);
  }
  if (bytes.size() % 2 == 1) {
    low = fold(low + (std::to_integer<std::uint32_t>(bytes.back()) << 8));
    high = fold(high + low);
  }
  return fold(high) << 16 | fold(low);
}

ByteBuffer undo_filters(ByteBuffer stored, std::span<const std::int32_t> filters, std::uint32_t skipped,
                        std::size_t element_bytes, std::size_t bytes) {
  for (std::size_t f = filters.size(); f-- > 0;) {
    if ((skipped >> f & 1) != 0) continue;
    std::size_t most = bytes;
    for (std::size_t before = 0; before < f; ++before) {
      if (static_cast<ChunkFilter>(filters[before]) == ChunkFilter::kFletcher32) most += kChecksumBytes;
    }
    stored = undo(filters[f], std::move(stored), element_bytes, most);
  }
  if (stored.size() == bytes) return stored;
  throw DataError("it has " + std::to_string(stored.size()) + " bytes, not " + std::to_string(bytes));
}

}  // namespace mn::data
