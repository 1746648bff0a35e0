#include "cli/options.hpp"

#include <algorithm>
#include <sstream>

#include <boost/program_options.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/ranks.hpp>
#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>

#include "checks/checks.hpp"
#include "cli/option_table.hpp"
#include "cli/output_pattern.hpp"

namespace mn::launcher {
namespace {

namespace po = boost::program_options;
using Words = std::vector<std::string>;

const OptionText* find_option(std::string_view name) {
  const auto found = std::ranges::find(kOptions, name, &OptionText::name);
  return found == std::end(kOptions) ? nullptr : &*found;
}

[[noreturn]] void unknown_option(const std::string& word) {
  const std::string name = word.substr(2, word.find('=') - 2);
  Words names;
  for (const auto& option : kOptions) names.emplace_back(option.name);
  const auto near = word.starts_with("--") ? nearest_name(name, names) : std::nullopt;
  throw UsageError("unknown option " + word.substr(0, word.find('=')) +
                   (near ? "; did you mean --" + *near + "?" : "; mnlaunch --help lists all"));
}

/// Number of words before PROGRAM: mnlaunch's options end before it, and everything after it is the program's.
std::size_t count_options(const Words& words) {
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h") continue;
    if (word == "--" || word.size() < 2 || word[0] != '-') return i;
    const OptionText* option = word.starts_with("--") ? find_option(word.substr(2, word.find('=') - 2)) : nullptr;
    if (option == nullptr) unknown_option(word);
    if (*option->value != '\0' && word.find('=') == std::string::npos) ++i;
  }
  return std::min(i, words.size());
}

/// The options that were given, as text.
class Given {
 public:
  explicit Given(const Words& words) {
    po::options_description known;
    for (const auto& option : kOptions) {
      const std::string names = std::string(option.name) == "help" ? "help,h" : option.name;
      auto* values = po::value<Words>()->composing();  // so that each may be given more than once
      known.add_options()(names.c_str(), *option.value == '\0' ? values->zero_tokens() : values, "");
    }
    try {
      using namespace po::command_line_style;
      po::store(po::command_line_parser(words).options(known).style(unix_style & ~allow_guessing).run(), map_);
    } catch (const po::error& error) {
      throw UsageError(error.what());
    }
  }

  [[nodiscard]] bool has(const std::string& name) const { return map_.count(name) != 0; }
  [[nodiscard]] Words all(const std::string& name) const { return has(name) ? map_[name].as<Words>() : Words(); }
  /// The last value; empty if there is none. Throws UsageError if it is given as nothing.
  [[nodiscard]] std::string last(const std::string& name) const {
    if (!has(name)) return "";
    const std::string value = all(name).back();
    if (value.empty()) throw UsageError("--" + name + " is empty: give " + find_option(name)->value);
    return value;
  }
  /// Throws UsageError unless the value is one of the choices of the table.
  [[nodiscard]] std::string one_of(const std::string& name, const std::string& fallback) const {
    if (!has(name)) return fallback;
    const std::string value = all(name).back();
    const std::string choices = find_option(name)->value;
    const auto known = split(choices, '|');
    if (std::ranges::find(known, value) == known.end()) {
      throw UsageError("--" + name + " is \"" + value + "\": use one of " + choices);
    }
    return value;
  }
  /// Names of checks, each of which may be a list. Throws UsageError that lists the known ones.
  [[nodiscard]] Words checks(const std::string& name) const {
    Words names;
    for (const auto& list : all(name)) {
      for (const auto check : split(list, ',')) {
        if (check.empty()) throw UsageError("--" + name + " \"" + list + "\" has an empty name");
        require_known(name, names.emplace_back(check));
      }
    }
    return names;
  }

 private:
  static void require_known(const std::string& option, const std::string& check) {
    const Words known = check_names();
    if (std::ranges::find(known, check) != known.end()) return;
    throw UsageError("--" + option + " " + check + ": there is no such check; there are " + join(known));
  }

  po::variables_map map_;
};

std::vector<CpuSet> parse_cpu_map(const std::string& text) {
  std::vector<CpuSet> map;
  if (text.empty()) return map;
  for (const auto list : split(text, ':')) {
    const auto cpus = parse_cpus_strictly(list);
    if (!cpus)
      throw UsageError("--cpu-map: \"" + std::string(list) + "\" is not a list of CPUs; write 0-7,64-71:8-15,72-79");
    map.push_back(*cpus);
  }
  return map;
}

void read_checks(const Given& given, Options& options) {
  const std::string level = given.one_of("check", "warn");
  options.check = level == "off" ? CheckLevel::kOff : level == "strict" ? CheckLevel::kStrict : CheckLevel::kWarn;
  options.skip = given.checks("skip");
  options.warn = given.checks("warn");
  for (const auto& path : given.all("check-file")) options.check_files.emplace_back(path);
  options.doctor = given.has("doctor");
  options.save = given.last("save");
  options.against = given.last("against");
  options.history = given.last("history");
}

PortRange parse_ports(const std::string& text) {
  const auto ends = split(text, '-');
  const auto first = parse_rank(std::string(ends.front()));
  const auto last = parse_rank(std::string(ends.back()));
  if (ends.size() != 2 || !first || !last || *first < 1024 || *last > 65535 || *first > *last) {
    throw UsageError("--ports is \"" + text + "\": give FIRST-LAST, from 1024 to 65535");
  }
  return {*first, *last};
}

void read_network(const Given& given, Options& options) {
  if (const std::string timeout = given.last("timeout"); !timeout.empty()) {
    options.timeout_s = parse_rank(timeout).value_or(0);
    if (options.timeout_s < 1) throw UsageError("--timeout is \"" + timeout + "\": give seconds, at least 1");
  }
  if (const std::string ports = given.last("ports"); !ports.empty()) options.ports = {parse_ports(ports)};
}

void read_binding(const Given& given, Options& options) {
  options.bind = given.one_of("bind", "auto") == "auto";
  options.cpu_map = parse_cpu_map(given.last("cpu-map"));
  options.bind_memory = given.one_of("mem-bind", "none") == "local";
  options.bind_threads = given.has("bind-threads");
  options.bind_nic = given.has("bind-nic");
  options.one_gpu_visible = given.one_of("gpu-visibility", "all") == "one";
  options.oversubscribe_gpu = given.has("oversubscribe-gpu");
}

void read_output(const Given& given, Options& options) {
  options.output = given.last("output");
  check_output_pattern(options.output);
  options.append = given.has("append");
  options.label = given.has("label");
  options.dry_run = given.has("dry-run");
  options.show = given.has("show") || options.dry_run;
  options.json = given.has("json");
}

/// All but PROGRAM.
Options options_of(const Words& words) {
  const Given given(words);
  Options options;
  if (given.has("version")) options.action = Action::kVersion;
  if (given.has("help")) options.action = Action::kHelp;
  read_checks(given, options);
  read_network(given, options);
  read_binding(given, options);
  read_output(given, options);
  return options;
}

/// Throws UsageError that names the preset where one of its words is wrong.
Words words_of(const Preset& preset) {
  Words words;
  std::istringstream lines(preset.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line.substr(0, line.find('#')));
    for (std::string word; text >> word;) words.push_back(word);
  }
  try {
    const std::size_t count = count_options(words);
    if (count < words.size()) {
      throw UsageError("\"" + words[count] + "\" is not an option; PROGRAM belongs on the command line");
    }
    static_cast<void>(options_of(words));
  } catch (const UsageError& error) {
    throw UsageError(preset.name + ": " + error.what());
  }
  return words;
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
  const std::size_t count = count_options(line);
  Words words;
  for (const auto& preset : presets) {
    for (const auto& word : words_of(preset)) words.push_back(word);
  }
  words.insert(words.end(), line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count));
  Options options = options_of(words);
  // A preset is for starts of all kinds.
  const Given given({line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count)});
  if (given.has("append") && options.output.empty()) throw UsageError("--append needs --output");
  for (const char* report : {"save", "against", "history"}) {
    if (given.has(report) && !options.doctor) throw UsageError(std::string("--") + report + " needs --doctor");
  }
  const bool dashes = count < line.size() && line[count] == "--";
  options.program.assign(line.begin() + static_cast<std::ptrdiff_t>(count + (dashes ? 1 : 0)), line.end());
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
