#include "data/fixed_conversion.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

std::vector<Output> outputs_of(const std::vector<FixedSplit>& splits) {
  std::vector<Output> outputs;
  for (const FixedSplit& split : splits) outputs.push_back(split.output);
  return outputs;
}

}  // namespace

DataError wrong_label(const std::string& source, std::int64_t sample, const std::string& label) {
  return DataError(source + ": sample " + std::to_string(sample) + " has label " + label +
                   "; classes are 0 to 2147483647 (int32): number them");
}

void check_labels(std::span<const std::int64_t> labels, std::int64_t first, const std::string& source) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && std::in_range<std::int32_t>(labels[i])) continue;
    throw wrong_label(source, first + static_cast<std::int64_t>(i), std::to_string(labels[i]));
  }
}

void DatasetSource::read(std::int64_t first, std::int64_t last, RawSamples& samples) const {
  std::vector<std::int64_t> indices(last - first);
  std::iota(indices.begin(), indices.end(), first);
  dataset_->read(indices, samples);
}

FixedConversion::FixedConversion(std::vector<FixedSplit> splits, std::int64_t shard_bytes)
    : Conversion(outputs_of(splits)), splits_(std::move(splits)), shard_bytes_(shard_bytes), sources_(splits_.size()) {}

nlohmann::json FixedConversion::request() const {
  nlohmann::json splits = nlohmann::json::array();
  for (const FixedSplit& split : splits_) {
    splits.push_back({{"split", split.output.split}, {"samples", split.request}, {"attributes", split.attributes}});
  }
  return {{"splits", std::move(splits)}, {"shard_bytes", shard_bytes_}};
}

void FixedConversion::plan(const std::filesystem::path& scratch) {
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    sources_[i] = splits_[i].open(scratch);
    sources_[i]->check();
    if (sources_[i]->size() > 0) continue;
    throw DataError("there are no samples to convert into " + outputs_[i].folder.string());
  }
}

void FixedConversion::open(const std::filesystem::path& scratch) {
  for (std::size_t i = 0; i < splits_.size(); ++i) {
    // plan() has already opened the sources on its rank; all other ranks open them now.
    if (!sources_[i]) sources_[i] = splits_[i].open(scratch);
    const std::int64_t size = sources_[i]->size();
    const std::int64_t step = samples_per_shard(sources_[i]->spec(), shard_bytes_);
    for (std::int64_t first = 0; first < size; first += step)
      pieces_.push_back({i, first, std::min(first + step, size)});
    outputs_[i].shards = static_cast<std::size_t>((size + step - 1) / step);
  }
}

std::int64_t FixedConversion::steps(std::size_t unit) const { return pieces_[unit].last - pieces_[unit].first; }

ShardState FixedConversion::state_of(std::size_t shard, const ShardReader& existing) const {
  const Piece& piece = pieces_[shard];
  const SampleSpec& spec = sources_[piece.split]->spec();
  // A shard with these properties is of this conversion and is kept; any other is foreign.
  const bool same = existing.header().spec == without_classes(spec) &&
                    existing.header().block_samples == default_block_samples(spec) &&
                    existing.size() == piece.last - piece.first;
  return same ? ShardState::kWhole : ShardState::kForeign;
}

void FixedConversion::convert(std::size_t unit, ConversionPart& part) {
  const Piece& piece = pieces_[unit];
  if (part.wants(unit)) {
    const SampleSource& source = *sources_[piece.split];
    ShardContent content(source.spec());
    source.read(piece.first, piece.last, content.samples);
    if (has_label(content.spec) && content.spec.num_classes() != 0) {
      check_labels(content.samples.columns[1].values<std::int64_t>(), piece.first, source.name());
    }
    content.attributes = splits_[piece.split].attributes;
    content.attributes["split"] = outputs_[piece.split].split;
    part.write(unit, content);
  }
  part.advance(piece.last - piece.first);
}

SampleSpec FixedConversion::spec(std::size_t output, std::int64_t most) const {
  SampleSpec spec = sources_[output]->spec();
  if (spec.num_classes() == kCountClasses) spec.fields[1].num_classes = most + 1;
  return spec;
}

}  // namespace mn::data
