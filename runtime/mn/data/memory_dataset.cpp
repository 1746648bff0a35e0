#include <mn/data/memory_dataset.hpp>

#include <algorithm>
#include <utility>

#include <mn/core/checksum.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

std::vector<RawSamples> one_piece(RawSamples samples) {
  std::vector<RawSamples> pieces;
  pieces.push_back(std::move(samples));
  return pieces;
}

}  // namespace

MemoryDataset::MemoryDataset(SampleSpec spec, RawSamples samples)
    : MemoryDataset(std::move(spec), one_piece(std::move(samples))) {}

MemoryDataset::MemoryDataset(SampleSpec spec, std::vector<RawSamples> pieces)
    : spec_(std::move(spec)), pieces_(std::move(pieces)) {
  for (RawSamples& piece : pieces_) {
    check_samples(piece, spec_);
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) piece.columns[f].sample_bytes = spec_[f].sample_bytes();
    firsts_.push_back(firsts_.back() + piece.size());
  }
}

std::uint64_t MemoryDataset::do_fingerprint() const {
  std::uint64_t hash = hash64(json_text(to_json(spec_)), static_cast<std::uint64_t>(size()));
  for (const RawSamples& piece : pieces_) {
    for (const RawColumn& column : piece.columns) {
      hash = hash64(std::span(column.bytes), hash64(std::as_bytes(std::span(column.offsets)), hash));
    }
  }
  return hash;
}

SamplePlace MemoryDataset::locate(std::int64_t index) const {
  const auto piece = std::upper_bound(firsts_.begin(), firsts_.end(), index) - firsts_.begin() - 1;
  return {&pieces_[piece], index - firsts_[piece]};
}

void MemoryDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const {
  std::vector<SamplePlace> places;
  places.reserve(indices.size());
  for (const std::int64_t index : indices) places.push_back(locate(index));
  copy_samples(spec_, places, out);
}

StorageLayout MemoryDataset::do_layout() const {
  std::int64_t bytes = 0;
  for (const RawSamples& piece : pieces_) bytes += piece.bytes();
  return {.bytes = bytes};
}

}  // namespace mn
