/// Extracts single samples from datasets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/data/stored_table.hpp>

namespace mn::data {

/// The position of field `name`, which the user named by the option `option`. If there is no such field, throws a
/// UsageError that begins with the option.
[[nodiscard]] std::size_t field_position(const SampleSpec& spec, const std::string& name, const std::string& option);
/// Writes a sample's bytes to the file `out`, or to standard output if `out` is empty.
void write_sample(std::span<const std::byte> sample, const std::string& out);

/// What extract_sample() returns: the stored bytes of one field of a sample. If the samples are data and a label,
/// `label` is set, too. If they are images with a label, `key` is set, too: the image's source.
struct ExtractedSample {
  std::vector<std::byte> bytes;
  std::int64_t label = -1;
  std::string key;
};
/// Reads field number `field` of sample `index`. Throws UsageError if there is no such sample, and DataError if the
/// sample is damaged.
[[nodiscard]] ExtractedSample extract_sample(const StoredTable& table, std::int64_t index, std::size_t field = 0);

}  // namespace mn::data
