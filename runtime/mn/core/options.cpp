// Boost.Program_options only writes the text of --help. The command line is split here, because each error must show
// the option as the user wrote it, and its origin: the command line, or a file and line.

#include <mn/core/options.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include <boost/program_options.hpp>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

namespace po = boost::program_options;

// Options that every set of options has. They are never written to a file.
constexpr const char* kConfig = "config";
constexpr const char* kHelp = "help";
constexpr const char* kVersion = "version";

// The values of an option that add_flag() has added.
constexpr const char* kOn = "on";
constexpr const char* kOff = "off";
constexpr const char* kFlagValues = "on|off";

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::int64_t whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) throw UsageError("does not fit in 64 bits");
  if (error != std::errc() || end != text.data() + text.size()) throw UsageError("is not a whole number");
  return value;
}

double real_number(const std::string& text) {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) throw UsageError("is not a number");
  return *value;
}

bool asks_for_nothing(const std::string& value) {
  return value.empty() || value == kOff || parse_number<double>(value) == 0.0;
}

/// The shortest text that from_chars() reads back as the same number.
std::string shortest(double value) {
  std::array<char, 32> text = {};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace

void Options::add(const std::string& name, std::int64_t& target, const std::string& help, std::int64_t least,
                  std::int64_t most) {
  auto set = [&target, least, most](const std::string& text) {
    const std::int64_t value = whole_number(text);
    if (value < least) throw UsageError("must be at least " + std::to_string(least));
    if (value > most) throw UsageError("must be at most " + std::to_string(most));
    target = value;
  };
  options_.push_back({name, "N", help, "", "", set, [&target] { return std::to_string(target); }});
}

void Options::add(const std::string& name, double& target, const std::string& help, double least, double most) {
  auto set = [&target, least, most](const std::string& text) {
    const double value = real_number(text);
    if (value < least) throw UsageError("must be at least " + shortest(least));
    if (value > most) throw UsageError("must be at most " + shortest(most));
    target = value;
  };
  options_.push_back({name, "X", help, "", "", set, [&target] { return shortest(target); }});
}

void Options::add(const std::string& name, std::string& target, const std::string& value_name, const std::string& help,
                  std::vector<std::string> choices) {
  auto set = [&target, choices = std::move(choices)](const std::string& text) {
    if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
      throw UsageError("is unknown: use " + join(choices));
    }
    target = text;
  };
  options_.push_back({name, value_name, help, "", "", set, [&target] { return target; }});
}

void Options::add_list(const std::string& name, std::vector<std::string>& target, const std::string& value_name,
                       const std::string& help) {
  auto set = [&target](const std::string& text) {
    if (!text.empty()) target.push_back(text);
  };
  const auto get = [&target] { return join(target); };
  options_.push_back({name, value_name, help, "", "", set, get, [&target] { return target; }});
}

void Options::add_flag(const std::string& name, bool& target, const std::string& help) {
  auto set = [&target](const std::string& text) {
    if (text != kOn && text != kOff) throw UsageError("is neither on nor off");
    target = text == kOn;
  };
  options_.push_back({name, kFlagValues, help, kOn, "", set, [&target] { return target ? kOn : kOff; }});
}

void Options::add_alias(const std::string& alias, const std::string& name, const std::string& bare) {
  const Option actual = known(name, name);
  options_.push_back({alias, actual.value_name, "the same as --" + name, bare, name, actual.set, actual.get});
}

void Options::set_bare(const std::string& name, const std::string& bare) {
  const auto option = std::ranges::find(options_, name, &Option::name);
  option->bare = bare;
}

Options::Action Options::parse(int argc, const char* const* argv, std::vector<std::string>* words) {
  for (Option& option : options_) option.initial = option.get();
  is_parsed_ = true;
  const std::vector<Setting> given = read_command_line(argc, argv, words);
  given_.clear();
  for (const Setting& setting : given) given_.push_back(setting.name);
  const auto asks_for = [&](const char* name) { return std::ranges::find(given, name, &Setting::name) != given.end(); };
  if (asks_for(kHelp)) return Action::kHelp;
  if (asks_for(kVersion)) return Action::kVersion;
  for (const Setting& setting : given) {
    if (setting.name != kConfig) continue;
    for (const Setting& line : read_file(setting.value)) apply(line);
  }
  for (const Setting& setting : given) {
    if (setting.name != kConfig) apply(setting);
  }
  for (const auto& check : checks_) check();
  check_effects(given);
  return Action::kRun;
}

void Options::add_conditions(std::vector<Condition> conditions) {
  conditions_.insert(conditions_.end(), std::make_move_iterator(conditions.begin()),
                     std::make_move_iterator(conditions.end()));
}

const Options::Condition* Options::unmet_condition(const Setting& given) const {
  if (asks_for_nothing(given.value)) return nullptr;
  const auto unmet = std::ranges::find_if(
      conditions_, [&](const Condition& each) { return each.name == given.name && !each.holds(); });
  return unmet == conditions_.end() ? nullptr : &*unmet;
}

void Options::check_effects(const std::vector<Setting>& given) const {
  std::vector<std::string> names;
  std::string otherwise;  // text of the first unmet condition; the error names only options with this text
  for (const Setting& setting : given) {
    const Condition* const unmet = unmet_condition(setting);
    if (unmet == nullptr || (!names.empty() && unmet->otherwise != otherwise)) continue;
    otherwise = unmet->otherwise;
    if (std::ranges::find(names, setting.source) == names.end()) names.push_back(setting.source);
  }
  if (names.empty()) return;
  throw UsageError(join(names) + (names.size() == 1 ? " has" : " have") + " no effect " + otherwise);
}

bool Options::is_given(std::string_view name) const { return std::ranges::find(given_, name) != given_.end(); }

const Options::Option* Options::find(std::string_view name) const {
  const auto option = std::ranges::find(options_, name, &Option::name);
  return option == options_.end() ? nullptr : &*option;
}

const Options::Option& Options::known(const std::string& name, const std::string& shown) const {
  if (const Option* option = find(name)) return *option;
  std::vector<std::string> names = {kConfig, kHelp, kVersion};
  for (const Option& option : options_) names.push_back(option.name);
  const auto near = nearest_name(name, names);
  throw UsageError("unknown option " + shown + "; " + (near ? "did you mean --" + *near + "?" : "--help lists all"));
}

std::vector<Options::Setting> Options::read_command_line(int argc, const char* const* argv,
                                                         std::vector<std::string>* words) const {
  std::vector<Setting> settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      if (words == nullptr) throw UsageError("unexpected argument " + quoted(argv[i]) + "; options begin with --");
      words->emplace_back(word);
      continue;
    }
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string shown(word.substr(0, equals));
    const std::string name = shown.substr(2);
    const bool is_question = name == kHelp || name == kVersion;
    const Option* const option = is_question || name == kConfig ? nullptr : &known(name, shown);
    const std::string bare = option != nullptr ? option->bare : "";
    const bool is_flag = option != nullptr && option->value_name == kFlagValues;
    const std::string_view next = i + 1 < argc ? argv[i + 1] : "--";
    const bool has_value = is_flag        ? next == kOn || next == kOff
                           : bare.empty() ? !next.starts_with("--")
                                          : !next.empty() && !next.starts_with('-');
    std::string value;
    if (equals < word.size()) {
      value = word.substr(equals + 1);
    } else if (!is_question) {
      if (!has_value && bare.empty()) throw UsageError(shown + " needs a value");
      value = has_value ? argv[++i] : bare;
    }
    settings.push_back({name, value, shown});
  }
  return settings;
}

std::vector<Options::Setting> Options::read_file(const std::filesystem::path& path) const {
  std::ifstream file(path);
  std::vector<Setting> settings;
  std::string raw;
  for (int number = 1; std::getline(file, raw); ++number) {
    const std::string line(trimmed(raw));
    if (line.empty() || line[0] == '#' || line[0] == ';' || line[0] == '[') continue;
    const std::string position = path.string() + ":" + std::to_string(number);
    const auto equals = line.find('=');
    if (equals == std::string::npos)
      throw UsageError(position + ": " + quoted(line) + " is not of the form name = value");
    const std::string name(trimmed(std::string_view(line).substr(0, equals)));
    known(name, quoted(name) + " in " + position);
    settings.push_back({name, std::string(trimmed(std::string_view(line).substr(equals + 1))), position + ": " + name});
  }
  // Reading stops before the end of FILE if, for example, FILE is a folder, which can be opened but not read.
  if (!file.eof()) throw UsageError("--config: cannot read " + path.string());
  return settings;
}

void Options::apply(const Setting& setting) const {
  try {
    find(setting.name)->set(setting.value);
  } catch (const UsageError& error) {
    throw UsageError(setting.source + " " + quoted(setting.value) + " " + error.what());
  }
}

std::string Options::help() const {
  po::options_description description("options", 110, 60);
  auto add = description.add_options();
  for (const Option& option : options_) {
    auto* value = po::value<std::string>()->value_name(option.value_name);
    if (!option.bare.empty()) value->implicit_value(option.bare);
    if (option.target.empty() && !option.get().empty()) value->default_value(option.get());
    add(option.name.c_str(), value, option.help.c_str());
  }
  add(kConfig, po::value<std::string>()->value_name("FILE"), "read options from FILE, e.g. an earlier OUT/config.ini");
  add(kHelp, "print this and exit")(kVersion, "print the versions of mn and of what it uses, and exit");
  OutText text;
  text << usage_ << "\n\n" << description;
  return text.str();
}

std::string Options::ini() const {
  std::string text;
  for (const Option& option : options_) {
    if (!option.target.empty()) continue;
    const std::string value = option.get();
    const auto is_idle = [&](const Condition& each) { return each.name == option.name && !each.holds(); };
    if (is_parsed_ && std::ranges::any_of(conditions_, is_idle)) text += "# no effect in this run\n";
    if (is_parsed_ && value != option.initial) text += "# default: " + one_line(option.initial) + "\n";
    std::vector<std::string> lines = option.items ? option.items() : std::vector<std::string>{value};
    if (lines.empty()) lines.emplace_back();
    for (const std::string& line : lines) text += option.name + " = " + one_line(line) + "\n";
  }
  return text;
}

}  // namespace mn
