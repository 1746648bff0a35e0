#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/data/gather.hpp>
#include <mn/data/pieces_dataset.hpp>

namespace mn {

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
