// Converts texts to tokens, and tokens to samples. A sample is `context` tokens and the token that follows them.
//
// Files are cut into pieces. The threads of all processes count the words of pieces, and rank 0 makes the vocabulary.
// Then the processes encode each piece to a file in the scratch folder, and make shards from these files.
//
// (1) Each file is a text, whose last tokens are for validation. If there are several texts, or the given vocabulary
//     has such tokens, an end-of-text token follows each text's training part and each text's validation part, and a
//     begin-of-text token stands before both.
// (2) Pieces, vocabulary and tokens depend on the files and options alone, not on the number of ranks or threads.
// (3) The conversion is claimed (ConversionFolder) only after all files of tokens are on stable storage, because
//     another run can resume a claimed conversion.
#include "data/convert.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/fixed_conversion.hpp"
#include "data/text_files.hpp"
#include "data/token_samples.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Files = std::vector<fs::path>;

constexpr std::int64_t kMaxPieces = 1 << 14;  // approximate limit for all files together

/// The length of a piece in bytes. Even a small text gets many pieces: one rank may get one piece more than another.
std::int64_t piece_bytes(std::int64_t bytes) {
  constexpr std::int64_t kEnoughPieces = 256;
  return std::max(std::clamp<std::int64_t>(bytes / kEnoughPieces, 1 << 20, 4 << 20), bytes / kMaxPieces);
}

json request_of(const Files& files, const TokenOptions& options) {
  json facts = {{"vocabulary", options.vocabulary},
                {"size", options.vocabulary_size},
                {"file", options.vocabulary_file.empty() ? json() : source_facts(options.vocabulary_file)},
                {"context", options.context},
                {"val_part", options.val_part}};
  for (const fs::path& file : files) facts["sources"].push_back(source_facts(file));
  return facts;
}

using WordCounts = std::map<std::string, std::int64_t>;

/// Throws a DataError that names the first byte that is not UTF-8.
WordCounts count_characters(const fs::path& file, const TextPiece& piece, bool any_bytes) {
  WordCounts found;
  std::int64_t at = piece.begin;
  const auto take = [&](std::string_view text) {
    while (!text.empty()) {
      const int length = first_character(text);
      if (length < 1) {
        throw DataError(file.string() + " is not UTF-8 at byte " + std::to_string(at) +
                            ": give --vocabulary bytes or bpe, or convert it with iconv",
                        true);
      }
      ++found[std::string(text.substr(0, static_cast<std::size_t>(length)))];
      text.remove_prefix(static_cast<std::size_t>(length));
      at += length;
    }
  };
  read_text(file, piece, any_bytes, complete_characters, take);
  return found;
}

/// Counts a piece's words, cut by first_word() as a vocabulary of merges cuts them.
WordCounts count_words(const fs::path& file, const TextPiece& piece, bool any_bytes) {
  WordCounts words;
  const Vocabulary cutter = Vocabulary::of_merges({});
  const auto take = [&](std::string_view text) {
    std::unordered_map<std::string_view, std::int64_t> found;
    while (!text.empty()) {
      const std::size_t length = first_word(text);
      ++found[text.substr(0, length)];
      text.remove_prefix(length);
    }
    for (const auto& [word, count] : found) words[std::string(word)] += count;
  };
  const auto complete = [&](std::string_view text) { return cutter.complete(text); };
  read_text(file, piece, any_bytes, complete, take);
  return words;
}

void add_counts(const fs::path& path, WordCounts& counts) {
  const json added = parse_cbor(read_file(path), path.string());
  for (const auto& [word, count] : added.items()) counts[word] += count.get<std::int64_t>();
}

class TokenConversion final : public FixedConversion {
 public:
  TokenConversion(Files files, TokenOptions tokens, const ConvertOptions& options)
      : FixedConversion(splits(files, tokens, options), options.shard_bytes),
        files_(std::move(files)),
        options_(std::move(tokens)),
        vocabulary_path_(options.out / kVocabulary) {}

  void plan(const fs::path& scratch) override {
    std::int64_t bytes = 0;
    for (const fs::path& file : files_) {
      std::error_code error;
      bytes += static_cast<std::int64_t>(fs::file_size(file, error));
    }
    json pieces = json::array();
    const Vocabulary vocabulary =
        options_.vocabulary_file.empty() ? Vocabulary::of_merges({}) : Vocabulary::load(options_.vocabulary_file);
    for (const TextPiece& piece : cut_texts(files_, vocabulary, piece_bytes(bytes), options_.any_bytes)) {
      pieces.push_back({piece.file, piece.begin, piece.end, piece.is_packed});
    }
    if (pieces.empty()) throw DataError(files_.front().string() + " holds no text", true);
    write_file(scratch / kPieces, pieces.dump());
  }

  std::vector<PlanRound> plan_rounds(const fs::path& scratch) override {
    const TokenScratch tokens = plan_in(scratch);
    std::vector<PlanRound> rounds;
    if (makes_vocabulary()) rounds.push_back({tokens.pieces.size(), [=, this](std::size_t p) { count(tokens, p); }});
    rounds.push_back({1, [=, this](std::size_t) { write_vocabulary(tokens); }});
    rounds.push_back({tokens.pieces.size(), [=, this](std::size_t p) { encode(tokens, p); }});
    rounds.push_back({1, [=, this](std::size_t) { FixedConversion::plan(tokens.folder); }});
    return rounds;
  }

 private:
  static constexpr const char* kPieces = "pieces.json";
  static constexpr const char* kVocabulary = "vocabulary.json";

  static std::vector<FixedSplit> splits(const Files& files, const TokenOptions& tokens, const ConvertOptions& options) {
    const auto split = [&](const std::string& name, double first, double last) {
      const auto open = [=, context = tokens.context, vocabulary = options.out / kVocabulary](
                            const fs::path& scratch) -> std::shared_ptr<const SampleSource> {
        auto samples =
            std::make_shared<TokenSamples>(counted_in(scratch), Vocabulary::load(vocabulary), context, first, last);
        if (samples->size() > 0) return samples;
        throw DataError("the texts are too short: " + std::string(first > 0 ? "validation" : "training") +
                            " does not have one sample of " + std::to_string(context) +
                            " tokens (--context, --val-part)",
                        true);
      };
      return FixedSplit{.output = {options.out / name, name},
                        .request = request_of(files, tokens),
                        .attributes = {{"converter", "mnshard tokens"}, {"source", files.front().filename().string()}},
                        .open = open};
    };
    const double border = 1 - tokens.val_part;
    std::vector<FixedSplit> splits = {split("train", 0, border)};
    if (tokens.val_part > 0) splits.push_back(split("val", border, 1));
    return splits;
  }

  static TokenScratch plan_in(const fs::path& scratch) {
    TokenScratch tokens{.folder = scratch, .pieces = {}};
    for (const json& piece : parse_json(read_file(scratch / kPieces), kPieces)) {
      tokens.pieces.push_back(
          {.file = piece.at(0), .begin = piece.at(1), .end = piece.at(2), .is_packed = piece.at(3)});
    }
    return tokens;
  }

  static TokenScratch counted_in(const fs::path& scratch) {
    TokenScratch tokens = plan_in(scratch);
    for (std::size_t p = 0; p < tokens.pieces.size(); ++p) {
      tokens.counts.push_back(std::stoll(read_file(tokens.count(p))));
    }
    return tokens;
  }

  [[nodiscard]] bool makes_vocabulary() const {
    return options_.vocabulary_file.empty() && options_.vocabulary != "bytes";
  }
  [[nodiscard]] const fs::path& file_of(const TokenScratch& tokens, std::size_t piece) const {
    return files_[tokens.pieces[piece].file];
  }

  void count(const TokenScratch& tokens, std::size_t piece) const {
    const auto count_in = options_.vocabulary == "characters" ? count_characters : count_words;
    const json counts = count_in(file_of(tokens, piece), tokens.pieces[piece], options_.any_bytes);
    std::string bytes;  // CBOR, because words need not be UTF-8
    json::to_cbor(counts, bytes);
    write_file(tokens.words(piece), bytes);
  }

  void write_vocabulary(const TokenScratch& tokens) const {
    write_file(vocabulary_path_, make_vocabulary(tokens).to_json().dump());
  }

  [[nodiscard]] Vocabulary make_vocabulary(const TokenScratch& tokens) const {
    if (!options_.vocabulary_file.empty()) {
      Vocabulary given = Vocabulary::load(options_.vocabulary_file);
      if (files_.size() == 1 || given.end_of_text()) return given;
      throw DataError(options_.vocabulary_file +
                          " has no end-of-text token, which several texts need: make a vocabulary from several texts",
                      true);
    }
    WordCounts words;
    for (std::size_t p = 0; makes_vocabulary() && p < tokens.pieces.size(); ++p) add_counts(tokens.words(p), words);
    Vocabulary made = vocabulary_of(words);
    return files_.size() > 1 ? std::move(made).with_end_of_text() : made;
  }

  [[nodiscard]] Vocabulary vocabulary_of(const WordCounts& words) const {
    if (options_.vocabulary == "bytes") return Vocabulary::of_bytes();
    if (words.empty()) throw DataError(files_.front().string() + " holds no text", true);
    if (options_.vocabulary == "bpe") return Vocabulary::of_merges(train_merges(words, options_.vocabulary_size));
    std::vector<std::string> characters;
    for (const auto& each : words) characters.push_back(each.first);
    return Vocabulary::of_characters(std::move(characters));
  }

  [[nodiscard]] const Vocabulary& vocabulary() const {
    std::call_once(is_loaded_, [&] { vocabulary_ = std::make_unique<Vocabulary>(Vocabulary::load(vocabulary_path_)); });
    return *vocabulary_;
  }

  void encode(const TokenScratch& tokens, std::size_t piece) const {
    const Vocabulary& vocabulary = this->vocabulary();
    const fs::path& file = file_of(tokens, piece);
    TokenWriter out(tokens.tokens(piece), size_of(token_dtype(vocabulary.size())));
    bool continues = tokens.pieces[piece].begin > 0;
    const auto take = [&](std::string_view text) {
      try {
        out.add(vocabulary.encode(text, continues));
        continues = continues || !text.empty();
      } catch (const ArgumentError& error) {
        throw DataError(file.string() + ": " + error.what(), true);
      }
    };
    const auto complete = [&](std::string_view text) { return vocabulary.complete(text); };
    // If a vocabulary is made, the texts were checked when their words were counted.
    read_text(file, tokens.pieces[piece], options_.any_bytes || makes_vocabulary(), complete, take);
    write_file(tokens.count(piece), std::to_string(out.finish()));
  }

  Files files_;
  TokenOptions options_;
  fs::path vocabulary_path_;
  mutable std::once_flag is_loaded_;
  mutable std::unique_ptr<const Vocabulary> vocabulary_;
};

}  // namespace

ConversionResult convert_tokens(const Files& files, const TokenOptions& tokens, const ConvertOptions& options) {
  TokenConversion conversion(files, tokens, options);
  return run_conversion(conversion, options);
}

}  // namespace mn::data
