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

/// The name of a filter by its number, such as "gzip" or "shuffle". Empty if mn can't undo the filter.
[[nodiscard]] std::string filter_name(std::int32_t filter);

/// The checksum of HDF5's filter 3: two sums modulo 65535 over big-endian 16-bit words.
[[nodiscard]] std::uint32_t fletcher32(std::span<const std::byte> bytes);

/// Returns the elements of a chunk. `filters` has the numbers of the filters in the order in which the writer applied
/// them; the last filter is undone first. If bit f of `skipped` is set, filters[f] was not applied to this chunk.
/// `element_bytes`: size of an element. Throws a DataError, whose text lacks the file's name, if the result does not
/// have `bytes` bytes or if a checksum is wrong.
[[nodiscard]] ByteBuffer undo_filters(ByteBuffer stored, std::span<const std::int32_t> filters, std::uint32_t skipped,
                                      std::size_t element_bytes, std::size_t bytes);

}  // namespace mn::data
