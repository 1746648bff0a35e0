#include "data/conversion.hpp"

#include <cstring>

#include <mn/core/error.hpp>
#include <mn/data/hdf5_table.hpp>

namespace mn::data {

bool has_label(const SampleSpec& spec) {
  return spec.fields.size() == 2 && spec[1].name == "label" && spec[1].dtype == DType::kInt64 &&
         spec[1].sample_bytes() == sizeof(std::int64_t);
}

std::int64_t label_of(const ShardReader& shard, std::int64_t sample) {
  std::int64_t label = 0;
  std::memcpy(&label, shard.read_sample(1, sample).data(), sizeof label);
  return label;
}

nlohmann::json source_facts(const std::filesystem::path& file) {
  try {
    const auto [changed, bytes] = modified_and_bytes(file);
    return {{"path", std::filesystem::absolute(file).string()}, {"bytes", bytes}, {"changed", changed}};
  } catch (const FileError&) {
    return nullptr;
  }
}

}  // namespace mn::data
