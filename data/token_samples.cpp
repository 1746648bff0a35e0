#include "data/token_samples.hpp"

#include <algorithm>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kBlockTokens = 1 << 18;
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);

}  // namespace

void TokenWriter::add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t& token : tokens) {
    // On a little-endian machine, the low bytes come first.
    const auto* bytes = reinterpret_cast<const std::byte*>(&token);
    block_.insert(block_.end(), bytes, bytes + width_);
    if (++count_ % kBlockTokens == 0) write_block();
  }
}

void TokenWriter::write_block() {
  const std::uint32_t crc = crc32c(block_);
  file_.write(block_);
  file_.write(std::as_bytes(std::span(&crc, 1)));
  block_.clear();
}

std::int64_t TokenWriter::finish() {
  if (!block_.empty()) write_block();
  file_.commit();
  return count_;
}

void read_tokens(const std::filesystem::path& path, std::size_t width, std::int64_t count, std::int64_t first,
                 std::span<std::byte> out) {
  const File file(path, File::Mode::kRead);
  std::vector<std::byte> block;
  for (std::int64_t at = first; !out.empty();) {
    const std::int64_t number = at / kBlockTokens;
    const std::int64_t tokens = std::min(kBlockTokens, count - number * kBlockTokens);
    // Whole blocks, because each has one checksum.
    block.resize(static_cast<std::size_t>(tokens) * width + kCrcBytes);
    file.read_at(static_cast<std::uint64_t>(number) * (kBlockTokens * width + kCrcBytes), block);
    const auto values = std::span(block).first(block.size() - kCrcBytes);
    std::uint32_t crc;
    std::memcpy(&crc, block.data() + values.size(), kCrcBytes);
    if (crc != crc32c(values)) {
      throw DataError(path.string() + " is damaged: remove the output folder of the conversion, and start again");
    }
    const auto found = values.subspan(static_cast<std::size_t>(at - number * kBlockTokens) * width);
    const std::size_t bytes = std::min(found.size(), out.size());
    std::memcpy(out.data(), found.data(), bytes);
    out = out.subspan(bytes);
    at = (number + 1) * kBlockTokens;
  }
}

DType token_dtype(std::int32_t vocabulary) {
  return vocabulary <= 1 << 8 ? DType::kUInt8 : vocabulary <= 1 << 16 ? DType::kUInt16 : DType::kInt32;
}

TokenSamples::TokenSamples(TokenScratch scratch, const Vocabulary& vocabulary, std::int64_t context, double first,
                           double last)
    : scratch_(std::move(scratch)),
      context_(context),
      begin_of_text_(vocabulary.begin_of_text()),
      end_of_text_(vocabulary.end_of_text()) {
  spec_ = {.fields = {{.name = "tokens",
                       .dtype = token_dtype(vocabulary.size()),
                       .shape = {context + 1},
                       .num_classes = vocabulary.size()}}};
  for (std::size_t p = 0; p < scratch_.pieces.size();) p = add_text(p, first, last);
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

void TokenSamples::add(std::size_t piece, std::int64_t first, std::int64_t count) {
  stretches_.push_back({piece, first});
  begins_.push_back(begins_.back() + count);
}

/// Adds the tokens from fraction `first` to fraction `last` of the text that begins with piece p. Returns the first
/// piece of the next text.
std::size_t TokenSamples::add_text(std::size_t p, double first, double last) {
  const auto is_same = [&](const TextPiece& piece) { return piece.file == scratch_.pieces[p].file; };
  const auto end = static_cast<std::size_t>(
      std::find_if_not(scratch_.pieces.begin() + p, scratch_.pieces.end(), is_same) - scratch_.pieces.begin());
  std::int64_t all = 0;
  for (std::size_t i = p; i < end; ++i) all += scratch_.counts[i];
  const auto token_at = [&](double part) { return static_cast<std::int64_t>(static_cast<double>(all) * part); };
  const std::int64_t from = token_at(first);
  const std::int64_t to = token_at(last);
  if (begin_of_text_ && to > from) add(kSingleToken, *begin_of_text_, 1);
  std::int64_t begin = 0;
  for (std::size_t i = p; i < end; begin += scratch_.counts[i++]) {
    const std::int64_t own = std::max(from - begin, std::int64_t{0});
    const std::int64_t count = std::min(to - begin, scratch_.counts[i]) - own;
    if (count > 0) add(i, own, count);
  }
  if (end_of_text_ && to > from) add(kSingleToken, *end_of_text_, 1);
  return end;
}

void TokenSamples::read_stream(std::int64_t first, std::span<std::byte> out, std::size_t width) const {
  auto s = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin()) - 1;
  for (; !out.empty(); first = begins_[++s]) {
    const auto left = static_cast<std::size_t>(begins_[s + 1] - first) * width;
    const auto own = out.first(std::min(left, out.size()));
    const auto [piece, in_piece] = stretches_[s];
    if (piece == kSingleToken) {
      std::memcpy(own.data(), &in_piece, width);  // little endian
    } else {
      read_tokens(scratch_.tokens(piece), width, scratch_.counts[piece], in_piece + first - begins_[s], own);
    }
    out = out.subspan(own.size());
  }
}

}  // namespace mn::data
