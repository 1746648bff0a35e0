#include "batch/batch_script.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include <mn/core/command_output.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>

#include "facts/elf.hpp"
#include "facts/find_files.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "#SBATCH";

/// Whether a comment looks like options for sbatch, which sbatch does not read: "# SBATCH -N 2", "#sbatch -N 2".
bool is_misspelled_mark(const std::string& line) {
  const std::string text(trimmed(line.substr(1)));
  const bool is_attached = line.size() > 1 && line[1] != ' ';
  return is_attached ? to_lower(text).starts_with("sbatch -") : text.starts_with("SBATCH -");
}

bool has_variable(const std::string& value) { return std::regex_search(value, std::regex("\\$[{A-Za-z_]")); }

void read_options(BatchScript& script, const std::string& text, int line, LineFindings& findings) {
  auto words = option_words(text);
  const std::size_t before = findings.size();
  for (const auto& option : take_options(SlurmCommand::kSbatch, words, line, findings)) {
    if (has_variable(option.value)) {
      findings.push_back({line, "--" + option.name + " has a variable, which sbatch does not replace",
                          "write the value, %j or %x, or give the option on the command line"});
    }
    script.options.push_back(option);
  }
  if (words.empty() || findings.size() > before) return;  // the rest may be the value of a wrong option
  if (is_one_of(words.front(), {"hetjob", "packjob"})) {
    script.is_heterogeneous = true;
    return;
  }
  findings.push_back({line, "\"" + words.front() + "\" is no option", "options begin with - or --"});
}

/// `comment_lines`: numbers of the lines that the shell takes for comments.
void read_lines(BatchScript& script, const std::vector<int>& comment_lines, LineFindings& findings) {
  std::istringstream lines(script.text);
  bool has_command = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty()) continue;
    if (!text.starts_with('#')) has_command = true;
    if (has_command && !std::ranges::binary_search(comment_lines, number)) continue;
    const bool is_mark = line.starts_with(kMark);
    if (is_mark && has_command) {
      findings.push_back({number, "sbatch does not read options after the first command", "move the line up"});
    } else if (is_mark) {
      read_options(script, line.substr(kMark.size()), number, findings);
    } else if (is_misspelled_mark(std::string(text)) || text.starts_with("#SBATCH -")) {
      findings.push_back({number, "this is a comment, which sbatch does not read", "begin the line with #SBATCH"});
    }
  }
}

/// Why sbatch would reject the whole file; an empty `what` if it would not.
LineFinding fault_of_text(const fs::path& file, const std::string& text, const std::string& search_path) {
  if (text.empty()) return {0, "the script is empty", "write it"};
  if (read_elf(file)) return {0, "this is a program, not a script", "write a script that starts it by srun"};
  if (text.find('\0') != std::string::npos) return {0, "there is a NUL character in it", "write it as plain text"};
  if (text.find("\r\n") != std::string::npos)
    return {1, "its lines end as on Windows", "convert it (dos2unix, or sed -i 's/\\r$//')"};
  if (!text.starts_with("#!")) return {1, "the first line does not begin with #!", "begin with #!/bin/bash"};
  try {
    check_runnable(file, search_path);
  } catch (const ProgramError& error) {
    return {1, error.what(), "correct the first line"};
  }
  return {};
}

/// The first error of syntax that the script's shell finds, which reads the script and runs nothing.
void check_syntax(const fs::path& file, const std::string& search_path, LineFindings& findings) {
  constexpr std::chrono::seconds kPatience{5};
  const fs::path shell = interpreter_of(file, search_path);
  if (!is_one_of(shell.filename(), {"sh", "bash", "dash", "ksh", "zsh"})) return;
  const std::string said = command_output({"sh", "-c", "\"$0\" -n \"$1\" 2>&1", shell, file}, kPatience);
  if (said.empty()) return;
  const std::string first(trimmed(said.substr(0, said.find('\n'))));
  std::smatch number;
  const bool has_line = std::regex_search(first, number, std::regex(": (line )?([0-9]{1,9}): "));
  findings.push_back({has_line ? std::stoi(number[2]) : 0,
                      shell.filename().string() + ": " + (has_line ? number.suffix().str() : first),
                      "correct the quotes, parentheses or keywords before it"});
}

/// Checks of the options of a script, which are sound each by itself.
class OptionCheck {
 public:
  explicit OptionCheck(const BatchScript& script) : script_(script) {}

  LineFindings run() {
    std::error_code error;
    const std::string folder = script_.folder.string();
    if (value_of("chdir") && !fs::is_directory(folder, error)) {
      add("chdir", "the folder " + folder + " does not exist", "create it");
    } else {
      check_output("output");
      check_output("error");
    }
    check_requeue();
    const auto nodes = parse_number<std::int64_t>(split(value_of("nodes").value_or(""), '-')[0]);
    const auto tasks = parse_number<std::int64_t>(value_of("ntasks").value_or(""));
    if (nodes && tasks && *tasks < *nodes) {
      add("ntasks", std::to_string(*tasks) + " tasks cannot use " + std::to_string(*nodes) + " nodes",
          "give --ntasks-per-node in place of --ntasks");
    }
    return std::move(findings_);
  }

 private:
  [[nodiscard]] std::optional<std::string> value_of(const char* name) const {
    return last_value(script_.options, name);
  }
  void add(const char* name, const std::string& what, const std::string& remedy) {
    const auto option = std::ranges::find(script_.options, name, &SlurmOption::name);
    findings_.push_back({option->line, what, remedy});
  }

  void check_output(const char* name) {
    const std::string folder = (script_.folder / value_of(name).value_or("")).parent_path().string();
    std::error_code error;
    if (!value_of(name) || folder.find('%') != std::string::npos || fs::is_directory(folder, error)) return;
    add(name, "the folder " + folder + " does not exist: Slurm ends the job without a message", "mkdir -p " + folder);
  }

  void check_requeue() {
    const auto signal = value_of("signal");
    if (signal && !value_of("requeue") && !value_of("no-requeue")) {
      add("signal", "--signal without --requeue: a job that saves at the signal ends there",
          "add #SBATCH --requeue, and scontrol requeue at status 75; or --no-requeue");
    }
    if (signal && signal->starts_with("B:") && script_.text.find("trap ") == std::string::npos) {
      add("signal", "the signal goes to the script, which has no trap and so dies of it",
          "leave out B:, or set a trap that passes the signal on");
    }
    if (value_of("requeue") && value_of("open-mode") != "append") {
      add("requeue", "a job that starts again empties its output file", "add #SBATCH --open-mode=append");
    }
  }

  const BatchScript& script_;
  LineFindings findings_;
};

}  // namespace

bool is_batch_script(const fs::path& file) {
  if (file.extension() == ".sbatch" || file.extension() == ".slurm") return true;
  constexpr int kMaxLines = 200;
  if (!is_file(file) || read_elf(file)) return false;
  std::ifstream lines(file);
  std::string line;
  for (int i = 0; i < kMaxLines && std::getline(lines, line); ++i) {
    if (line.starts_with(kMark)) return true;
  }
  return false;
}

std::optional<BatchScript> read_batch_script(const fs::path& file, const BatchStart& start, LineFindings& findings) {
  BatchScript script;
  try {
    script.text = read_file(file);
  } catch (const DataError& error) {
    findings.push_back({0, error.what(), "give the path of a script"});
    return std::nullopt;
  }
  const std::string search_path = start.variables.get("PATH").value_or("");
  if (const auto fault = fault_of_text(file, script.text, search_path); !fault.what.empty()) {
    findings.push_back(fault);
    return std::nullopt;
  }
  auto shell = read_shell_script(script.text, start.arguments, start.variables);
  read_lines(script, shell.comment_lines, findings);
  for (auto& finding : check_values(script.options)) findings.push_back(finding);
  check_syntax(file, search_path, findings);
  script.are_options_sound = findings.empty() && !script.is_heterogeneous;
  script.folder = start.folder / last_value(script.options, "chdir").value_or("");
  script.commands = std::move(shell.commands);
  return script;
}

bool may_start_ranks(const BatchScript& script) {
  const std::string first_line = script.text.substr(0, script.text.find('\n'));
  if (first_line.find("sh") == std::string::npos) return true;
  for (const auto line : split(script.text, '\n')) {
    const std::string_view text = trimmed(line);
    const bool names_launcher =
        text.find("srun") != std::string_view::npos || text.find("mpi") != std::string_view::npos;
    if (names_launcher && !text.starts_with('#')) return true;
  }
  return std::ranges::any_of(script.commands, [&](const ShellCommand& command) {
    const std::string& name = command.words[0];
    const bool is_other_script = has_slash(name) && is_file(script.folder / name) && !read_elf(script.folder / name);
    if (command.words.size() > 1 && command.words[1] == "-c") return false;  // its text was searched above
    return !is_known(name) || is_other_script ||
           is_one_of(base_name(name), {"bash", "sh", "source", ".", "eval", "flux", "parallel", "xargs"});
  });
}

LineFindings check_job_options(const BatchScript& script) {
  return script.are_options_sound ? OptionCheck(script).run() : LineFindings();
}

}  // namespace mn::launcher
