#include <mn/data/subset.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include <mn/core/checksum.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/nested_table.hpp>

namespace mn {
namespace {

class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<Dataset> base, ChooseSamples choose) : base_(std::move(base)), choose_(std::move(choose)) {
    if (!base_ || !choose_) throw ArgumentError("a subset needs a dataset, and a function that chooses its samples");
  }

 private:
  std::int64_t do_size() const override { return std::ssize(indices()); }
  const SampleSpec& do_spec() const override { return base_->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    base_->read(in_base(indices), out, damaged);
  }
  RawColumn do_read_field(std::span<const std::int64_t> indices, std::size_t field) const override {
    return base_->read_field(in_base(indices), field);
  }
  std::string do_format() const override { return base_->format() == kShardsFormat ? kShardsFormat : ""; }
  std::string do_table() const override {
    return do_format().empty() ? "" : data::nested_table({base_->table()}, {{"indices", indices()}});
  }
  std::uint64_t do_fingerprint() const override {
    return hash64(std::as_bytes(std::span(indices())), base_->fingerprint());
  }
  IoStats do_io() const override { return base_->io(); }
  std::string do_where(std::int64_t index) const override { return base_->where(indices()[index]); }
  std::vector<double> do_weights() const override {
    const std::vector<double> all = base_->weights();
    std::vector<double> own;
    for (const std::int64_t index : indices()) {
      if (!all.empty()) own.push_back(all[index]);
    }
    return own;
  }
  StorageLayout do_layout() const override {
    StorageLayout layout = base_->layout();
    const double part = static_cast<double>(size()) / static_cast<double>(std::max<std::int64_t>(base_->size(), 1));
    layout.bytes = static_cast<std::int64_t>(static_cast<double>(layout.bytes) * part);
    return layout;
  }
  void do_share(int ranks) override { base_->share(ranks); }
  void do_hold_at_most(std::int64_t bytes) const override { base_->hold_at_most(bytes); }
  void do_stage(const StageOptions& options, std::shared_ptr<const data::StageNode> node) override {
    base_->stage(options, std::move(node));
  }

  /// The numbers that the subset's samples have in the base dataset.
  [[nodiscard]] const std::vector<std::int64_t>& indices() const {
    std::call_once(chosen_, [this] {
      std::vector<std::int64_t> indices = choose_(*base_);
      const std::int64_t n = base_->size();
      const auto bad = std::ranges::find_if(indices, [&](std::int64_t index) { return index < 0 || index >= n; });
      if (bad != indices.end()) {
        throw ArgumentError("a subset has sample " + std::to_string(*bad) + " of a dataset of " + std::to_string(n));
      }
      indices_ = std::move(indices);
    });
    return indices_;
  }
  [[nodiscard]] std::vector<std::int64_t> in_base(std::span<const std::int64_t> wanted) const {
    std::vector<std::int64_t> found;
    for (const std::int64_t index : wanted) found.push_back(indices()[index]);
    return found;
  }

  std::shared_ptr<Dataset> base_;
  ChooseSamples choose_;
  mutable std::once_flag chosen_;
  mutable std::vector<std::int64_t> indices_;  // empty before the first use
};

}  // namespace

std::shared_ptr<Dataset> subset(std::shared_ptr<Dataset> dataset, std::vector<std::int64_t> indices) {
  return choose_subset(std::move(dataset), [indices = std::move(indices)](const Dataset&) { return indices; });
}

std::shared_ptr<Dataset> choose_subset(std::shared_ptr<Dataset> dataset, ChooseSamples choose) {
  return std::make_shared<Subset>(std::move(dataset), std::move(choose));
}

std::vector<std::int64_t> read_indices(const std::filesystem::path& file, std::int64_t samples) {
  InText words(read_file(file));
  std::vector<std::int64_t> indices;
  for (std::string word; words >> word;) {
    const auto index = parse_number<std::int64_t>(word);
    if (!index || *index < 0) {
      throw DataError(file.string() + ": \"" + word + "\" is not the number of a sample: give one number a line");
    }
    if (*index >= samples) {
      throw DataError(file.string() + " has sample " + word + " of a dataset of " + std::to_string(samples) +
                      ": give numbers from 0 to " + std::to_string(samples - 1));
    }
    indices.push_back(*index);
  }
  return indices;
}

}  // namespace mn
