#include "facts/runnable.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "facts/elf.hpp"
#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxInterpreters = 4;  // nested interpreters, as Linux counts

/// The first bytes of the file, enough for a script's first line or an ELF header.
std::string beginning_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(256, '\0');  // Linux reads no more of a script's first line
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

/// "#!/bin/sh -e" → "/bin/sh".
std::string interpreter_in(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

/// Whether the administrator has registered more formats (binfmt_misc).
bool has_other_formats() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/sys/fs/binfmt_misc", error)) {
    if (entry.path().filename() != "register" && entry.path().filename() != "status") return true;
  }
  return false;
}

/// Why the kernel will not run the program; empty if it will.
std::string why_not(const fs::path& program, int depth) {
  const std::string bytes = beginning_of(program);
  std::error_code error;
  if (bytes.starts_with("\177ELF")) {
    const auto elf = read_elf(program);
    const auto own = read_elf("/proc/self/exe");
    if (elf && own && elf->machine != own->machine && !has_other_formats())
      return "it is for another kind of processor; build it for this one";
    const bool has_loader = !elf || elf->interpreter.empty() || fs::exists(elf->interpreter, error);
    return has_loader ? "" : "its dynamic loader is not on this node; build it for this system";
  }
  if (bytes.starts_with("#!")) {
    const std::string line = bytes.substr(0, bytes.find('\n'));
    const fs::path interpreter = interpreter_in(line);
    if (line.ends_with('\r') && !fs::exists(interpreter, error))
      return "its lines end as on Windows; convert it (dos2unix, or sed -i 's/\\r$//')";
    if (access(interpreter.c_str(), X_OK) != 0)
      return "the interpreter of its first line, " + line + ", is not on this node; correct the line or install it";
    return depth < kMaxInterpreters ? why_not(interpreter, depth + 1) : "";
  }
  if (bytes.empty() && access(program.c_str(), R_OK) != 0) return "";  // execution does not need the right to read
  if (has_other_formats()) return "";
  return "it is neither a program for this processor nor a script; begin a script with #!/bin/sh or the like";
}

}  // namespace

void check_runnable(const fs::path& program) {
  const std::string why = why_not(program, 0);
  if (!why.empty()) throw ProgramError("cannot run " + program.string() + ": " + why, kExitCannotRun);
}

void check_script(const fs::path& program, const std::vector<std::string>& arguments, const fs::path& folder,
                  const std::string& search_path) {
  constexpr std::string_view kInterpreters[] = {"sh", "bash", "perl", "julia", "Rscript"};
  constexpr const char* kEndings[] = {".sh", ".pl", ".jl", ".R", ".py"};
  const std::string interpreter = fs::path(arguments[0]).filename();
  if (std::ranges::find(kInterpreters, interpreter) == std::end(kInterpreters) && !interpreter.starts_with("python"))
    return;
  const auto script =
      std::find_if(arguments.begin() + 1, arguments.end(), [](const auto& word) { return word != "-u"; });
  if (script == arguments.end()) return;
  // A word without a script's ending may be an option, an option's value, or code.
  if (std::ranges::none_of(kEndings, [&](const char* ending) { return script->ends_with(ending); })) return;
  std::error_code error;
  const auto is_there = [&](const fs::path& path) { return fs::exists(path, error); };
  if (is_there(folder / *script)) return;
  const bool looks_in_path = fs::canonical(program, error).filename() == "bash";  // whatever name it was called by
  if (looks_in_path && std::ranges::any_of(paths_of(*script, folder, search_path), is_there)) return;
  throw ProgramError("script \"" + *script + "\" was not found" +
                         (fs::path(*script).is_absolute() ? "" : " in " + folder.string()) + "; give its path",
                     kExitNotFound);
}

}  // namespace mn::launcher
