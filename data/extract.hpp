/// Extracts single samples from datasets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/data/stored_table.hpp>

namespace mn::data {

/// The index of the field that the user named by `option`. If it is missing, throws a UsageError that names `option`.
[[nodiscard]] std::size_t field_position(const SampleSpec& spec, const std::string& name, const std::string& option);
/// Writes the bytes to the file `out` (empty: to standard output).
void write_sample(std::span<const std::byte> sample, const std::string& out);

/// The stored bytes of one field of a sample. If the sample is data and a label, `label` is set; if it is an image with
/// a label, also `key`, the image's source.
struct ExtractedSample {
  std::vector<std::byte> bytes;
  std::int64_t label = -1;
  std::string key;
};
/// Reads a field of sample `index`. Throws UsageError if there is no such sample, and DataError if it is damaged.
[[nodiscard]] ExtractedSample extract_sample(const StoredTable& table, std::int64_t index, std::size_t field = 0);

}  // namespace mn::data
