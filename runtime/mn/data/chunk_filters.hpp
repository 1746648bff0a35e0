/// Undoes the filters of chunked HDF5 datasets without libhdf5, so that any number of threads can work at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <mn/data/raw_samples.hpp>

namespace mn::data {

/// The filters that undo_filters() undoes, with their numbers in the HDF Group's registry.
enum class ChunkFilter : std::int32_t { kDeflate = 1, kShuffle = 2, kFletcher32 = 3, kLzf = 32000 };

/// The name of a filter by its registered number: "gzip", "shuffle", …; empty if mn can't undo the filter.
[[nodiscard]] std::string filter_name(std::int32_t filter);

/// The checksum of HDF5's filter 3: sums over 16-bit words, the high byte first, each modulo 65535.
[[nodiscard]] std::uint32_t fletcher32(std::span<const std::byte> bytes);

/// Undoes `filters`, the last one first; `filters` is in the writer's order of application. If bit f of `skipped` is
/// set, filters[f] was not applied to this chunk. `element_bytes`: size of an array element, for the shuffle filter.
/// Throws DataError, without the file's name, unless the result has `bytes` bytes and all checksums are right.
[[nodiscard]] ByteBuffer undo_filters(ByteBuffer stored, std::span<const std::int32_t> filters, std::uint32_t skipped,
                                      std::size_t element_bytes, std::size_t bytes);

}  // namespace mn::data
