// Makes this process's part of a conversion, and combines the results of all processes.
// (1) A result names each shard of this process exactly once, whether it was made now or by an earlier run.
// (2) A shard is added to the result only after it is published, so all shards in a result exist as files.
#include "data/conversion.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include <mn/core/error.hpp>
#include <mn/data/classes.hpp>
#include <mn/data/hdf5_table.hpp>

#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json to_sign(std::size_t shard, const ShardInfo& info) {
  std::uint64_t uuid[2];
  std::memcpy(uuid, info.uuid.data(), sizeof uuid);
  return {shard, info.num_samples, info.bytes, uuid[0], uuid[1], info.header_crc};
}

ShardInfo from_sign(const json& sign, std::string file) {
  ShardInfo info{.file = std::move(file), .num_samples = sign.at(1), .bytes = sign.at(2), .header_crc = sign.at(5)};
  const std::uint64_t uuid[2] = {sign.at(3), sign.at(4)};
  std::memcpy(info.uuid.data(), uuid, sizeof uuid);
  return info;
}

/// The largest class in the second field; −1 if the field has no classes.
std::int64_t largest_class(const SampleSpec& spec, const std::vector<RawColumn>& columns) {
  return spec.num_classes() == 0 ? -1 : range_of(spec[1].dtype, columns[1].bytes).most;
}

/// The largest label in a shard; −1 if its samples have no labels.
std::int64_t largest_label(const ShardReader& reader) {
  std::int64_t most = -1;
  if (!has_label(reader.header().spec)) return most;
  for (std::int64_t block = 0; block < reader.num_blocks(1); ++block) {
    most = std::max(most, range_of(DType::kInt64, *reader.load_block(1, block)).most);
  }
  return most;
}

}  // namespace

bool has_label(const SampleSpec& spec) {
  return spec.fields.size() == 2 && spec[1].name == "label" && spec[1].dtype == DType::kInt64 &&
         spec[1].sample_bytes() == sizeof(std::int64_t);
}

std::int64_t label_of(const StoredFile& shard, std::int64_t sample) {
  std::int64_t label = 0;
  std::memcpy(&label, shard.read_sample(1, sample).data(), sizeof label);
  return label;
}

Conversion::Conversion(std::vector<Output> outputs) : outputs_(std::move(outputs)) {
  for (const auto& [folder, split, shards] : outputs_) {
    if (!split.empty() && split.front() != '.' && split.find('/') == std::string::npos) continue;
    throw UsageError("the split's name begins the names of its files: --split can't be \"" + split + "\"");
  }
}

std::pair<std::size_t, std::size_t> Conversion::locate(std::size_t shard) const {
  std::size_t output = 0;
  for (; shard >= outputs_[output].shards; ++output) shard -= outputs_[output].shards;
  return {output, shard};
}

fs::path Conversion::path_of(std::size_t shard) const {
  const auto [output, number] = locate(shard);
  const auto& [folder, split, shards] = outputs_[output];
  return folder / shard_file_name(split, number, shards);
}

json source_facts(const fs::path& file) {
  try {
    const auto [changed, bytes] = modified_and_bytes(file);
    return {{"path", fs::absolute(file).string()}, {"bytes", bytes}, {"changed", changed}};
  } catch (const FileError&) {
    return nullptr;
  }
}

ConversionPart::ConversionPart(Conversion& conversion, const ConvertOptions& options)
    : conversion_(conversion), options_(options), most_(conversion.outputs().size(), -1) {
  const auto size = static_cast<std::size_t>(options.me.size);
  for (std::size_t unit = options.me.rank; unit < conversion.units(); unit += size) units_.push_back(unit);
  for (const std::size_t unit : units_) {
    total_ += conversion.steps(unit);
    shards_ += static_cast<std::int64_t>(conversion.first_shard(unit + 1) - conversion.first_shard(unit));
  }
}

void ConversionPart::run() {
  for (const Output& output : conversion_.outputs()) fs::create_directories(output.folder);
  run_tasks(
      units_.size(), options_.threads, [&](std::size_t i) { conversion_.convert(units_[i], *this); }, &has_failed_);
}

json ConversionPart::result() const {
  json made = json::array();
  for (const auto& [shard, info] : made_) made.push_back(to_sign(shard, info));
  return {{"shards", std::move(made)}, {"most", most_}, {"kept", kept_}};
}

bool ConversionPart::wants(std::size_t shard) {
  const fs::path path = conversion_.path_of(shard);
  if (!fs::exists(path)) return true;
  const ShardState state = state_of(shard, path);
  if (state == ShardState::kForeign) {
    throw DataError(path.string() + " holds other samples than belong there: remove it and start again");
  }
  return state == ShardState::kUnusable;
}

void ConversionPart::write(std::size_t shard, const ShardContent& content) {
  // Invariant 2: write_shard() returns after the file is published.
  note(shard, write_shard(conversion_.path_of(shard), content), largest_class(content.spec, content.samples.columns));
}

void ConversionPart::advance(std::int64_t steps) {
  // Another thread has failed. This error only ends this thread; run() throws the other failure.
  if (has_failed_) throw DataError("stopped");
  const std::lock_guard lock(mutex_);
  done_ += steps;
  if (options_.progress) options_.progress(done_, total_);
}

ShardState ConversionPart::state_of(std::size_t shard, const fs::path& path) {
  try {
    const ShardReader reader(open_shard(path), std::make_shared<IoCounters>());
    const ShardState state = conversion_.state_of(shard, reader);
    if (state != ShardState::kWhole) return state;
    note(shard, describe_shard(path), largest_label(reader));
  } catch (const DataError&) {  // the shard is truncated or damaged
    return ShardState::kUnusable;
  }
  const std::lock_guard lock(mutex_);
  ++kept_;
  return ShardState::kWhole;
}

void ConversionPart::note(std::size_t shard, ShardInfo info, std::int64_t most) {
  const std::lock_guard lock(mutex_);
  assert(!made_.contains(shard));
  made_[shard] = std::move(info);
  std::int64_t& all = most_[conversion_.locate(shard).first];
  all = std::max(all, most);
}

std::vector<ShardTable> tables_of(const Conversion& conversion, const std::vector<json>& results) {
  std::vector<ShardTable> tables;
  for (const auto& [folder, split, count] : conversion.outputs()) {
    const std::size_t i = tables.size();
    std::vector<ShardInfo> shards(count);
    std::int64_t most = -1;
    for (const json& result : results) {
      most = std::max(most, result.at("most").at(i).get<std::int64_t>());
      for (const json& sign : result.at("shards")) {
        const auto [output, number] = conversion.locate(sign.at(0));
        if (output == i) shards[number] = from_sign(sign, shard_file_name(split, number, count));
      }
    }
    tables.emplace_back(fs::absolute(folder).string(), split, conversion.spec(i, most), std::move(shards));
  }
  return tables;
}

}  // namespace mn::data
