#include "facts/find_files.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#include <elf.h>
#include <unistd.h>

#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>

#include "facts/elf.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

bool is_runnable(const fs::path& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

constexpr int kMaxInterpreters = 4;  // nested interpreters, as Linux counts

std::string beginning_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(256, '\0');  // Linux reads no more of a script's first line
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

/// Returns the interpreter of a script's first line: "#!/bin/sh -e" gives "/bin/sh". Empty if there is none.
std::string interpreter_in(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

/// Whether this node runs further program formats, registered by the administrator (binfmt_misc).
bool has_other_formats() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/sys/fs/binfmt_misc", error)) {
    if (entry.path().filename() != "register" && entry.path().filename() != "status") return true;
  }
  return false;
}

/// The paths at which `name` may lie: in `folder` if it has a slash, else in the folders of `search_path`.
std::vector<fs::path> paths_of(const std::string& name, const fs::path& folder, const std::string& search_path) {
  if (name.find('/') != std::string::npos) return {folder / name};
  std::vector<fs::path> found;
  for (const auto part : split(search_path, ':')) found.push_back(folder / part / name);
  return found;
}

/// Returns the program that env(1) starts for a script: python3 of "#!/usr/bin/env -S python3 -u". Without -S, env
/// takes all `words` for one name. Empty if options of env decide.
std::string program_of_env(const std::string& words) {
  constexpr std::string_view kSplit = "-S ";
  if (!words.starts_with(kSplit)) return words.starts_with('-') ? "" : words;
  for (const auto word : split(words.substr(kSplit.size()), ' ')) {
    if (word.starts_with('-')) return "";
    if (!word.empty() && word.find('=') == std::string_view::npos) return std::string(word);
  }
  return "";
}

/// Returns the interpreter that the first line names; for "#!/usr/bin/env python3", python3 of `search_path`. Empty if
/// env does not find it.
fs::path find_interpreter(const std::string& line, const std::string& search_path) {
  const std::string interpreter = interpreter_in(line);
  if (fs::path(interpreter).filename() != "env") return interpreter;
  const std::string name =
      program_of_env(std::string(trimmed(line.substr(line.find(interpreter) + interpreter.size()))));
  if (name.empty()) return interpreter;
  const auto found = paths_of(name, "/", search_path);
  const auto runnable = std::ranges::find_if(found, is_runnable);
  return runnable == found.end() ? fs::path() : *runnable;
}

/// Returns why the kernel will not run the program; empty if it will. `depth` counts nested interpreters.
std::string why_not(const fs::path& program, const std::string& search_path, int depth) {
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
    const std::string line = first_line_of(bytes);
    const fs::path first = interpreter_in(line);
    if (line.ends_with('\r') && (first.filename() == "env" || !fs::exists(first, error)))
      return "its lines end as on Windows; convert it (dos2unix, or sed -i 's/\\r$//')";
    const fs::path interpreter = find_interpreter(line, search_path);
    if (access(first.c_str(), X_OK) != 0 || interpreter.empty())
      return "the interpreter of its first line, " + line + ", is not on this node; correct the line or install it";
    return depth < kMaxInterpreters ? why_not(interpreter, search_path, depth + 1) : "";
  }
  if (bytes.empty() && access(program.c_str(), R_OK) != 0) return "";  // execution needs no right to read
  if (has_other_formats()) return "";
  return "it is neither a program for this processor nor a script; begin a script with #!/bin/sh or the like";
}

constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";

struct CacheHeader {
  char magic[20];
  std::uint32_t entries, text_bytes, flags, extensions, unused[3];
};
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name, path, os_version;
  std::uint64_t hardware;
};

std::string_view text_at(std::string_view cache, std::size_t at) {
  if (at >= cache.size()) return {};
  const std::size_t end = cache.find('\0', at);
  return end == std::string_view::npos ? std::string_view() : cache.substr(at, end - at);
}

/// Returns the paths that the loader's cache has for the library `name`, in the loader's order. `file` holds the cache:
/// a header, entries, and their texts, whose offsets count from the header. Before glibc 2.32, an older form of the
/// cache precedes the header. Source: sysdeps/generic/dl-cache.h of glibc.
std::vector<fs::path> paths_in_cache(const std::string& file, const std::string& name) {
  std::vector<fs::path> paths;
  const std::size_t begin = file.find(kCacheMagic);
  if (begin == std::string::npos) return paths;
  const std::string_view cache = std::string_view(file).substr(begin);
  CacheHeader header;
  if (cache.size() < sizeof header) return paths;
  std::memcpy(&header, cache.data(), sizeof header);
  for (std::size_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    const std::size_t at = sizeof header + i * sizeof entry;
    // A damaged cache, or a cache that ldconfig is writing, has fewer entries than the header says.
    if (at + sizeof entry > cache.size()) break;
    std::memcpy(&entry, cache.data() + at, sizeof entry);
    if (text_at(cache, entry.name) == name) paths.emplace_back(text_at(cache, entry.path));
  }
  return paths;
}

std::string cache_of(const fs::path& root) {
  try {
    return read_file(root / "etc/ld.so.cache");
  } catch (const DataError&) {
    return "";
  }
}

std::string run_path(const fs::path& file) {
  std::string list;
  for (const auto kind : {DT_RPATH, DT_RUNPATH}) {
    for (const auto& text : loader_texts(file, kind)) list += text + ":";
  }
  for (const std::string origin : {"$ORIGIN", "${ORIGIN}"}) {
    for (auto at = list.find(origin); at != std::string::npos; at = list.find(origin)) {
      list.replace(at, origin.size(), file.parent_path().string());
    }
  }
  return list;
}

}  // namespace

fs::path find_program(const std::string& name, const fs::path& folder, const fs::path& beside,
                      const std::string& search_path) {
  auto candidates = paths_of(name, folder, search_path);
  candidates.push_back(beside / name);
  for (const auto& path : candidates) {
    if (is_runnable(path)) return path.lexically_normal();
  }
  for (const auto& path : candidates) {
    if (!is_file(path)) continue;
    constexpr auto kAnyone = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    const bool is_marked = (fs::status(path).permissions() & kAnyone) != fs::perms::none;
    throw ProgramError(path.lexically_normal().string() +
                           (is_marked ? " may not be run here: look at its rights and at its file system's (noexec)"
                                      : " is not executable: chmod +x it, or name its interpreter"),
                       kExitCannotRun);
  }
  std::error_code error;
  if (const auto status = fs::status(candidates.front(), error); fs::exists(status)) {
    throw ProgramError(candidates.front().lexically_normal().string() +
                           (fs::is_directory(status) ? " is a folder" : " is not a regular file") + "; name a program",
                       kExitCannotRun);
  }
  const bool has_slash = name.find('/') != std::string::npos;
  const bool is_here = !has_slash && is_file(folder / name);
  const std::string where =
      " in " + (has_slash ? folder.string() : "PATH") + " or beside mnlaunch in " + beside.string();
  throw ProgramError("program \"" + name + "\" was not found" + (fs::path(name).is_absolute() ? "" : where) + "; " +
                         (is_here ? "./" + name + " is the one of the current folder" : "build it, or give its path"),
                     kExitNotFound);
}

void check_runnable(const fs::path& program, const std::string& search_path) {
  const std::string why = why_not(program, search_path, 0);
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
  // Any other word may be an option, the value of an option, or code.
  if (std::ranges::none_of(kEndings, [&](const char* ending) { return script->ends_with(ending); })) return;
  std::error_code error;
  const auto is_there = [&](const fs::path& path) { return fs::exists(path, error); };
  if (is_there(folder / *script)) return;
  const bool looks_in_path = fs::canonical(program, error).filename() == "bash";  // even if called sh
  if (looks_in_path && std::ranges::any_of(paths_of(*script, folder, search_path), is_there)) return;
  throw ProgramError("script \"" + *script + "\" was not found" +
                         (fs::path(*script).is_absolute() ? "" : " in " + folder.string()) + "; give its path",
                     kExitNotFound);
}

std::vector<fs::path> folders_of_mpi(const fs::path& program, const std::string& library_path) {
  std::vector<fs::path> folders;
  for (const auto& name : loader_texts(program, DT_NEEDED)) {
    const auto mpi =
        name.starts_with("libmpi.so.") ? find_library(name, library_path + ":" + run_path(program), "/") : std::nullopt;
    if (!mpi) continue;
    folders.push_back(mpi->parent_path());
    const std::string list = run_path(*mpi);
    for (const auto folder : split(list, ':')) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  return folders;
}

fs::path interpreter_of(const fs::path& file, const std::string& search_path) {
  const std::string bytes = beginning_of(file);
  return bytes.starts_with("#!") ? find_interpreter(first_line_of(bytes), search_path) : fs::path();
}

std::optional<fs::path> find_library(const std::string& name, const std::string& library_path, const fs::path& root) {
  for (std::size_t begin = 0; begin < library_path.size();) {
    const std::size_t colon = std::min(library_path.find_first_of(":;", begin), library_path.size());
    const fs::path file = fs::path(library_path.substr(begin, colon - begin)) / name;
    if (is_file(file)) return file;
    begin = colon + 1;
  }
  for (const auto& path : paths_in_cache(cache_of(root), name)) {
    const fs::path file = root / path.relative_path();
    if (is_file(file)) return file;
  }
  for (const char* folder : {"lib64", "usr/lib64", "lib", "usr/lib"}) {
    if (is_file(root / folder / name)) return root / folder / name;
  }
  return std::nullopt;
}

}  // namespace mn::launcher
