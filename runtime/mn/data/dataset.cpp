#include <mn/data/dataset.hpp>

#include <algorithm>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

class EmptyDataset final : public Dataset {
 public:
  explicit EmptyDataset(std::int64_t size) : size_(size), spec_(labeled({.shape = {0}}, 0)) {}

 private:
  std::int64_t do_size() const override { return size_; }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const override {
    out.reset(spec_, std::ssize(indices));
    std::ranges::fill(out.columns[1].bytes, std::byte{0});
  }

  std::int64_t size_;
  SampleSpec spec_;
};

}  // namespace

void Dataset::check(std::span<const std::int64_t> indices) const {
  const std::int64_t n = size();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= n) {
      throw ArgumentError("sample " + std::to_string(index) + " of a dataset of " + std::to_string(n));
    }
  }
}

void Dataset::read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged) const {
  check(indices);
  do_read(indices, out, damaged);
}

RawColumn Dataset::read_field(std::span<const std::int64_t> indices, std::size_t field) const {
  check(indices);
  (void)spec()[field];  // throws if there is no such field
  return do_read_field(indices, field);
}

RawColumn Dataset::do_read_field(std::span<const std::int64_t> indices, std::size_t field) const {
  RawSamples samples;
  do_read(indices, samples, nullptr);
  return std::move(samples.columns[field]);
}

std::uint64_t Dataset::do_fingerprint() const {
  return hash64(json_text(to_json(spec())), static_cast<std::uint64_t>(size()));
}

std::shared_ptr<Dataset> create_empty_dataset(const Dataset& dataset) {
  return std::make_shared<EmptyDataset>(dataset.size());
}

}  // namespace mn
