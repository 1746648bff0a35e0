/// A job's options: declared once; read from the command line and a file, checked, printed and written back.
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

/// Options bound to variables. A variable's value at the time of add() is the default.
///
/// Forms: --name value, --name=value. Names are never guessed from abbreviations. --config FILE holds lines "name =
/// value" (# and ; begin a comment line, [sections] are ignored). Precedence, weakest first: default, file, command
/// line; within file and command line the last setting wins, wherever --config stands. Every set knows --help and
/// --version.
class Options {
 public:
  /// The command line's request.
  enum class Action { kRun, kHelp, kVersion };

  /// `usage` heads the help, e.g. "jobs/mnist [options]: trains …".
  explicit Options(std::string usage) : usage_(std::move(usage)) {}

  /// A whole number in [least, most].
  void add(const std::string& name, std::int64_t& target, const std::string& help,
           std::int64_t least = std::numeric_limits<std::int64_t>::min(),
           std::int64_t most = std::numeric_limits<std::int64_t>::max());
  /// A number in [least, most].
  void add(const std::string& name, double& target, const std::string& help,
           double least = std::numeric_limits<double>::lowest(), double most = std::numeric_limits<double>::max());
  /// One of `choices`, or any text if `choices` is empty. `value_name` stands for the value in the help.
  void add(const std::string& name, std::string& target, const std::string& value_name, const std::string& help,
           std::vector<std::string> choices = {});
  /// A list of texts: each --name adds one; an empty text adds nothing.
  void add_list(const std::string& name, std::vector<std::string>& target, const std::string& value_name,
                const std::string& help);
  /// on or off; --name alone means on.
  void add_flag(const std::string& name, bool& target, const std::string& help);
  /// A second name for an option. If `bare` is not empty, --alias alone means --name=bare.
  void add_alias(const std::string& alias, const std::string& name, const std::string& bare = "");
  /// --name alone means --name=bare.
  void set_bare(const std::string& name, const std::string& bare);
  /// parse() ends with `check`, which throws UsageError for contradictory variables.
  void add_check(std::function<void()> check) { checks_.push_back(std::move(check)); }

  /// A condition under which an option has an effect.
  struct Condition {
    std::string name;             ///< name of the option
    std::function<bool()> holds;  ///< true if the variables give the option an effect
    std::string otherwise;        ///< end of the line "--NAME has no effect …", such as "without --schedule cosine"
  };
  /// If the command line sets an option whose condition does not hold, parse() throws the line as a UsageError, after
  /// the checks. The values 0, off and empty are always allowed. So are all settings of a file: OUT/config.ini holds
  /// every option.
  void add_conditions(std::vector<Condition> conditions);

  /// True if the command line sets the option, to any value. For checks, and after parse().
  [[nodiscard]] bool is_given(std::string_view name) const;
  /// True if there is an option --NAME.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Sets the variables. Throws UsageError with the option, its fault and, for an unknown option, the nearest known
  /// name.
  [[nodiscard]] Action parse(int argc, const char* const* argv);

  /// The text of --help: the usage, and every option.
  [[nodiscard]] std::string help() const;
  /// Every option as an item of man(7), for the OPTIONS section of a manual page. Omits the defaults of `computed`,
  /// which depend on the machine.
  [[nodiscard]] std::string manual(const std::vector<std::string>& computed = {}) const;
  /// Every option with its present value, in the form of a --config file; a comment gives the default of each option
  /// that parse() has changed.
  [[nodiscard]] std::string ini() const;

 private:
  struct Option {
    std::string name;
    std::string value_name;
    std::string help;
    std::string bare;    // value of --name without a value; empty: a value is required
    std::string target;  // the option that this alias means; empty: not an alias
    std::function<void(const std::string& value)> set;
    std::function<std::string()> get;
    std::function<std::vector<std::string>()> items = {};  // of a list: each item is a line of ini()
    std::string initial = {};                              // value before parse()
  };
  struct Setting {
    std::string name;
    std::string value;
    std::string source;  // the setting's origin, for messages: "--epoch" or "epoch in FILE"
  };

  const Option* find(std::string_view name) const;
  const Option& known(const std::string& name, const std::string& shown) const;
  std::vector<std::string> join_optional_values(int argc, const char* const* argv) const;
  std::vector<Setting> read_command_line(int argc, const char* const* argv) const;
  std::vector<Setting> read_file(const std::filesystem::path& path) const;
  void apply(const Setting& setting) const;
  void check_effect(const Setting& given) const;

  std::string usage_;
  std::vector<Option> options_;
  std::vector<std::function<void()>> checks_;
  std::vector<Condition> conditions_;
  std::vector<std::string> given_;  // on the command line
  bool is_parsed_ = false;
};

}  // namespace mn
