// Encodes a piece of a file.
//
// (1) In a file of many documents, a begin-of-text token stands before each document and an end-of-text token after it,
//     if the vocabulary has these tokens. TokenSamples adds them to a file that is one document, unless samples are
//     packed.
// (2) Files of tokens keep their tokens. An end-of-text token follows a document of Megatron-LM that lacks it.
#include "data/encode_piece.hpp"

#include <optional>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/chat.hpp"
#include "data/documents.hpp"
#include "data/pack_documents.hpp"
#include "data/parquet.hpp"
#include "data/token_files.hpp"
#include "data/token_samples.hpp"
#include "data/validation_part.hpp"

namespace mn::data {
namespace {

constexpr std::size_t kMaxDocument = 1 << 22;  // tokens of a packed file that are in memory

/// Writes the tokens of one part of the documents, packed or not.
class PartWriter {
 public:
  PartWriter(const TokenScratch& scratch, std::size_t piece, std::size_t part, const EncodeInputs& inputs)
      : tokens_(scratch.tokens(piece, part), size_of(token_dtype(inputs.vocabulary.size()))) {
    if (!inputs.options.pack) return;
    const std::int64_t context = inputs.options.context;
    documents_.emplace(scratch.documents(piece, part), size_of(documents_field(context).dtype));
    packer_.emplace(context + 1, tokens_, *documents_);
  }

  void add(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> is_prompt) {
    if (!packer_) return tokens_.add(tokens);
    packer_->add(tokens, is_prompt);
  }

  std::int64_t finish() {
    if (packer_) {
      packer_->flush();
      (void)documents_->finish();
    }
    return tokens_.finish();
  }

 private:
  TokenWriter tokens_;
  std::optional<TokenWriter> documents_;
  std::optional<DocumentPacker> packer_;
};

class PieceEncoder {
 public:
  PieceEncoder(const EncodeInputs& inputs, const TokenScratch& scratch, std::size_t piece)
      : in_(inputs), scratch_(scratch), piece_(piece), validation_(inputs.options.val_part) {}

  void encode() {
    switch (in_.source.kind) {
      case SourceKind::kText:
        encode_text();
        break;
      case SourceKind::kJsonLines:
        read_json_lines(path(), piece(), in_.options.field, find_chat_template(in_.options.chat),
                        [&](const Document& document) { add_document(document); });
        break;
      case SourceKind::kParquet:
        read_parquet(path(), piece(), in_.options.field,
                     [&](std::string_view text) { add_document({{.text = std::string(text)}}); });
        break;
      case SourceKind::kTokens:
        read_token_file(path(), piece(), in_.vocabulary.size(), [&](auto tokens) { add_stream(tokens); });
        break;
      case SourceKind::kIndexedTokens:
        IndexedTokens(index_of(path()), path())
            .read(piece().begin, piece().end, in_.vocabulary.size(), [&](auto tokens) { add_tokens(tokens); });
    }
    end_stream();
    std::string counts;
    for (auto& part : parts_) counts += std::to_string(part ? part->finish() : 0) + " ";
    write_file(scratch_.count(piece_), counts);
  }

 private:
  [[nodiscard]] const std::filesystem::path& path() const { return in_.source.path; }
  [[nodiscard]] const TextPiece& piece() const { return scratch_.pieces[piece_]; }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const { return in_.vocabulary.end_of_text(); }

  PartWriter& writer(std::size_t part) {
    if (!parts_[part]) parts_[part].emplace(scratch_, piece_, part, in_);
    return *parts_[part];
  }

  std::vector<std::int32_t> encode(std::string_view text, bool continues) const {
    try {
      return in_.vocabulary.encode(text, continues);
    } catch (const ArgumentError& error) {
      // Whoever reads JSON lines adds the names of file and line.
      const bool has_lines = in_.source.kind == SourceKind::kJsonLines;
      throw DataError((has_lines ? "" : path().string() + ": ") + error.what(), true);
    }
  }

  void encode_text() {
    const bool is_first = piece().begin == 0;
    const bool is_last = piece_ + 1 == scratch_.pieces.size() || scratch_.pieces[piece_ + 1].file != piece().file;
    bool continues = !is_first;
    if (in_.options.pack && is_first && in_.vocabulary.begin_of_text()) stream_ = {*in_.vocabulary.begin_of_text()};
    const auto take = [&](std::string_view text) {
      add_stream(encode(text, continues));
      continues = continues || !text.empty();
    };
    const auto complete = [&](std::string_view text) { return in_.vocabulary.complete(text); };
    // If a vocabulary is made, the texts were checked when their words were counted.
    const bool is_checked = in_.options.any_bytes || in_.options.makes_vocabulary();
    read_text(path(), piece(), is_checked, complete, take);
    if (in_.options.pack && is_last && end_of_text()) stream_.push_back(*end_of_text());
  }

  /// Adds tokens of a file that is one document. Packed, documents of tokens end with their end-of-text tokens.
  void add_stream(std::span<const std::int32_t> tokens) {
    if (!in_.options.pack) return writer(in_.part).add(tokens, {});
    for (const std::int32_t token : tokens) {
      stream_.push_back(token);
      if (token == end_of_text()) {
        end_stream();
      } else if (stream_.size() >= kMaxDocument) {
        writer(in_.part).add(stream_, {});
        stream_ = {token};
      }
    }
  }

  void end_stream() {
    if (!stream_.empty()) writer(in_.part).add(stream_, {});
    stream_.clear();
  }

  void add_document(const Document& document) {
    std::vector<std::int32_t> tokens;
    std::vector<std::uint8_t> is_prompt;
    for (const DocumentPart& part : document) {
      const auto own = encode(part.text, !tokens.empty());
      tokens.insert(tokens.end(), own.begin(), own.end());
      is_prompt.resize(tokens.size(), in_.options.mask_prompt && !part.is_answer ? 1 : 0);
    }
    if (tokens.empty()) return;
    if (in_.vocabulary.begin_of_text()) {
      tokens.insert(tokens.begin(), *in_.vocabulary.begin_of_text());
      is_prompt.insert(is_prompt.begin(), 1);
    }
    add_tokens(tokens, is_prompt);
  }

  void add_tokens(std::span<const std::int32_t> tokens, std::vector<std::uint8_t> is_prompt = {}) {
    std::vector<std::int32_t> ended(tokens.begin(), tokens.end());
    if (end_of_text() && !ended.empty() && ended.back() != *end_of_text()) ended.push_back(*end_of_text());
    if (!is_prompt.empty()) is_prompt.resize(ended.size(), is_prompt.back());
    const std::size_t part = validation_.has(static_cast<std::int64_t>(piece_), documents_++) ? 1 : 0;
    writer(part).add(ended, is_prompt);
  }

  const EncodeInputs& in_;
  const TokenScratch& scratch_;
  std::size_t piece_;
  ValidationPart validation_;
  std::int64_t documents_ = 0;        // number of documents so far
  std::vector<std::int32_t> stream_;  // packed: the begun document of a file that is one document
  std::optional<PartWriter> parts_[kParts];
};

}  // namespace

void encode_piece(const EncodeInputs& inputs, const TokenScratch& scratch, std::size_t piece) {
  PieceEncoder(inputs, scratch, piece).encode();
}

FieldSpec documents_field(std::int64_t context) {
  constexpr std::int64_t kMaxInt16 = 32767;
  return {.name = "documents", .dtype = context < kMaxInt16 ? DType::kInt16 : DType::kInt32, .shape = {context + 1}};
}

}  // namespace mn::data
