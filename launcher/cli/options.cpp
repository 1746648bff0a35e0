#include "cli/options.hpp"

#include <algorithm>
#include <span>
#include <sstream>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/suggest.hpp>

#include "cli/option_table.hpp"

namespace mn::launcher {
namespace {

/// The values of each row of the option table, by position; no values: the option was not given.
class OptionValues {
 public:
  /// Takes the options from the beginning of `words`. Throws UsageError.
  explicit OptionValues(std::span<const std::string> words) : values_(option_table().size()) {
    while (count_ < words.size() && is_option(words[count_])) take(words);
  }

  /// Number of words before PROGRAM: the program's own options follow its name.
  [[nodiscard]] std::size_t word_count() const noexcept { return count_; }
  [[nodiscard]] bool has(std::string_view name) const {
    return !values_[static_cast<std::size_t>(find_option(name) - option_table().data())].empty();
  }
  [[nodiscard]] Options options() const {
    Options options;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const OptionRow& row = option_table()[i];
      if (!values_[i].empty()) row.apply(options, row, values_[i]);
    }
    return options;
  }

 private:
  static bool is_option(const std::string& word) { return word != "--" && word.size() >= 2 && word[0] == '-'; }

  void take(std::span<const std::string> words) {
    const std::string word = words[count_] == "-h" ? "--help" : words[count_];
    const std::size_t equals = word.find('=');
    const OptionRow* row = word.starts_with("--") ? find_option(word.substr(2, equals - 2)) : nullptr;
    if (row == nullptr) unknown_option(word);
    ++count_;
    const bool has_value = equals != std::string::npos;
    if (row->is_flag() && has_value) throw UsageError(std::string("--") + row->name + " takes no value");
    std::string value = has_value ? word.substr(equals + 1) : "";
    if (!row->is_flag() && !has_value) {
      // A known option in the place of the value means that the value was forgotten.
      const bool is_there = count_ < words.size() && !(is_option(words[count_]) && is_known(words[count_]));
      if (!is_there) throw UsageError(std::string("--") + row->name + " has no value: give " + row->value);
      value = words[count_++];
    }
    values_[static_cast<std::size_t>(row - option_table().data())].push_back(std::move(value));
  }

  static bool is_known(const std::string& word) {
    return word == "-h" || (word.starts_with("--") && find_option(word.substr(2, word.find('=') - 2)) != nullptr);
  }

  [[noreturn]] static void unknown_option(const std::string& word) {
    const std::string name = word.substr(2, word.find('=') - 2);
    Words names;
    for (const auto& row : option_table()) names.emplace_back(row.name);
    const auto near = word.starts_with("--") ? nearest_name(name, names) : std::nullopt;
    throw UsageError("unknown option " + word.substr(0, word.find('=')) +
                     (near ? "; did you mean --" + *near + "?" : "; mnlaunch --help lists all"));
  }

  std::vector<Words> values_;
  std::size_t count_ = 0;
};

/// Throws UsageError that names the preset if a word is wrong.
Words words_of(const Preset& preset) {
  Words words;
  std::istringstream lines(preset.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line.substr(0, line.find('#')));
    for (std::string word; text >> word;) words.push_back(word);
  }
  try {
    const OptionValues values(words);
    if (const std::size_t count = values.word_count(); count < words.size()) {
      throw UsageError("\"" + words[count] + "\" is not an option; PROGRAM belongs on the command line");
    }
    static_cast<void>(values.options());
  } catch (const UsageError& error) {
    throw UsageError(preset.name + ": " + error.what());
  }
  return words;
}

/// A preset serves starts of all kinds, so an option that has no effect is an error on the command line alone.
void require_companions(const OptionValues& on_line, const Options& options) {
  if (on_line.has("append") && options.output.empty()) throw UsageError("--append needs --output");
  for (const char* report : {"save", "against", "history"}) {
    if (on_line.has(report) && !options.doctor) throw UsageError(std::string("--") + report + " needs --doctor");
  }
}

}  // namespace

std::vector<std::string> words_of_all_ranks(const Options& options) {
  const Options usual;
  std::vector<std::string> words;
  if (options.check == CheckLevel::kOff) words.emplace_back("--check off");
  if (options.check == CheckLevel::kStrict) words.emplace_back("--check strict");
  for (const auto& file : options.check_files) words.push_back("--check-file " + file.string());
  if (options.doctor) words.emplace_back("--doctor");
  if (options.dry_run) words.emplace_back("--dry-run");
  if (options.ports != usual.ports) words.push_back("--ports " + to_text(options.ports.front()));
  return words;
}

Options parse_options(int argc, const char* const* argv, const std::vector<Preset>& presets) {
  const Words line(argv + 1, argv + argc);
  const OptionValues on_line(line);
  std::size_t count = on_line.word_count();
  Words words;
  for (const auto& preset : presets) {
    for (const auto& word : words_of(preset)) words.push_back(word);
  }
  words.insert(words.end(), line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count));
  Options options = OptionValues(words).options();
  require_companions(on_line, options);
  if (count < line.size() && line[count] == "--") ++count;
  options.program.assign(line.begin() + static_cast<std::ptrdiff_t>(count), line.end());
  const bool has_program = !options.program.empty() && !options.program.front().empty();
  if (!has_program && options.action == Action::kLaunch && !options.doctor && !options.dry_run) {
    throw UsageError("no PROGRAM given; usage: mnlaunch [options] [--] PROGRAM [ARG...]");
  }
  return options;
}

std::vector<Preset> presets_of_system() {
  constexpr const char* kFile = "/etc/mn/mnlaunch.conf";
  constexpr const char* kVariable = "MNLAUNCH_OPTIONS";
  constexpr const char* kTimeout = "MN_LAUNCH_TIMEOUT";
  std::vector<Preset> presets;
  std::error_code error;
  if (std::filesystem::exists(kFile, error)) presets.push_back({kFile, read_file(kFile)});
  if (const auto text = environment(kTimeout)) presets.push_back({kTimeout, "--timeout " + *text});
  if (const auto text = environment(kVariable)) presets.push_back({kVariable, *text});
  return presets;
}

}  // namespace mn::launcher
