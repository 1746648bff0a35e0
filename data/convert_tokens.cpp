// Converts texts to tokens, and tokens to samples. A sample is `context` tokens and the token that follows them.
//
// Files are cut into pieces. The threads of all processes count the words of pieces, and rank 0 makes the vocabulary.
// Then the processes encode each piece to files in the scratch folder, and make shards from these files.
//
// (1) If there are several documents, or the given vocabulary has such tokens, an end-of-text token follows each
//     document, and a begin-of-text token stands before it. If a document is divided between training and validation,
//     both parts have these tokens.
// (2) Pieces, vocabulary, parts and tokens depend on the files and options alone, not on the number of ranks or
//     threads.
// (3) The conversion is claimed (ConversionFolder) only after all files of tokens are on stable storage, because
//     another run can resume a claimed conversion.
#include "data/convert.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <sstream>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/chat.hpp"
#include "data/count_words.hpp"
#include "data/encode_piece.hpp"
#include "data/fixed_conversion.hpp"
#include "data/token_samples.hpp"
#include "data/token_sources.hpp"
#include "data/validation_part.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Sources = std::vector<TokenSource>;

constexpr std::int64_t kMaxPieces = 1 << 14;  // approximate limit for all files together

/// The length of a piece in bytes. Even a small text gets many pieces: one rank may get one piece more than another.
std::int64_t piece_bytes(std::int64_t bytes) {
  constexpr std::int64_t kEnoughPieces = 256;
  return std::max(std::clamp<std::int64_t>(bytes / kEnoughPieces, 1 << 20, 4 << 20), bytes / kMaxPieces);
}

json request_of(const Sources& sources, const TokenOptions& options) {
  json facts = {{"vocabulary", options.vocabulary},
                {"size", options.vocabulary_size},
                {"file", options.vocabulary_file.empty() ? json() : source_facts(options.vocabulary_file)},
                {"context", options.context},
                {"val_part", options.val_part},
                {"field", options.field},
                {"chat", options.chat},
                {"pack", options.pack},
                {"mask_prompt", options.mask_prompt}};
  for (const TokenSource& source : sources) facts["sources"].push_back(source_facts(source.path));
  return facts;
}

void check_options(const Sources& sources, const TokenOptions& options) {
  if (options.mask_prompt && (options.chat == "none" || !options.pack)) {
    throw UsageError("--mask-prompt needs --chat, which tells the answers, and --pack, which keeps documents apart");
  }
  for (const TokenSource& source : sources) {
    if (source.has_tokens() && options.vocabulary_file.empty()) {
      throw UsageError(source.path.string() + " holds tokens: give --vocabulary-file the vocabulary that made them");
    }
    if (source.kind != SourceKind::kJsonLines && options.chat != "none") {
      throw UsageError(source.path.string() + " holds no chats: --chat reads .jsonl");
    }
  }
}

/// What the samples of a part take from each file. `val_part` is the fraction of the documents for validation.
std::vector<FileShare> shares_of(const Sources& sources, const TokenOptions& options, std::size_t part) {
  const auto documents = static_cast<double>(std::ranges::count_if(sources, &TokenSource::is_document));
  const bool divides = !options.pack && documents * options.val_part < 1;
  const double border = 1 - options.val_part;
  const ValidationPart validation(options.val_part);
  std::vector<FileShare> shares;
  std::int64_t document = 0;
  for (const TokenSource& source : sources) {
    FileShare share = {.is_document = source.is_document(), .adds_ends = source.kind == SourceKind::kText};
    if (share.is_document && divides) {
      share.first = part == 0 ? 0 : border;
      share.last = part == 0 ? border : 1;
    } else if (share.is_document) {
      share.part = validation.has(-1, document++) ? 1 : 0;
      share.last = share.part == part ? 1 : 0;
    }
    shares.push_back(share);
  }
  return shares;
}

void add_counts(const fs::path& path, WordCounts& counts) {
  const json added = parse_cbor(read_file(path), path.string());
  for (const auto& [word, count] : added.items()) counts[word] += count.get<std::int64_t>();
}

class TokenConversion final : public FixedConversion {
 public:
  TokenConversion(Sources sources, TokenOptions tokens, const ConvertOptions& options)
      : FixedConversion(splits(sources, tokens, options), options.shard_bytes),
        shares_(shares_of(sources, tokens, 0)),
        sources_(std::move(sources)),
        options_(std::move(tokens)),
        vocabulary_path_(options.out / kVocabulary) {}

  void plan(const fs::path& scratch) override {
    std::int64_t bytes = 0;
    for (const TokenSource& source : sources_) bytes += static_cast<std::int64_t>(fs::file_size(source.path));
    json pieces = json::array();
    const Vocabulary vocabulary =
        options_.vocabulary_file.empty() ? Vocabulary::of_merges({}) : Vocabulary::load(options_.vocabulary_file);
    const CutOptions cut = {vocabulary, piece_bytes(bytes), options_.any_bytes, options_.field};
    for (const TextPiece& piece : cut_sources(sources_, cut)) {
      pieces.push_back({piece.file, piece.begin, piece.end, piece.is_packed});
    }
    if (pieces.empty()) throw DataError(sources_.front().path.string() + " holds no text", true);
    write_file(scratch / kPieces, pieces.dump());
  }

  std::vector<PlanRound> plan_rounds(const fs::path& scratch) override {
    const TokenScratch tokens = plan_in(scratch);
    std::vector<PlanRound> rounds;
    if (options_.makes_vocabulary())
      rounds.push_back({tokens.pieces.size(), [=, this](std::size_t p) { count(tokens, p); }});
    rounds.push_back({1, [=, this](std::size_t) { write_vocabulary(tokens); }});
    rounds.push_back({tokens.pieces.size(), [=, this](std::size_t p) { encode(tokens, p); }});
    rounds.push_back({1, [=, this](std::size_t) { FixedConversion::plan(tokens.folder); }});
    return rounds;
  }

 private:
  static constexpr const char* kPieces = "pieces.json";
  static constexpr const char* kVocabulary = "vocabulary.json";

  static std::vector<FixedSplit> splits(const Sources& sources, const TokenOptions& tokens,
                                        const ConvertOptions& options) {
    const auto split = [&](const std::string& name, std::size_t part) {
      const auto open = [=, shares = shares_of(sources, tokens, part),
                         vocabulary = options.out / kVocabulary](const fs::path& scratch) {
        auto samples = open_samples(counted_in(scratch), Vocabulary::load(vocabulary), tokens, part, shares);
        if (samples->size() > 0) return samples;
        throw DataError("the texts are too short or too few: " + std::string(part == 1 ? "validation" : "training") +
                            " does not have one sample of " + std::to_string(tokens.context) +
                            " tokens (--context, --val-part)",
                        true);
      };
      const std::string source = sources.front().path.filename().string();
      return FixedSplit{.output = {options.out / name, name},
                        .request = request_of(sources, tokens),
                        .attributes = {{"converter", "mnshard tokens"}, {"source", source}},
                        .open = open};
    };
    std::vector<FixedSplit> splits = {split("train", 0)};
    if (tokens.val_part > 0) splits.push_back(split("val", 1));
    return splits;
  }

  static std::shared_ptr<const SampleSource> open_samples(const TokenScratch& scratch, const Vocabulary& vocabulary,
                                                          const TokenOptions& options, std::size_t part,
                                                          const std::vector<FileShare>& shares) {
    if (!options.pack) return std::make_shared<TokenSamples>(scratch, vocabulary, options.context, part, shares);
    const SampleSpec spec = {{tokens_field(vocabulary, options.context), documents_field(options.context)}};
    return std::make_shared<PackedSamples>(scratch, spec, part);
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
      std::istringstream counts(read_file(tokens.count(p)));
      auto& [train, val] = tokens.counts.emplace_back();
      counts >> train >> val;
    }
    return tokens;
  }

  [[nodiscard]] const TokenSource& source_of(const TokenScratch& tokens, std::size_t piece) const {
    return sources_[tokens.pieces[piece].file];
  }

  void count(const TokenScratch& tokens, std::size_t piece) const {
    const json counts = count_words(source_of(tokens, piece), tokens.pieces[piece], options_);
    std::string bytes;  // CBOR, because words need not be UTF-8
    json::to_cbor(counts, bytes);
    write_file(tokens.words(piece), bytes);
  }

  void write_vocabulary(const TokenScratch& tokens) const {
    const Vocabulary vocabulary = make_vocabulary(tokens);
    if (const ChatTemplate* chat = find_chat_template(options_.chat)) {
      check_special_tokens(*chat, vocabulary,
                           options_.vocabulary_file.empty() ? "the vocabulary" : options_.vocabulary_file);
    }
    write_file(vocabulary_path_, vocabulary.to_json().dump());
  }

  [[nodiscard]] Vocabulary make_vocabulary(const TokenScratch& tokens) const {
    const bool is_one_text = sources_.size() == 1 && sources_.front().is_document() && !options_.pack;
    if (!options_.vocabulary_file.empty()) {
      Vocabulary given = Vocabulary::load(options_.vocabulary_file);
      if (is_one_text || given.end_of_text()) return given;
      throw DataError(options_.vocabulary_file +
                          " has no end-of-text token, which several texts need: make a vocabulary from several texts",
                      true);
    }
    WordCounts words;
    for (std::size_t p = 0; options_.makes_vocabulary() && p < tokens.pieces.size(); ++p) {
      add_counts(tokens.words(p), words);
    }
    Vocabulary made = vocabulary_of(words);
    return is_one_text ? made : std::move(made).with_end_of_text();
  }

  [[nodiscard]] Vocabulary vocabulary_of(const WordCounts& words) const {
    if (options_.vocabulary == "bytes") return Vocabulary::of_bytes();
    if (words.empty()) throw DataError(sources_.front().path.string() + " holds no text", true);
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
    const TokenSource& source = source_of(tokens, piece);
    const std::size_t part = shares_[tokens.pieces[piece].file].part;
    encode_piece({.source = source, .options = options_, .vocabulary = vocabulary(), .part = part}, tokens, piece);
  }

  std::vector<FileShare> shares_;  // for the part of each file
  Sources sources_;
  TokenOptions options_;
  fs::path vocabulary_path_;
  mutable std::once_flag is_loaded_;
  mutable std::unique_ptr<const Vocabulary> vocabulary_;
};

}  // namespace

ConversionResult convert_tokens(const std::vector<std::string>& files, const TokenOptions& tokens,
                                const ConvertOptions& options) {
  Sources sources = find_sources(files);
  check_options(sources, tokens);
  TokenConversion conversion(std::move(sources), tokens, options);
  return run_conversion(conversion, options);
}

}  // namespace mn::data
