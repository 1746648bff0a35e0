/// A job's options: declared once, taken from the command line and from a file, checked, printed and written back.
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

/// Options bound to variables, whose values at the time of add() are the defaults.
///
/// Forms: --name value, --name=value; the last one wins. Names are never guessed from abbreviations.
/// --config FILE holds lines "name = value" (# and ; begin a comment line, [sections] are ignored); the command line
/// wins over it. --help and --version are known to every set.
class Options {
 public:
  /// What the command line asks for.
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
  /// One of `choices`; any text if there are none. `value_name` stands for the value in the help.
  void add(const std::string& name, std::string& target, const std::string& value_name, const std::string& help,
           std::vector<std::string> choices = {});
  /// Any texts: each --name adds one; an empty one adds nothing.
  void add_list(const std::string& name, std::vector<std::string>& target, const std::string& value_name,
                const std::string& help);
  /// on or off; --name alone means on.
  void add_flag(const std::string& name, bool& target, const std::string& help);
  /// A second name. With `bare` not empty, --alias alone means --name=bare.
  void add_alias(const std::string& alias, const std::string& name, const std::string& bare = "");
  /// --name alone means --name=bare.
  void set_bare(const std::string& name, const std::string& bare);
  /// parse() ends with `check`, which throws UsageError if the variables contradict each other.
  void add_check(std::function<void()> check) { checks_.push_back(std::move(check)); }

  /// When an option has an effect.
  struct Condition {
    std::string name;             ///< an option's
    std::function<bool()> holds;  ///< by the variables: that option has an effect
    std::string otherwise;        ///< end of the line "--NAME has no effect …", such as "without --schedule cosine"
  };
  /// After the checks, parse() throws that line as a UsageError where the command line gives an option for which a
  /// condition does not hold. 0, off and an empty value ask for nothing and are always right. So are a file's settings:
  /// OUT/config.ini has those without effect, too.
  void add_conditions(std::vector<Condition> conditions);

  /// Whether the command line gives the option, with whatever value: for checks, and after parse().
  [[nodiscard]] bool is_given(std::string_view name) const;
  /// Whether there is an option --NAME.
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Sets the variables. Throws UsageError that names the option, what is wrong with it and, for an unknown one, the
  /// nearest known name.
  [[nodiscard]] Action parse(int argc, const char* const* argv);

  /// What --help prints: the usage, and every option.
  [[nodiscard]] std::string help() const;
  /// Every option as an item of man(7), for the OPTIONS section of a manual page. Leaves out the defaults of
  /// `computed`, which depend on the machine.
  [[nodiscard]] std::string manual(const std::vector<std::string>& computed = {}) const;
  /// Every option with its present value, in the form that --config takes; a comment before it has the default of an
  /// option that parse() has changed.
  [[nodiscard]] std::string ini() const;

 private:
  struct Option {
    std::string name;
    std::string value_name;
    std::string help;
    std::string bare;    // value of the option without one; empty: it needs one
    std::string target;  // an alias's option; empty: an option itself
    std::function<void(const std::string& value)> set;
    std::function<std::string()> get;
    std::function<std::vector<std::string>()> items = {};  // of a list: each is a line of ini()
    std::string initial = {};                              // value before parse()
  };
  struct Setting {
    std::string name;
    std::string value;
    std::string source;  // how to quote it: "--epoch" or "epoch in FILE"
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
