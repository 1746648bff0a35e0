#include "data/conversion.hpp"

#include <cstring>

#include <sys/stat.h>

#include <mn/core/error.hpp>

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
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) return nullptr;
  const std::int64_t changed = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
  return {{"path", std::filesystem::absolute(file).string()}, {"bytes", facts.st_size}, {"changed", changed}};
}

}  // namespace mn::data
