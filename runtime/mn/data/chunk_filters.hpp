/// HDF5's filters of chunked datasets undone without libhdf5, by any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <mn/data/raw_samples.hpp>

namespace mn::data {

/// The filters that undo_filters() undoes, with their numbers in the HDF Group's registry.
enum class ChunkFilter : std::int32_t { kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kLzf = 32000 };

/// "gzip", "shuffle", …; empty for a filter that mn can't undo.
[[nodiscard]] std::string filter_name(std::int32_t filter);

/// The checksum of HDF5's filter 3: sums over 16-bit words, the high byte first, each modulo 65535.
[[nodiscard]] std::uint32_t fletcher32(std::span<const std::byte> bytes);

/// Undoes `filters`, given in the order of their application, in reverse; bit f of `skipped` marks a filter that was
/// not applied. `element_bytes`: size of the elements that shuffle sorted. Throws DataError (without the file's name)
/// unless the result has `bytes` bytes and all checksums are right.
[[nodiscard]] ByteBuffer undo_filters(ByteBuffer stored, std::span<const std::int32_t> filters, std::uint32_t skipped,
                                      std::size_t element_bytes, std::size_t bytes);

}  // namespace mn::data
