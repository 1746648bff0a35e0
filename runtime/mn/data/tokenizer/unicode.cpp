// Normalization form C works on stretches: a character that starts one neither combines with earlier characters nor
// changes alone, so only stretches with another character are decomposed, ordered and composed.
#include <mn/data/tokenizer/unicode.hpp>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include <boost/locale/utf.hpp>

#include <mn/data/tokenizer/unicode_tables.hpp>

namespace mn::data {
namespace {

namespace utf = boost::locale::utf;

constexpr char32_t kCharacters = 0x110000;
constexpr char32_t kFirstJoining = 0x300;  // no earlier character joins another one

/// Reads the numbers of a table, each in groups of 5 bits.
class TableReader {
 public:
  explicit TableReader(std::string_view table) : table_(table) {}
  [[nodiscard]] bool has_more() const { return at_ < table_.size(); }
  char32_t next() {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char32_t number = 0;
    for (int shift = 0;; shift += 5) {
      const auto group = static_cast<char32_t>(kDigits.find(table_[at_++]));
      number |= (group & 31) << shift;
      if (group < 32) return number;
    }
  }

 private:
  std::string_view table_;
  std::size_t at_ = 0;
};

/// [kCharacters] the category of each character
std::vector<std::uint8_t> read_categories() {
  constexpr std::array<std::uint8_t, 9> kBits = {
      0, kUpper | kWord, kLower | kWord, kOtherLetter | kWord, kMark | kWord, kNumber | kWord, kNumber, kSpace, kWord};
  std::vector<std::uint8_t> categories;
  categories.reserve(kCharacters);
  for (TableReader runs(kCategoryRuns); runs.has_more();) {
    const char32_t count = runs.next();
    categories.insert(categories.end(), count, kBits[runs.next()]);
  }
  return categories;
}

struct Forms {
  struct Parts {
    char32_t first, second;  // second is 0 if a single character replaces the character
  };
  static std::uint64_t key(char32_t first, char32_t second) { return std::uint64_t{first} << 32 | second; }

  std::unordered_map<char32_t, std::uint8_t> classes;  // combining classes above 0
  std::unordered_map<char32_t, Parts> parts;
  std::unordered_map<std::uint64_t, char32_t> composed;  // by key()
  std::vector<bool> joins;                               // [kCharacters] false: the character may start a stretch
};

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;

Forms read_forms() {
  Forms forms;
  forms.joins.resize(kCharacters);
  char32_t at = 0;
  for (TableReader table(kCombiningClasses); table.has_more();) {
    at += table.next();
    forms.classes[at] = static_cast<std::uint8_t>(table.next());
    forms.joins[at] = true;
  }
  at = 0;
  for (TableReader table(kDecompositions); table.has_more();) {
    at += table.next();
    const char32_t first = table.next(), second = table.next();
    forms.parts[at] = {first, second};
    if (table.next() == 1) {
      forms.composed[Forms::key(first, second)] = at;
      forms.joins[second] = true;
    } else {
      forms.joins[at] = true;
    }
  }
  for (char32_t vowel = 0; vowel < kVowels; ++vowel) forms.joins[kVowel + vowel] = true;
  for (char32_t trail = 1; trail < kTrails; ++trail) forms.joins[kTrail + trail] = true;
  return forms;
}

const Forms& forms() {
  static const Forms kForms = read_forms();
  return kForms;
}

std::uint8_t class_of(char32_t character) {
  const auto found = forms().classes.find(character);
  return found == forms().classes.end() ? 0 : found->second;
}

void decompose(char32_t character, std::vector<char32_t>& out) {
  if (character - kSyllable < kSyllables) {
    const char32_t index = character - kSyllable;
    out.push_back(kLead + index / (kVowels * kTrails));
    out.push_back(kVowel + index / kTrails % kVowels);
    if (index % kTrails != 0) out.push_back(kTrail + index % kTrails);
    return;
  }
  const auto found = forms().parts.find(character);
  if (found == forms().parts.end()) return out.push_back(character);
  decompose(found->second.first, out);
  if (found->second.second != 0) decompose(found->second.second, out);
}

/// The composition of two characters; 0 if there is none.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kTrails;
  }
  const bool has_no_trail = first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0;
  if (has_no_trail && second - kTrail - 1 < kTrails - 1) return first + second - kTrail;
  const auto found = forms().composed.find(Forms::key(first, second));
  return found == forms().composed.end() ? 0 : found->second;
}

void append(std::string& text, char32_t character) {
  std::array<char, 4> bytes{};
  const char* end = utf::utf_traits<char>::encode(character, bytes.data());
  text.append(bytes.data(), static_cast<std::size_t>(end - bytes.data()));
}

void compose_stretch(const std::vector<char32_t>& stretch, std::string& out) {
  std::vector<char32_t> parts;
  for (const char32_t character : stretch) decompose(character, parts);
  for (auto first = parts.begin(); first != parts.end();) {
    const auto is_starter = [](char32_t character) { return class_of(character) == 0; };
    const auto end = std::find_if(first, parts.end(), is_starter);
    std::stable_sort(first, end, [](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
    first = end == parts.end() ? end : end + 1;
  }
  std::size_t starter = parts.size(), to = 0;
  int last_class = -1;  // of the last character after the starter; −1: none
  for (const char32_t part : parts) {
    const int own = class_of(part);
    const char32_t both = starter < to && last_class < own ? compose(parts[starter], part) : 0;
    if (both != 0) {
      parts[starter] = both;
      continue;
    }
    if (own == 0) starter = to;
    last_class = own == 0 ? -1 : own;
    parts[to++] = part;
  }
  for (std::size_t i = 0; i < to; ++i) append(out, parts[i]);
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) noexcept {
  static const std::vector<std::uint8_t> kCategories = read_categories();
  if (at >= text.size()) return {};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {kCategories[byte], 1};
  const char* end = text.data() + at;
  const utf::code_point character = utf::utf_traits<char>::decode(end, text.data() + text.size());
  if (character == utf::illegal || character == utf::incomplete) return {0, 1};
  return {kCategories[character], static_cast<std::uint8_t>(end - text.data() - at)};
}

std::string nfc(std::string_view text) {
  std::string out;
  std::vector<char32_t> stretch;
  bool joined = false;                        // whether the stretch has a character that joins the first one
  std::size_t begin = 0, at = 0, copied = 0;  // of the stretch; of the next character; end of what `out` has
  const auto end_stretch = [&] {
    if (joined) {
      out.append(text, copied, begin - copied);
      compose_stretch(stretch, out);
      copied = at;
    }
    stretch.clear();
    joined = false;
    begin = at;
  };
  while (at < text.size()) {
    const char* end = text.data() + at;
    const utf::code_point character = utf::utf_traits<char>::decode(end, text.data() + text.size());
    const bool is_valid = character != utf::illegal && character != utf::incomplete;
    const bool joins = is_valid && character >= kFirstJoining && forms().joins[character];
    if (!joins) end_stretch();
    if (is_valid) stretch.push_back(character);
    joined = joined || joins;
    at = is_valid ? static_cast<std::size_t>(end - text.data()) : at + 1;
    if (!is_valid) end_stretch();
  }
  end_stretch();
  out.append(text, copied);
  return out;
}

}  // namespace mn::data
