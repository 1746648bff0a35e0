#include <algorithm>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>

namespace mn {
namespace {

std::uint64_t hash_of(std::span<const std::int64_t> values, std::uint64_t seed) {
  return hash64(std::as_bytes(values), seed);
}

/// Labels are 0 … num_classes − 1; a spec without a number of classes gets the one that the labels need.
void check_labels(SampleSpec& spec, std::span<const std::int64_t> labels) {
  if (spec.num_classes == 0 && !labels.empty())
    spec.num_classes = std::max<std::int64_t>(std::ranges::max(labels), 0) + 1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < spec.num_classes) continue;
    throw ArgumentError("sample " + std::to_string(i) + " of a dataset in memory has label " +
                        std::to_string(labels[i]) + ": labels are 0 to " + std::to_string(spec.num_classes - 1) +
                        "; for other targets use a TensorDataset");
  }
}

/// `size` samples without a byte.
class EmptyDataset final : public Dataset {
 public:
  explicit EmptyDataset(std::int64_t size) : size_(size) { spec_.shape = {0}; }

 private:
  std::int64_t do_size() const override { return size_; }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const override {
    out.bytes.clear();
    out.offsets.assign(indices.size() + 1, 0);
    out.labels.assign(indices.size(), 0);
  }

  std::int64_t size_;
  SampleSpec spec_;
};

}  // namespace

void Dataset::read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged) const {
  const std::int64_t n = size();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= n) {
      throw ArgumentError("sample " + std::to_string(index) + " of a dataset of " + std::to_string(n));
    }
  }
  do_read(indices, out, damaged);
}

std::uint64_t Dataset::do_fingerprint() const {
  const std::int64_t facts[] = {size(), spec().sample_bytes(), spec().num_classes};
  return hash_of(facts, 0);
}

MemoryDataset::MemoryDataset(SampleSpec spec, RawSamples samples)
    : spec_(std::move(spec)), samples_(std::move(samples)) {
  const auto n = samples_.labels.size();
  const bool fixed = spec_.kind == SampleKind::kFixed;
  if (fixed && samples_.offsets.empty()) {
    samples_.offsets.resize(n + 1);
    for (std::size_t i = 0; i <= n; ++i) samples_.offsets[i] = static_cast<std::int64_t>(i) * spec_.sample_bytes();
  }
  bool good = samples_.offsets.size() == n + 1 && samples_.offsets.front() == 0 &&
              samples_.offsets.back() == static_cast<std::int64_t>(samples_.bytes.size());
  for (std::size_t i = 0; good && i < n; ++i) {
    const std::int64_t length = samples_.offsets[i + 1] - samples_.offsets[i];
    good = fixed ? length == spec_.sample_bytes() : length >= 0;
  }
  if (!good) {
    throw ArgumentError("a dataset in memory of " + std::to_string(n) + " labels got " +
                        std::to_string(samples_.bytes.size()) + " bytes: a mismatch");
  }
  check_labels(spec_, samples_.labels);
}

void MemoryDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const {
  out.offsets.assign(1, 0);
  out.labels.clear();
  for (const std::int64_t i : indices) {
    out.offsets.push_back(out.offsets.back() + samples_.offsets[i + 1] - samples_.offsets[i]);
    out.labels.push_back(samples_.labels[i]);
  }
  out.bytes.resize(out.offsets.back());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto from = samples_.sample(indices[k]);
    if (!from.empty()) std::memcpy(out.bytes.data() + out.offsets[k], from.data(), from.size());
  }
}

std::uint64_t MemoryDataset::do_fingerprint() const {
  return hash64(std::span(samples_.bytes), hash_of(samples_.labels, hash_of(samples_.offsets, 0)));
}

std::shared_ptr<Dataset> create_empty_dataset(const Dataset& dataset) {
  return std::make_shared<EmptyDataset>(dataset.size());
}

}  // namespace mn
