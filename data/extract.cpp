#include "data/extract.hpp"

#include <iostream>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/conversion.hpp"

namespace mn::data {

std::size_t field_position(const SampleSpec& spec, const std::string& name, const std::string& option) {
  try {
    return spec.position(name);
  } catch (const ArgumentError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

void write_sample(std::span<const std::byte> sample, const std::string& out) {
  const std::string_view bytes(reinterpret_cast<const char*>(sample.data()), sample.size());
  if (!out.empty()) return write_file(out, bytes);
  std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!std::cout) throw DataError("cannot write the sample to standard output");
}

ExtractedSample extract_sample(const StoredTable& table, std::int64_t index, std::size_t field) {
  if (index < 0 || index >= table.num_samples()) {
    throw UsageError("there is no sample " + std::to_string(index) + ": the dataset has " +
                     std::to_string(table.num_samples()) + ", counted from 0");
  }
  const auto [number, sample] = table.locate(index);
  const auto file = table.open_alone(number);
  ExtractedSample result{.bytes = file->read_sample(field, sample), .key = file->source_of(sample)};
  if (is_labeled(table.spec())) result.label = label_of(*file, sample);
  return result;
}

}  // namespace mn::data
