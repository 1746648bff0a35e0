#include <mn/data/joined_dataset.hpp>

#include <algorithm>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/nested_table.hpp>

namespace mn {
JoinedDataset::JoinedDataset(std::vector<std::shared_ptr<Dataset>> parts, std::vector<double> shares)
    : parts_(std::move(parts)), shares_(std::move(shares)) {
  if (parts_.empty() || std::ranges::count(parts_, nullptr) > 0) {
    throw ArgumentError("a JoinedDataset needs datasets to join: there is none, or one of them is null");
  }
  if (!shares_.empty() && shares_.size() != parts_.size()) {
    throw ArgumentError("a JoinedDataset of " + std::to_string(parts_.size()) + " parts got " +
                        std::to_string(shares_.size()) + " shares");
  }
}

const std::vector<std::int64_t>& JoinedDataset::firsts() const {
  std::call_once(opened_, [this] {
    std::vector<std::int64_t> firsts = {0};
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i]->spec() != parts_.front()->spec()) {
        throw UsageError("datasets to join must have equal fields, classes and class names; part " +
                         std::to_string(i + 1) + " has " + to_json(parts_[i]->spec()).dump() + ", the first part has " +
                         to_json(parts_.front()->spec()).dump());
      }
      firsts.push_back(firsts.back() + parts_[i]->size());
    }
    firsts_ = std::move(firsts);
  });
  return firsts_;
}

std::vector<double> JoinedDataset::do_weights() const {
  std::vector<double> weights;
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const std::int64_t samples = firsts()[i + 1] - firsts()[i];
    if (samples == 0 && shares_[i] > 0) {
      throw UsageError("part " + std::to_string(i + 1) + " of a mixture of datasets has a share but no samples");
    }
    weights.insert(weights.end(), samples, shares_[i] / static_cast<double>(samples));
  }
  return weights;
}

const SampleSpec& JoinedDataset::do_spec() const {
  (void)firsts();
  return parts_.front()->spec();
}

std::pair<std::size_t, std::int64_t> JoinedDataset::locate(std::int64_t index) const {
  const auto part = static_cast<std::size_t>(std::ranges::upper_bound(firsts(), index) - firsts().begin()) - 1;
  return {part, index - firsts()[part]};
}

void JoinedDataset::read_parts(std::span<const std::int64_t> indices, const SampleSpec& spec, RawSamples& out,
                               const ReadPart& read) const {
  std::vector<Wanted> wanted(parts_.size());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto [part, number] = locate(indices[k]);
    wanted[part].numbers.push_back(number);
    wanted[part].positions.push_back(static_cast<std::int64_t>(k));
  }
  std::vector<RawSamples> pieces(parts_.size());
  std::vector<SamplePlace> places(indices.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::vector<std::int64_t>& positions = wanted[part].positions;
    if (positions.empty()) continue;
    read(*parts_[part], wanted[part], pieces[part]);
    for (std::int64_t i = 0; i < std::ssize(positions); ++i) places[positions[i]] = {&pieces[part], i};
  }
  copy_samples(spec, places, out);
}

void JoinedDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out,
                            std::vector<SampleError>* damaged) const {
  read_parts(indices, do_spec(), out, [&](const Dataset& part, const Wanted& wanted, RawSamples& piece) {
    std::vector<SampleError> errors;
    part.read(wanted.numbers, piece, damaged != nullptr ? &errors : nullptr);
    for (SampleError& error : errors) damaged->push_back({wanted.positions[error.position], std::move(error.what)});
  });
}

RawColumn JoinedDataset::do_read_field(std::span<const std::int64_t> indices, std::size_t field) const {
  RawSamples out;
  const SampleSpec only{.fields = {do_spec()[field]}};
  read_parts(indices, only, out, [&](const Dataset& part, const Wanted& wanted, RawSamples& piece) {
    piece.columns.push_back(part.read_field(wanted.numbers, field));
  });
  return std::move(out.columns.front());
}

std::string JoinedDataset::do_format() const {
  const bool are_shards = std::ranges::all_of(parts_, [](const auto& part) { return part->format() == kShardsFormat; });
  return are_shards ? kShardsFormat : "";
}

std::string JoinedDataset::do_table() const {
  if (do_format().empty()) return {};
  (void)firsts();  // compare the specs before ranks open the parts
  std::vector<std::string> tables;
  for (const auto& part : parts_) tables.push_back(part->table());
  return data::nested_table(tables, {{"shares", shares_}});
}

std::uint64_t JoinedDataset::do_fingerprint() const {
  std::uint64_t hash = parts_.size();
  for (const auto& part : parts_) {
    const std::uint64_t own = part->fingerprint();
    hash = hash64(std::as_bytes(std::span(&own, 1)), hash);
  }
  return hash;
}

IoStats JoinedDataset::do_io() const {
  IoStats all;
  for (const auto& part : parts_) {
    const IoStats own = part->io();
    all.opens += own.opens;
    all.bytes += own.bytes;
    all.held += own.held;
  }
  return all;
}

std::string JoinedDataset::do_where(std::int64_t index) const {
  const auto [part, number] = locate(index);
  return parts_[part]->where(number);
}

StorageLayout JoinedDataset::do_layout() const {
  StorageLayout all = parts_.front()->layout();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const StorageLayout own = parts_[i]->layout();
    all.bytes += own.bytes;
    all.files += own.files;
    all.block_samples = std::max(all.block_samples, own.block_samples);
    all.index_bytes += own.index_bytes;
    all.is_packed = all.is_packed || own.is_packed;
    all.live_bytes = std::max(all.live_bytes, own.live_bytes);
  }
  return all;
}

void JoinedDataset::do_share(int ranks) {
  for (const auto& part : parts_) part->share(ranks);
}

void JoinedDataset::do_hold_at_most(std::int64_t bytes) const {
  for (const auto& part : parts_) part->hold_at_most(bytes / std::ssize(parts_));
}

void JoinedDataset::do_stage(const StageOptions& options, std::shared_ptr<const data::StageNode> node) {
  for (const auto& part : parts_) part->stage(options, node);
}

}  // namespace mn
