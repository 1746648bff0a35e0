#include "data/token_samples.hpp"

#include <algorithm>
#include <cstring>

namespace mn::data {

DType token_dtype(std::int32_t vocabulary) {
  return vocabulary <= 1 << 8 ? DType::kUInt8 : vocabulary <= 1 << 16 ? DType::kUInt16 : DType::kInt32;
}

FieldSpec tokens_field(const Vocabulary& vocabulary, std::int64_t context) {
  return {.name = "tokens",
          .dtype = token_dtype(vocabulary.size()),
          .shape = {context + 1},
          .num_classes = vocabulary.size()};
}

TokenSamples::TokenSamples(TokenScratch scratch, const Vocabulary& vocabulary, std::int64_t context, std::size_t part,
                           std::span<const FileShare> shares)
    : scratch_(std::move(scratch)),
      context_(context),
      begin_of_text_(vocabulary.begin_of_text()),
      end_of_text_(vocabulary.end_of_text()),
      spec_{.fields = {tokens_field(vocabulary, context)}} {
  for (std::size_t p = 0; p < scratch_.pieces.size();) {
    const FileShare& share = shares[scratch_.pieces[p].file];
    if (share.is_document) {
      p = add_document(p, share);
    } else {
      add({p, part, 0}, scratch_.counts[p][part]);
      ++p;
    }
  }
}

std::int64_t TokenSamples::size() const { return std::max<std::int64_t>(begins_.back() - 1, 0) / context_; }

void TokenSamples::read(std::int64_t first, std::int64_t last, RawSamples& samples) const {
  const std::size_t width = size_of(spec_[0].dtype);
  std::vector<std::byte> stream(((last - first) * context_ + 1) * width);
  read_stream(first * context_, stream, width);
  samples.reset(spec_, last - first);
  // Consecutive samples share a token of the stream; each has a copy.
  const std::size_t sample_bytes = (context_ + 1) * width;
  for (std::int64_t i = 0; i < last - first; ++i) {
    std::memcpy(samples.columns[0].bytes.data() + i * sample_bytes, stream.data() + i * context_ * width, sample_bytes);
  }
}

void TokenSamples::add(Stretch stretch, std::int64_t count) {
  if (count <= 0) return;
  stretches_.push_back(stretch);
  begins_.push_back(begins_.back() + count);
}

/// Adds the split's share of the document that begins with piece p. Returns the first piece of the next file.
std::size_t TokenSamples::add_document(std::size_t p, const FileShare& share) {
  const auto is_same = [&](const TextPiece& piece) { return piece.file == scratch_.pieces[p].file; };
  const auto end = static_cast<std::size_t>(
      std::find_if_not(scratch_.pieces.begin() + p, scratch_.pieces.end(), is_same) - scratch_.pieces.begin());
  std::int64_t all = 0;
  for (std::size_t i = p; i < end; ++i) all += scratch_.counts[i][share.part];
  const auto token_at = [&](double part) { return static_cast<std::int64_t>(static_cast<double>(all) * part); };
  const std::int64_t from = token_at(share.first);
  const std::int64_t to = token_at(share.last);
  const bool adds_ends = share.adds_ends && to > from;
  if (adds_ends && begin_of_text_) add({kSingleToken, 0, *begin_of_text_}, 1);
  std::int64_t begin = 0;
  for (std::size_t i = p; i < end; begin += scratch_.counts[i++][share.part]) {
    const std::int64_t own = std::max(from - begin, std::int64_t{0});
    add({i, share.part, own}, std::min(to - begin, scratch_.counts[i][share.part]) - own);
  }
  if (adds_ends && end_of_text_) add({kSingleToken, 0, *end_of_text_}, 1);
  return end;
}

void TokenSamples::read_stream(std::int64_t first, std::span<std::byte> out, std::size_t width) const {
  auto s = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin()) - 1;
  for (; !out.empty(); first = begins_[++s]) {
    const auto left = static_cast<std::size_t>(begins_[s + 1] - first) * width;
    const auto own = out.first(std::min(left, out.size()));
    const auto [piece, part, in_piece] = stretches_[s];
    if (piece == kSingleToken) {
      std::memcpy(own.data(), &in_piece, width);  // little endian
    } else {
      read_tokens(scratch_.tokens(piece, part), width, scratch_.counts[piece][part], in_piece + first - begins_[s],
                  own);
    }
    out = out.subspan(own.size());
  }
}

PackedSamples::PackedSamples(TokenScratch scratch, SampleSpec spec, std::size_t part)
    : scratch_(std::move(scratch)), spec_(std::move(spec)), part_(part) {
  for (const auto& counts : scratch_.counts) begins_.push_back(begins_.back() + counts[part] / spec_[0].shape[0]);
}

void PackedSamples::read(std::int64_t first, std::int64_t last, RawSamples& samples) const {
  samples.reset(spec_, last - first);
  const std::int64_t length = spec_[0].shape[0];
  for (std::int64_t sample = first; sample < last;) {
    const auto piece =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), sample) - begins_.begin()) - 1;
    const std::int64_t count = std::min(last, begins_[piece + 1]) - sample;
    const std::filesystem::path files[] = {scratch_.tokens(piece, part_), scratch_.documents(piece, part_)};
    for (std::size_t field = 0; field < std::size(files); ++field) {
      RawColumn& column = samples.columns[field];
      const auto out =
          std::span(column.bytes).subspan((sample - first) * column.sample_bytes, count * column.sample_bytes);
      read_tokens(files[field], size_of(spec_[field].dtype), scratch_.counts[piece][part_],
                  (sample - begins_[piece]) * length, out);
    }
    sample += count;
  }
}

}  // namespace mn::data
