// HDF5's filters, undone in the reverse of the order in which they were applied.
//
// (1) No filter writes or reads outside of its buffers, whatever the stored bytes are.
// (2) No buffer grows beyond the chunk's own length and its checksums.
//
// Sources: the HDF5 File Format Specification 3.0, IV.A.2.l (filter pipeline); RFC 1950 (zlib); LibLZF's format, which
// h5py stores.
#include <cstring>

#include <zlib.h>

#include <mn/core/error.hpp>
#include <mn/data/chunk_filters.hpp>

namespace mn::data {
namespace {

constexpr std::size_t kChecksumBytes = 4;

/// At most `most` bytes.
ByteBuffer inflated(const ByteBuffer& stored, std::size_t most) {
  ByteBuffer out(most);
  uLongf bytes = most;
  const int status = uncompress(reinterpret_cast<Bytef*>(out.data()), &bytes,
                                reinterpret_cast<const Bytef*>(stored.data()), stored.size());
  if (status == Z_BUF_ERROR && bytes == most) throw DataError("its gzip data are longer than the chunk");
  if (status != Z_OK) throw DataError("its gzip data are damaged");
  out.resize(bytes);
  return out;
}

/// Byte b of all elements lies before byte b + 1 of them; what is left over stays at the end.
ByteBuffer unshuffled(const ByteBuffer& stored, std::size_t element_bytes) {
  if (element_bytes <= 1 || stored.size() < element_bytes) return stored;
  const std::size_t elements = stored.size() / element_bytes;
  ByteBuffer out(stored.size());
  for (std::size_t b = 0; b < element_bytes; ++b) {
    const std::byte* from = stored.data() + b * elements;
    std::byte* to = out.data() + b;
    for (std::size_t i = 0; i < elements; ++i) to[i * element_bytes] = from[i];
  }
  std::copy(stored.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes), stored.end(),
            out.begin() + static_cast<std::ptrdiff_t>(elements * element_bytes));
  return out;
}

/// LZF: a byte below 32 begins a run of so many literals and one; others begin a copy of earlier bytes.
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
    for (std::size_t i = 0; i < count; ++i) out.push_back(out[out.size() - back]);  // may overlap what it writes
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
  switch (static_cast<ChunkFilter>(filter)) {
    case ChunkFilter::kDeflate:
      return inflated(stored, most);
    case ChunkFilter::kShuffle:
      return unshuffled(stored, element_bytes);
    case ChunkFilter::kFletcher32:
      return without_checksum(std::move(stored));
    case ChunkFilter::kLzf:
      return unpacked_lzf(stored, most);
  }
  throw DataError("filter " + std::to_string(filter) + " can't be undone");
}

}  // namespace

std::string filter_name(std::int32_t filter) {
  switch (static_cast<ChunkFilter>(filter)) {
    case ChunkFilter::kDeflate:
      return "gzip";
    case ChunkFilter::kShuffle:
      return "shuffle";
    case ChunkFilter::kFletcher32:
      return "fletcher32";
    case ChunkFilter::kLzf:
      return "lzf";
  }
  return {};
}

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kWords = 360;  // so many fit into 32 bits before they must be reduced
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
