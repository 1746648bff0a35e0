#include <algorithm>
#include <cstring>

#include <mn/core/error.hpp>
#include <mn/data/pieces_dataset.hpp>

namespace mn {

PiecesDataset::PiecesDataset(SampleSpec spec, std::vector<RawSamples> pieces)
    : spec_(std::move(spec)), pieces_(std::move(pieces)) {
  for (const RawSamples& piece : pieces_) {
    if (spec_.kind == SampleKind::kFixed && piece.offsets.back() != piece.size() * spec_.sample_bytes()) {
      throw ArgumentError("a piece of a scattered dataset has samples of another length than their form says");
    }
    firsts_.push_back(firsts_.back() + piece.size());
  }
}

std::pair<const RawSamples*, std::int64_t> PiecesDataset::locate(std::int64_t index) const {
  const auto piece = std::upper_bound(firsts_.begin(), firsts_.end(), index) - firsts_.begin() - 1;
  return {&pieces_[piece], index - firsts_[piece]};
}

void PiecesDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const {
  out.offsets.assign(1, 0);
  out.labels.clear();
  for (const std::int64_t index : indices) {
    const auto [piece, i] = locate(index);
    out.offsets.push_back(out.offsets.back() + static_cast<std::int64_t>(piece->sample(i).size()));
    out.labels.push_back(piece->labels[i]);
  }
  out.bytes.resize(out.offsets.back());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const auto [piece, i] = locate(indices[k]);
    const auto from = piece->sample(i);
    if (!from.empty()) std::memcpy(out.bytes.data() + out.offsets[k], from.data(), from.size());
  }
}

StorageLayout PiecesDataset::do_layout() const {
  std::int64_t bytes = 0;
  for (const RawSamples& piece : pieces_) bytes += piece.offsets.back();
  return {.bytes = bytes};
}

}  // namespace mn
