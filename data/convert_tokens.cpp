// Texts → tokens → samples of so many tokens.
//
// Files are cut into pieces. All processes and threads count the words of pieces; rank 0 makes the vocabulary; all
// encode pieces, each to a file of the scratch folder; then they make shards of ranges of these.
//
// (1) Each file is a text. Its last tokens are for validation, so every text has a part in it. Where there are several
//     texts, the token "end of text" follows each one's part.
// (2) Pieces, vocabulary and tokens are functions of the files and options alone: not of ranks and threads.
// (3) The conversion is claimed, and so resumable, only when all files of tokens are on stable storage.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/vocabulary.hpp>

#include "data/convert.hpp"
#include "data/fixed_conversion.hpp"
#include "data/text_files.hpp"
#include "data/token_file.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Files = std::vector<fs::path>;
using Words = std::map<std::string, std::int64_t>;

constexpr std::int64_t kPieceBytes = 4 << 20;
constexpr std::int64_t kMaxPieces = 1 << 14;  // of all files, about

/// Calls use(text) for texts of a piece that end where tokens may.
template <class Complete, class Use>
void for_each_text(const fs::path& file, const TextPiece& piece, const Complete& complete, const Use& use) {
  std::string rest;
  read_text(file, piece, [&](std::string_view text) {
    rest += text;
    const std::size_t end = complete(rest);
    use(std::string_view(rest).substr(0, end));
    rest.erase(0, end);
  });
  use(rest);
}

Words characters_of(const fs::path& file, const TextPiece& piece) {
  Words found;
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
  const auto complete = [](std::string_view text) {
    std::size_t end = text.size();  // a character has at most 4 bytes
    for (std::size_t back = 1; back <= std::min<std::size_t>(4, text.size()); ++back) {
      if (first_character(text.substr(text.size() - back)) == -2) end = text.size() - back;
    }
    return end;
  };
  for_each_text(file, piece, complete, take);
  return found;
}

Words words_of(const fs::path& file, const TextPiece& piece) {
  Words words;
  const Vocabulary cutter = Vocabulary::of_merges({});
  const auto take = [&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t length = first_word(text);
      ++words[std::string(text.substr(0, length))];
      text.remove_prefix(length);
    }
  };
  for_each_text(
      file, piece, [&](std::string_view text) { return cutter.complete(text); }, take);
  return words;
}

/// A file of counts: for each word its bytes' number, the bytes, the count.
void write_words(const fs::path& path, const Words& words) {
  std::string text;
  const auto add = [&](std::int64_t number) { text.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const auto& [word, count] : words) {
    add(std::ssize(word));
    text += word;
    add(count);
  }
  write_file(path, text);
}

void add_words(const fs::path& path, Words& words) {
  const std::string text = read_file(path);
  std::size_t at = 0;
  const auto next = [&] {
    std::int64_t number = 0;
    std::memcpy(&number, text.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  while (at < text.size()) {
    const auto length = static_cast<std::size_t>(next());
    std::int64_t& count = words[text.substr(at, length)];
    at += length;
    count += next();
  }
}

DType dtype_for(std::int32_t vocabulary) {
  return vocabulary <= 1 << 8 ? DType::kUInt8 : vocabulary <= 1 << 15 ? DType::kInt16 : DType::kInt32;
}

/// What the scratch folder holds.
struct Tokens {
  fs::path scratch;
  std::vector<TextPiece> pieces;
  std::vector<std::int64_t> counts = {};  // tokens by piece

  [[nodiscard]] fs::path words(std::size_t piece) const { return scratch / ("words-" + std::to_string(piece)); }
  [[nodiscard]] fs::path tokens(std::size_t piece) const { return scratch / ("tokens-" + std::to_string(piece)); }
  [[nodiscard]] fs::path count(std::size_t piece) const { return scratch / ("count-" + std::to_string(piece)); }
};

/// The first or the last tokens of all texts, one text after another.
class TokenSamples final : public SampleSource {
 public:
  /// The tokens of each text from part `first` to part `last`.
  TokenSamples(Tokens tokens, const Vocabulary& vocabulary, std::int64_t context, double first, double last)
      : tokens_(std::move(tokens)), context_(context) {
    spec_ = {.fields = {{.name = "tokens",
                         .dtype = dtype_for(vocabulary.size()),
                         .shape = {context + 1},
                         .num_classes = vocabulary.size()}}};
    if (vocabulary.end_of_text()) end_of_text_ = *vocabulary.end_of_text();
    for (std::size_t p = 0; p < tokens_.pieces.size();) p = add_text(p, first, last);
  }
  [[nodiscard]] std::int64_t size() const override { return std::max<std::int64_t>(begins_.back() - 1, 0) / context_; }
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return "the texts"; }

  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override {
    const std::size_t width = size_of(spec_[0].dtype);
    std::vector<std::byte> stream(((last - first) * context_ + 1) * width);
    read_stream(first * context_, stream, width);
    samples.reset(spec_, last - first);
    const std::size_t sample_bytes = (context_ + 1) * width;
    for (std::int64_t i = 0; i < last - first; ++i) {
      std::memcpy(samples.columns[0].bytes.data() + i * sample_bytes, stream.data() + i * context_ * width,
                  sample_bytes);
    }
  }

 private:
  static constexpr std::size_t kEndOfText = std::numeric_limits<std::size_t>::max();
  /// Tokens [first, …) of a piece that follow one another in the stream.
  struct Stretch {
    std::size_t piece;
    std::int64_t first;
  };

  void add(std::size_t piece, std::int64_t first, std::int64_t count) {
    stretches_.push_back({piece, first});
    begins_.push_back(begins_.back() + count);
  }

  /// The part of the text that piece p begins; returns the piece after it.
  std::size_t add_text(std::size_t p, double first, double last) {
    const auto is_same = [&](const TextPiece& piece) { return piece.file == tokens_.pieces[p].file; };
    const auto end = static_cast<std::size_t>(
        std::find_if_not(tokens_.pieces.begin() + p, tokens_.pieces.end(), is_same) - tokens_.pieces.begin());
    std::int64_t all = 0;
    for (std::size_t i = p; i < end; ++i) all += tokens_.counts[i];
    const auto token_at = [&](double part) { return static_cast<std::int64_t>(static_cast<double>(all) * part); };
    const std::int64_t from = token_at(first);
    const std::int64_t to = token_at(last);
    std::int64_t begin = 0;
    for (std::size_t i = p; i < end; begin += tokens_.counts[i++]) {
      const std::int64_t own = std::max(from - begin, std::int64_t{0});
      const std::int64_t count = std::min(to - begin, tokens_.counts[i]) - own;
      if (count > 0) add(i, own, count);
    }
    if (end_of_text_ >= 0 && to > from) add(kEndOfText, 0, 1);
    return end;
  }

  void read_stream(std::int64_t first, std::span<std::byte> out, std::size_t width) const {
    auto s = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin()) - 1;
    for (; !out.empty(); first = begins_[++s]) {
      const auto left = static_cast<std::size_t>(begins_[s + 1] - first) * width;
      const auto own = out.first(std::min(left, out.size()));
      const auto [piece, in_piece] = stretches_[s];
      if (piece == kEndOfText) {
        std::memcpy(own.data(), &end_of_text_, width);  // little endian
      } else {
        read_tokens(tokens_.tokens(piece), width, tokens_.counts[piece], in_piece + first - begins_[s], own);
      }
      out = out.subspan(own.size());
    }
  }

  Tokens tokens_;
  std::int64_t context_;
  std::int32_t end_of_text_ = -1;  // −1: not in the vocabulary
  std::vector<Stretch> stretches_;
  std::vector<std::int64_t> begins_ = {0};  // [stretches + 1] in the stream
  SampleSpec spec_;
};

json request_of(const Files& files, const TokenOptions& options) {
  json facts = {{"vocabulary", options.vocabulary},
                {"size", options.vocabulary_size},
                {"file", options.vocabulary_file.empty() ? json() : source_facts(options.vocabulary_file)},
                {"context", options.context},
                {"val_part", options.val_part}};
  for (const fs::path& file : files) facts["sources"].push_back(source_facts(file));
  return facts;
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
    for (const TextPiece& piece : cut_texts(files_, std::max(kPieceBytes, bytes / kMaxPieces))) {
      pieces.push_back({piece.file, piece.begin, piece.end, piece.is_packed});
    }
    if (pieces.empty()) throw DataError(files_.front().string() + " holds no text", true);
    write_file(scratch / kPieces, pieces.dump());
  }

  std::vector<Stage> stages(const fs::path& scratch) override {
    const Tokens tokens = plan_in(scratch);
    std::vector<Stage> stages;
    if (makes_vocabulary()) stages.push_back({tokens.pieces.size(), [=, this](std::size_t p) { count(tokens, p); }});
    stages.push_back({1, [=, this](std::size_t) { write_vocabulary(tokens); }});
    stages.push_back({tokens.pieces.size(), [=, this](std::size_t p) { encode(tokens, p); }});
    stages.push_back({1, [=, this](std::size_t) { FixedConversion::plan(tokens.scratch); }});
    return stages;
  }

 private:
  static constexpr const char* kPieces = "pieces.json";
  static constexpr const char* kVocabulary = "vocabulary.json";

  static std::vector<FixedSplit> splits(const Files& files, const TokenOptions& tokens, const ConvertOptions& options) {
    const auto split = [&](const std::string& name, double first, double last) {
      const auto open = [=, context = tokens.context, vocabulary = options.out / kVocabulary](
                            const fs::path& scratch, bool) -> std::shared_ptr<const SampleSource> {
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

  static Tokens plan_in(const fs::path& scratch) {
    Tokens tokens{.scratch = scratch, .pieces = {}};
    for (const json& piece : parse_json(read_file(scratch / kPieces), kPieces)) {
      tokens.pieces.push_back(
          {.file = piece.at(0), .begin = piece.at(1), .end = piece.at(2), .is_packed = piece.at(3)});
    }
    return tokens;
  }

  static Tokens counted_in(const fs::path& scratch) {
    Tokens tokens = plan_in(scratch);
    for (std::size_t p = 0; p < tokens.pieces.size(); ++p) {
      tokens.counts.push_back(std::stoll(read_file(tokens.count(p))));
    }
    return tokens;
  }

  [[nodiscard]] bool makes_vocabulary() const {
    return options_.vocabulary_file.empty() && options_.vocabulary != "bytes";
  }
  [[nodiscard]] const fs::path& file_of(const Tokens& tokens, std::size_t piece) const {
    return files_[tokens.pieces[piece].file];
  }

  void count(const Tokens& tokens, std::size_t piece) const {
    const auto words = options_.vocabulary == "characters" ? characters_of : words_of;
    write_words(tokens.words(piece), words(file_of(tokens, piece), tokens.pieces[piece]));
  }

  void write_vocabulary(const Tokens& tokens) const {
    write_file(vocabulary_path_, make_vocabulary(tokens).to_json().dump());
  }

  [[nodiscard]] Vocabulary make_vocabulary(const Tokens& tokens) const {
    if (!options_.vocabulary_file.empty()) {
      Vocabulary given = Vocabulary::load(options_.vocabulary_file);
      if (files_.size() == 1 || given.end_of_text()) return given;
      throw DataError(options_.vocabulary_file +
                          " has no token for the end of a text, which several texts need: it is of one text, make one "
                          "of several",
                      true);
    }
    Words words;
    for (std::size_t p = 0; makes_vocabulary() && p < tokens.pieces.size(); ++p) add_words(tokens.words(p), words);
    Vocabulary made = vocabulary_of(words);
    return files_.size() > 1 ? std::move(made).with_end_of_text() : made;
  }

  [[nodiscard]] Vocabulary vocabulary_of(const Words& words) const {
    if (options_.vocabulary == "bytes") return Vocabulary::of_bytes();
    if (words.empty()) throw DataError(files_.front().string() + " holds no text", true);
    if (options_.vocabulary == "bpe") return Vocabulary::of_merges(train_merges(words, options_.vocabulary_size));
    std::vector<std::string> characters;
    for (const auto& each : words) characters.push_back(each.first);
    return Vocabulary::of_characters(std::move(characters));
  }

  void encode(const Tokens& tokens, std::size_t piece) const {
    const Vocabulary vocabulary = Vocabulary::load(vocabulary_path_);
    const fs::path& file = file_of(tokens, piece);
    TokenWriter out(tokens.tokens(piece), size_of(dtype_for(vocabulary.size())));
    const auto take = [&](std::string_view text) {
      try {
        out.add(vocabulary.encode(text));
      } catch (const ArgumentError& error) {
        throw DataError(file.string() + ": " + error.what(), true);
      }
    };
    for_each_text(
        file, tokens.pieces[piece], [&](std::string_view text) { return vocabulary.complete(text); }, take);
    write_file(tokens.count(piece), std::to_string(out.finish()));
  }

  Files files_;
  TokenOptions options_;
  fs::path vocabulary_path_;
};

}  // namespace

ConversionResult convert_tokens(const Files& files, const TokenOptions& tokens, const ConvertOptions& options) {
  TokenConversion conversion(files, tokens, options);
  return run_conversion(conversion, options);
}

}  // namespace mn::data
