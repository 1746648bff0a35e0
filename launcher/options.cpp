#include "options.hpp"

#include <algorithm>

#include <boost/program_options.hpp>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/suggest.hpp>

#include "option_table.hpp"

namespace mn::launcher {
namespace {

namespace po = boost::program_options;

const OptionText* find_option(std::string_view name) {
  const auto found = std::ranges::find(kOptions, name, &OptionText::name);
  return found == std::end(kOptions) ? nullptr : &*found;
}

[[noreturn]] void unknown_option(const std::string& word) {
  const std::string name = word.substr(2, word.find('=') - 2);
  std::vector<std::string> names;
  for (const auto& option : kOptions) names.emplace_back(option.name);
  const auto near = word.starts_with("--") ? nearest_name(name, names) : std::nullopt;
  throw UsageError("unknown option " + word.substr(0, word.find('=')) +
                   (near ? "; did you mean --" + *near + "?" : "; mnlaunch --help lists all"));
}

/// Index of PROGRAM: mnlaunch's options end before it, and everything after it is the program's.
int index_of_program(int argc, const char* const* argv) {
  int i = 1;
  for (; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") return i + 1;
    if (word == "-h") continue;
    if (word.size() < 2 || word[0] != '-') return i;
    const OptionText* option = word.starts_with("--") ? find_option(word.substr(2, word.find('=') - 2)) : nullptr;
    if (option == nullptr) unknown_option(word);
    if (*option->value != '\0' && word.find('=') == std::string::npos) ++i;
  }
  return std::min(i, argc);
}

std::string one_of(const po::variables_map& given, const std::string& name, const std::string& fallback) {
  if (given.count(name) == 0) return fallback;
  const auto value = given[name].as<std::vector<std::string>>().back();
  const std::string choices = find_option(name)->value;
  std::size_t begin = 0;
  while (begin <= choices.size()) {
    const std::size_t bar = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, bar - begin) == value) return value;
    begin = bar + 1;
  }
  throw UsageError("--" + name + " is \"" + value + "\": use one of " + choices);
}

po::variables_map read(int count, const char* const* argv) {
  po::options_description known;
  for (const auto& option : kOptions) {
    const std::string names = std::string(option.name) == "help" ? "help,h" : option.name;
    if (*option.value == '\0') {
      known.add_options()(names.c_str(), "");
    } else {
      known.add_options()(names.c_str(), po::value<std::vector<std::string>>()->composing(), "");
    }
  }
  const std::vector<std::string> words(argv + 1, argv + count);
  po::variables_map given;
  try {
    using namespace po::command_line_style;
    po::store(po::command_line_parser(words).options(known).style(unix_style & ~allow_guessing).run(), given);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  return given;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  const int program = index_of_program(argc, argv);
  const bool dashes = program > 1 && std::string(argv[program - 1]) == "--";
  const auto given = read(dashes ? program - 1 : program, argv);

  Options options;
  if (given.count("version") != 0) options.action = Action::kVersion;
  if (given.count("help") != 0) options.action = Action::kHelp;
  const std::string check = one_of(given, "check", "warn");
  options.check = check == "off" ? CheckLevel::kOff : check == "strict" ? CheckLevel::kStrict : CheckLevel::kWarn;
  if (given.count("check-file") != 0) {
    for (const auto& path : given["check-file"].as<std::vector<std::string>>()) options.check_files.emplace_back(path);
  }
  if (given.count("output") != 0) {
    options.output = given["output"].as<std::vector<std::string>>().back();
    if (options.output.empty()) throw UsageError("--output is empty: name a folder");
  }
  options.doctor = given.count("doctor") != 0;
  options.bind = one_of(given, "bind", "auto") == "auto";
  options.one_gpu_visible = one_of(given, "gpu-visibility", "all") == "one";
  options.oversubscribe_gpu = given.count("oversubscribe-gpu") != 0;
  options.dry_run = given.count("dry-run") != 0;
  options.show = given.count("show") != 0 || options.dry_run;
  options.json = given.count("json") != 0;
  options.program.assign(argv + program, argv + argc);
  if (options.program.empty() && options.action == Action::kLaunch && !options.doctor && !options.dry_run) {
    throw UsageError("no PROGRAM given; usage: mnlaunch [options] [--] PROGRAM [ARG...]");
  }
  return options;
}

}  // namespace mn::launcher
