#include <algorithm>

#include <mn/core/checksum.hpp>
#include <mn/core/json.hpp>
#include <mn/data/gather.hpp>
#include <mn/data/memory_dataset.hpp>

namespace mn {

MemoryDataset::MemoryDataset(SampleSpec spec, RawSamples samples)
    : spec_(std::move(spec)), samples_(std::move(samples)) {
  check_samples(samples_, spec_);
  for (std::size_t f = 0; f < spec_.fields.size(); ++f) samples_.columns[f].sample_bytes = spec_[f].sample_bytes();
}

void MemoryDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const {
  const auto locate = [&](std::int64_t k) { return std::pair(&samples_, indices[k]); };
  data::gather(spec_, std::ssize(indices), locate, out);
}

std::uint64_t MemoryDataset::do_fingerprint() const {
  std::uint64_t hash = hash64(json_text(to_json(spec_)), static_cast<std::uint64_t>(samples_.size()));
  for (const RawColumn& column : samples_.columns) {
    hash = hash64(std::span(column.bytes), hash64(std::as_bytes(std::span(column.offsets)), hash));
  }
  return hash;
}

PiecesDataset::PiecesDataset(SampleSpec spec, std::vector<RawSamples> pieces)
    : spec_(std::move(spec)), pieces_(std::move(pieces)) {
  for (const RawSamples& piece : pieces_) {
    check_samples(piece, spec_);
    firsts_.push_back(firsts_.back() + piece.size());
  }
}

std::pair<const RawSamples*, std::int64_t> PiecesDataset::locate(std::int64_t index) const {
  const auto piece = std::upper_bound(firsts_.begin(), firsts_.end(), index) - firsts_.begin() - 1;
  return {&pieces_[piece], index - firsts_[piece]};
}

void PiecesDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const {
  data::gather(
      spec_, std::ssize(indices), [&](std::int64_t k) { return locate(indices[k]); }, out);
}

StorageLayout PiecesDataset::do_layout() const {
  std::int64_t bytes = 0;
  for (const RawSamples& piece : pieces_) bytes += piece.bytes();
  return {.bytes = bytes};
}

}  // namespace mn
