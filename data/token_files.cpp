#include "data/token_files.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
constexpr std::int64_t kHeaderBytes = 34;
constexpr std::int64_t kWidths[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};  // [code] bytes of a token; 0: not an integer
constexpr int kUInt8 = 1, kUInt16 = 8;

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// Token `i` of `bytes`, whose type has this width; −1 if it is negative or more than 2³¹ − 1.
std::int32_t token_at(std::span<const std::byte> bytes, std::size_t i, std::int64_t width, bool is_signed) {
  const auto fit = [](auto value) {
    return std::in_range<std::int32_t>(value) ? static_cast<std::int32_t>(value) : -1;
  };
  const std::size_t at = i * static_cast<std::size_t>(width);
  if (width == 1) return is_signed ? number_at<std::int8_t>(bytes, at) : number_at<std::uint8_t>(bytes, at);
  if (width == 2) return is_signed ? number_at<std::int16_t>(bytes, at) : number_at<std::uint16_t>(bytes, at);
  if (width == 4) return fit(number_at<std::int32_t>(bytes, at));
  return fit(number_at<std::int64_t>(bytes, at));
}

std::int64_t width_for(std::int32_t vocabulary) { return vocabulary > 1 << 16 ? 4 : 2; }

void check_token(const fs::path& path, std::int32_t token, std::int64_t number, std::int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw DataError(path.string() + ": token " + std::to_string(number) + " is " +
                      (token < 0 ? "out of range" : std::to_string(token)) + ", and the vocabulary has " +
                      std::to_string(vocabulary) + " tokens: give --vocabulary-file the vocabulary of these tokens",
                  true);
}

}  // namespace

void IndexedTokens::damaged(const std::string& what) const {
  throw DataError(index_.path().string() + " is not an index of Megatron-LM for the tokens beside it: " + what, true);
}

template <class T>
std::vector<T> IndexedTokens::array(std::uint64_t begin, std::int64_t first, std::int64_t count) const {
  std::vector<T> values(static_cast<std::size_t>(count));
  index_.read_at(begin + static_cast<std::uint64_t>(first) * sizeof(T), std::as_writable_bytes(std::span(values)));
  return values;
}

IndexedTokens::IndexedTokens(const fs::path& index, const fs::path& tokens)
    : index_(index, File::Mode::kRead), tokens_(tokens, File::Mode::kRead) {
  const std::uint64_t size = index_.size();
  std::vector<std::byte> header(kHeaderBytes);
  if (size < header.size()) damaged("it is too short");
  index_.read_at(0, header);
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) damaged("it does not begin with MMIDIDX");
  const auto version = number_at<std::uint64_t>(header, 9);
  if (version != 1) damaged("it has version " + std::to_string(version) + ", not 1");
  code_ = number_at<std::uint8_t>(header, 17);
  width_ = code_ < static_cast<int>(std::size(kWidths)) ? kWidths[code_] : 0;
  if (width_ == 0) damaged("its tokens have type " + std::to_string(code_) + ", which is not an integer");
  const auto sequences = number_at<std::uint64_t>(header, 18), documents = number_at<std::uint64_t>(header, 26);
  // An index of multimodal data has one more byte for each sequence.
  constexpr std::uint64_t kSequenceBytes = 12, kDocumentBytes = 8;
  if (sequences > size / kSequenceBytes || documents > size / kDocumentBytes || documents == 0 ||
      kHeaderBytes + sequences * kSequenceBytes + documents * kDocumentBytes > size) {
    damaged("it is shorter than its numbers of sequences and documents tell");
  }
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(documents) - 1;
  lengths_at_ = kHeaderBytes;
  offsets_at_ = lengths_at_ + sequences * sizeof(std::int32_t);
  documents_at_ = offsets_at_ + sequences * sizeof(std::int64_t);
}

void IndexedTokens::append_sequence(std::int64_t sequence, std::int32_t vocabulary,
                                    std::vector<std::int32_t>& document) const {
  const std::int64_t count = array<std::int32_t>(lengths_at_, sequence, 1)[0];
  const std::int64_t offset = array<std::int64_t>(offsets_at_, sequence, 1)[0];
  const auto available = static_cast<std::int64_t>(tokens_.size());
  const std::int64_t bytes = count * width_;
  // No document has more tokens than the file: damaged indices may name the same tokens many times.
  const bool is_long = (static_cast<std::int64_t>(document.size()) + count) * width_ > available;
  if (count < 0 || offset < 0 || is_long || offset > available - bytes) {
    damaged("sequence " + std::to_string(sequence) + " is not in " + tokens_.path().string());
  }
  std::vector<std::byte> stored(static_cast<std::size_t>(bytes));
  tokens_.read_at(static_cast<std::uint64_t>(offset), stored);
  for (std::int64_t i = 0; i < count; ++i) {
    document.push_back(token_at(stored, static_cast<std::size_t>(i), width_, code_ != kUInt8 && code_ != kUInt16));
    check_token(tokens_.path(), document.back(), offset / width_ + i, vocabulary);
  }
}

void IndexedTokens::read(std::int64_t first, std::int64_t last, std::int32_t vocabulary, const UseTokens& use) const {
  const auto begins = array<std::int64_t>(documents_at_, first, last - first + 1);
  std::vector<std::int32_t> document;
  for (std::size_t d = 0; d + 1 < begins.size(); ++d) {
    if (begins[d] < 0 || begins[d + 1] < begins[d] || begins[d + 1] > sequences_) {
      damaged("the sequences of document " + std::to_string(first + static_cast<std::int64_t>(d)) + " are not in it");
    }
    document.clear();
    for (std::int64_t s = begins[d]; s < begins[d + 1]; ++s) append_sequence(s, vocabulary, document);
    use(document);
  }
}

void cut_tokens(const fs::path& path, std::size_t number, std::int32_t vocabulary, std::int64_t piece_bytes,
                std::vector<TextPiece>& pieces) {
  const auto size = static_cast<std::int64_t>(File(path, File::Mode::kRead).size());
  const std::int64_t width = width_for(vocabulary);
  if (size % width != 0) {
    throw DataError(path.string() + " has " + std::to_string(size) + " bytes, which are not tokens of " +
                        std::to_string(width) + " bytes each (a vocabulary of " + std::to_string(vocabulary) + ")",
                    true);
  }
  const std::int64_t step = piece_bytes / width * width;
  for (std::int64_t begin = 0; begin < size; begin += step) {
    pieces.push_back({.file = number, .begin = begin, .end = std::min(begin + step, size)});
  }
}

void read_token_file(const fs::path& path, const TextPiece& piece, std::int32_t vocabulary, const UseTokens& use) {
  const std::int64_t width = width_for(vocabulary);
  std::int64_t number = piece.begin / width;
  PieceReader reader(path, piece);
  std::vector<std::int32_t> tokens;
  for (std::string text = reader.next(); !text.empty(); text = reader.next()) {
    tokens.clear();
    const auto bytes = std::as_bytes(std::span(text));
    for (std::size_t i = 0; i < text.size() / static_cast<std::size_t>(width); ++i) {
      tokens.push_back(token_at(bytes, i, width, false));
      check_token(path, tokens.back(), number++, vocabulary);
    }
    use(tokens);
  }
}

void cut_indexed(const fs::path& path, std::size_t number, std::int64_t piece_bytes, std::vector<TextPiece>& pieces) {
  const std::int64_t documents = IndexedTokens(index_of(path), path).documents();
  const auto bytes = static_cast<std::int64_t>(File(path, File::Mode::kRead).size());
  const std::int64_t step = std::max<std::int64_t>(1, documents / std::max<std::int64_t>(1, bytes / piece_bytes));
  for (std::int64_t begin = 0; begin < documents; begin += step) {
    pieces.push_back({.file = number, .begin = begin, .end = std::min(begin + step, documents)});
  }
}

}  // namespace mn::data
