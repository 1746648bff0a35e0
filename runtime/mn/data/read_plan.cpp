#include <mn/data/read_plan.hpp>

#include <algorithm>

namespace mn::data {

void ReadPlan::locate_fields(std::size_t k, const StoredFile& file) {
  const std::int64_t sample = samples_[k].sample;
  for (std::size_t f = 0; f < extents_.size(); ++f) {
    if (file.is_small(f)) continue;
    extents_[f].resize(samples_.size());
    const std::int64_t block = file.block_of(f, sample);
    extents_[f][k] = {.block = block,
                      .offset = file.offset_in_block(f, sample),
                      .bytes = file.length(f, sample),
                      .is_alone = file.samples_in(f, block) == 1,
                      .has_runs = file.has_runs(f)};
  }
  samples_[k].is_readable = true;
}

std::vector<std::size_t> ReadPlan::files() const {
  std::vector<std::size_t> files;
  for (const Sample& sample : samples_) {
    if (files.empty() || files.back() != sample.file) files.push_back(sample.file);
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::vector<std::int64_t> ReadPlan::offsets(std::size_t field, std::int64_t unreadable_bytes) const {
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t k = 0; k < size(); ++k) {
    offsets.push_back(offsets.back() + (is_readable(k) ? extents_[field][k].bytes : unreadable_bytes));
  }
  return offsets;
}

bool ReadPlan::joins(std::size_t field, std::size_t k) const {
  if (samples_[k].file != samples_[k - 1].file) return false;
  const BlockExtent& own = extents_[field][k];
  const BlockExtent& before = extents_[field][k - 1];
  if (own.is_alone != before.is_alone) return false;
  return own.is_alone ? own.has_runs && own.block == before.block + 1 : own.block == before.block;
}

}  // namespace mn::data
