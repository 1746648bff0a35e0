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
  if (!words) {
    findings.push_back({line, "a quote is open at the end of the line", "close it"});
    return;
  }
  const std::size_t before = findings.size();
  const auto options = take_options(SlurmCommand::kSbatch, *words, line, findings);
  for (const auto& option : options) {
    if (has_variable(option.value)) {
      findings.push_back({line, "--" + option.name + " has a variable, which sbatch does not replace",
                          "write the value, %j or %x, or give the option on the command line"});
    }
    script.options.push_back(option);
  }
  // The rest may be the value of a wrong option, or of one that is not known here.
  if (words->empty() || findings.size() > before || has_unknown(options)) return;
  if (is_one_of(words->front(), {"hetjob", "packjob"})) {
    script.is_heterogeneous = true;
    return;
  }
  findings.push_back({line, "\"" + words->front() + "\" is no option", "options begin with - or --"});
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
  const fs::path shell = interpreter_of(file, search_path);
  if (!is_one_of(shell.filename(), {"sh", "bash", "dash", "ksh", "zsh"})) return;
  const bool is_bash = shell.filename() == "bash";
  const std::string said = output_of_failure(is_bash ? std::vector<std::string>{shell, "-O", "extglob", "-n", file}
                                                     : std::vector<std::string>{shell, "-n", file});
  if (said.empty()) return;
  const std::string first(trimmed(said.substr(0, said.find('\n'))));
  std::smatch number;
  const bool has_line = std::regex_search(first, number, std::regex(": (line )?([0-9]{1,9}): "));
  findings.push_back({has_line ? std::stoi(number[2]) : 0,
                      shell.filename().string() + ": " + (has_line ? number.suffix().str() : first),
                      "correct the quotes, parentheses or keywords before it"});
}

}  // namespace

std::string output_of_failure(std::vector<std::string> command) {
  constexpr std::chrono::seconds kPatience{5};
  constexpr std::string_view kFailed = "\nfailed";
  command.insert(command.begin(), {"sh", "-c", R"("$0" "$@" 2>&1 || printf '\nfailed')"});
  std::string text = command_output(command, kPatience);
  if (!text.ends_with(kFailed)) return "";  // what it printed are notes and warnings
  text.resize(text.size() - kFailed.size());
  return text;
}

bool is_batch_script(const fs::path& file) {
  if (file.extension() == ".sbatch" || file.extension() == ".slurm") return true;
  constexpr std::size_t kMaxBytes = 1 << 20;
  if (!is_file(file) || read_elf(file)) return false;
  std::ifstream lines(file);
  std::size_t bytes = 0;
  for (std::string line; bytes < kMaxBytes && std::getline(lines, line); bytes += line.size()) {
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
  script.are_options_sound = findings.empty() && !script.is_heterogeneous && !has_unknown(script.options);
  script.folder = start.folder / last_value(script.options, "chdir").value_or("");
  script.commands = std::move(shell.commands);
  return script;
}

}  // namespace mn::launcher
