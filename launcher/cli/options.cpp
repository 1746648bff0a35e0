#include "cli/options.hpp"

#include <algorithm>
#include <sstream>

#include <boost/program_options.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/suggest.hpp>

namespace mn::launcher {
namespace {

namespace po = boost::program_options;

bool is_option(const std::string& word) { return word != "--" && word.size() >= 2 && word[0] == '-'; }

[[noreturn]] void unknown_option(const std::string& word) {
  const std::string name = word.substr(2, word.find('=') - 2);
  Words names;
  for (const auto& row : option_table()) names.emplace_back(row.name);
  const auto near = word.starts_with("--") ? nearest_name(name, names) : std::nullopt;
  throw UsageError("unknown option " + word.substr(0, word.find('=')) +
                   (near ? "; did you mean --" + *near + "?" : "; mnlaunch --help lists all"));
}

/// The number of words before PROGRAM. Throws UsageError if an option does not exist.
std::size_t count_options(const Words& words) {
  std::size_t count = 0;
  for (; count < words.size() && is_option(words[count]); ++count) {
    const std::string& word = words[count];
    if (word == "-h") continue;
    const std::size_t equals = word.find('=');
    const OptionRow* row = word.starts_with("--") ? find_option(word.substr(2, equals - 2)) : nullptr;
    if (row == nullptr) unknown_option(word);
    if (!row->is_flag() && equals == std::string::npos) ++count;  // the next word is the option's value
  }
  return std::min(count, words.size());
}

/// The values given for each option of the table. The value of a flag is an empty text.
class OptionValues {
 public:
  explicit OptionValues(const Words& words) : count_(count_options(words)) {
    po::options_description known;
    for (const auto& row : option_table()) {
      const std::string names = std::string(row.name) == "help" ? "help,h" : row.name;
      auto* values = po::value<Words>()->composing();  // an option may be given several times
      known.add_options()(names.c_str(), row.is_flag() ? values->zero_tokens() : values, "");
    }
    try {
      using namespace po::command_line_style;
      const Words options(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count_));
      po::store(po::command_line_parser(options).options(known).style(unix_style & ~allow_guessing).run(), map_);
    } catch (const po::error& error) {
      throw UsageError(error.what());
    }
  }

  [[nodiscard]] std::size_t word_count() const noexcept { return count_; }
  [[nodiscard]] bool has(const std::string& name) const { return map_.count(name) != 0; }
  [[nodiscard]] Options options() const {
    Options options;
    for (const auto& row : option_table()) {
      if (has(row.name)) row.apply(options, row, row.is_flag() ? Words{""} : map_[row.name].as<Words>());
    }
    return options;
  }

 private:
  std::size_t count_;
  po::variables_map map_;
};

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

/// Throws UsageError if an option on the command line lacks its companion. Not for presets, which serve all starts.
void require_companions(const OptionValues& on_line, const Options& options) {
  if (on_line.has("expect") && options.action != Action::kNodeCheck) throw UsageError("--expect needs --node-check");
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
  const bool has_other = !options.program.empty() || on_line.has("doctor") || on_line.has("dry-run");
  if (options.action == Action::kNodeCheck && has_other)
    throw UsageError("--node-check looks at this node alone: leave out PROGRAM, --doctor and --dry-run");
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
