/// The options of a job. A program declares each option once. Options are read from the command line and a file,
/// checked, printed and written to a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mn {

/// A set of options, each with a variable. The variable's value at the time of add() is the option's default.
///
/// An option is written as "--name value" or "--name=value". Names can't be abbreviated. --config FILE reads a file
/// with lines "name = value". Lines that begin with # or ; are comments, and [sections] are ignored. A setting in the
/// file replaces the default, and a setting on the command line replaces both, wherever --config stands. Within the
/// file, and within the command line, the last setting wins. Every set of options has --help and --version.
class Options {
 public:
  /// What the command line asks the program to do: to run, or to print the help or the version.
  enum class Action { kRun, kHelp, kVersion };

  /// `usage` is the first line of the help, for example "jobs/mnist [options]: trains …".
  explicit Options(std::string usage) : usage_(std::move(usage)) {}

  /// Adds an option for a whole number in [least, most].
  void add(const std::string& name, std::int64_t& target, const std::string& help,
           std::int64_t least = std::numeric_limits<std::int64_t>::min(),
           std::int64_t most = std::numeric_limits<std::int64_t>::max());
  /// Adds an option for a number in [least, most].
  void add(const std::string& name, double& target, const std::string& help,
           double least = std::numeric_limits<double>::lowest(), double most = std::numeric_limits<double>::max());
  /// Adds an option for one of `choices`, or for any text if `choices` is empty. In the help, `value_name` stands for
  /// the value.
  void add(const std::string& name, std::string& target, const std::string& value_name, const std::string& help,
           std::vector<std::string> choices = {});
  /// Adds an option for a list of texts. Each --name adds its text to the list; an empty text adds nothing.
  void add_list(const std::string& name, std::vector<std::string>& target, const std::string& value_name,
                const std::string& help);
  /// Adds an option that is on or off. --name alone means on; only the next word "on" or "off" is its value.
  void add_flag(const std::string& name, bool& target, const std::string& help);
  /// Adds a second name for an option. If `bare` is not empty, --alias alone means --name=bare.
  void add_alias(const std::string& alias, const std::string& name, const std::string& bare = "");
  /// Allows the option without a value: from now on --name alone means --name=bare.
  void set_bare(const std::string& name, const std::string& bare);
  /// Adds a check, which parse() calls at its end. `check` must throw UsageError if the variables contradict each
  /// other.
  void add_check(std::function<void()> check) { checks_.push_back(std::move(check)); }

  /// If this condition does not hold, an option has no effect.
  struct Condition {
    std::string name;             ///< name of the option
    std::function<bool()> holds;  ///< true if the option has an effect with the present variables
    std::string otherwise;        ///< end of the line "--NAME has no effect …", such as "without --schedule cosine"
  };
  /// Adds conditions that parse() tests after the checks. If the command line sets an option whose condition does not
  /// hold, parse() throws a UsageError with the line "--NAME has no effect …", which names all such options with an
  /// equal `otherwise`. The values 0, off and empty are always allowed. Settings in a file are allowed, too, because
  /// OUT/config.ini holds every option.
  void add_conditions(std::vector<Condition> conditions);

  /// True if the command line sets the option, to any value. Can be called in checks and after parse().
  [[nodiscard]] bool is_given(std::string_view name) const;
  /// True if there is an option --NAME.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Sets the variables. Throws a UsageError that names the wrong option and its fault, and for an unknown option the
  /// nearest known option. Words that are neither options nor options' values are appended to `words`; if `words` is
  /// null, such a word is an error.
  [[nodiscard]] Action parse(int argc, const char* const* argv, std::vector<std::string>* words = nullptr);

  /// The text of --help: the usage, and every option.
  [[nodiscard]] std::string help() const;
  /// Every option as an item of man(7), for the OPTIONS section of a manual page. `computed` has the names of options
  /// whose defaults depend on the machine. These defaults are omitted.
  [[nodiscard]] std::string manual(const std::vector<std::string>& computed = {}) const;
  /// Every option with its present value, in the form of a --config file. Comments give the default of each option
  /// that parse() has changed, and mark the options without an effect (add_conditions()).
  [[nodiscard]] std::string ini() const;

 private:
  struct Option {
    std::string name;
    std::string value_name;
    std::string help;
    std::string bare;    // value that --name alone stands for; empty: --name needs a value
    std::string target;  // the option that this alias means; empty: this is not an alias
    std::function<void(const std::string& value)> set;
    std::function<std::string()> get;
    std::function<std::vector<std::string>()> items = {};  // for a list: returns the items, each a line of ini()
    std::string initial = {};                              // default: the value before parse()
  };
  struct Setting {
    std::string name;
    std::string value;
    std::string source;  // the setting's origin, for messages: "--epoch" or "epoch in FILE"
  };

  const Option* find(std::string_view name) const;
  const Option& known(const std::string& name, const std::string& shown) const;
  std::vector<Setting> read_command_line(int argc, const char* const* argv, std::vector<std::string>* words) const;
  std::vector<Setting> read_file(const std::filesystem::path& path) const;
  void apply(const Setting& setting) const;
  const Condition* unmet_condition(const Setting& given) const;
  void check_effects(const std::vector<Setting>& given) const;

  std::string usage_;
  std::vector<Option> options_;
  std::vector<std::function<void()>> checks_;
  std::vector<Condition> conditions_;
  std::vector<std::string> given_;  // names of the options on the command line
  bool is_parsed_ = false;
};

}  // namespace mn
