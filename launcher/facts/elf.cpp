#include "facts/elf.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::string read_at(std::ifstream& file, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;  // names and notes are short; anything longer is damage
  std::string text(std::min(bytes, kMaxBytes), '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// No value if the file does not begin as a 64-bit ELF file.
std::optional<Elf64_Ehdr> read_header(std::ifstream& file) {
  Elf64_Ehdr header;
  const std::string start = read_at(file, 0, sizeof header);
  if (start.size() != sizeof header || start.compare(0, SELFMAG, ELFMAG) != 0) return std::nullopt;
  std::memcpy(&header, start.data(), sizeof header);
  return header.e_ident[EI_CLASS] == ELFCLASS64 ? std::optional(header) : std::nullopt;
}

/// The descriptor of the GNU build-id note in a segment of notes.
std::string build_id_in(const std::string& notes, std::uint64_t alignment) {
  const auto aligned = [&](std::size_t n) { return alignment == 8 ? (n + 7) / 8 * 8 : (n + 3) / 4 * 4; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const std::size_t name = at + sizeof note;
    const std::size_t data = aligned(name + note.n_namesz);
    if (data + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, 3, "GNU") == 0) {
      return mn::to_hex(std::as_bytes(std::span(notes).subspan(data, note.n_descsz)));
    }
    at = aligned(data + note.n_descsz);
  }
  return "";
}

/// "  libm.so.6 => /lib/libm.so.6 (0x…)" or "  libx.so => not found".
std::optional<Library> library_in(const std::string& line) {
  const std::size_t arrow = line.find(" => ");
  if (arrow == std::string::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::string target = line.substr(arrow + 4, line.find(" (", arrow) - arrow - 4);
  return Library{line.substr(begin, arrow - begin), target == "not found" ? "" : target};
}

/// What the loader prints about `program`; empty if it takes longer than `patience`: then it is killed.
std::string trace_of(std::string interpreter, std::string program, std::chrono::milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char* argv[] = {interpreter.data(), program.data(), nullptr};
  pid_t child = -1;
  // Unlike the loader's --list, this goes on where a library is missing; ldd does the same.
  std::string trace = "LD_TRACE_LOADED_OBJECTS=1";
  std::vector<char*> envp = {trace.data()};
  for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
  envp.push_back(nullptr);
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (failed == 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd readable{ends[0], POLLIN, 0};
    std::array<char, 4096> piece;
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
      kill(child, SIGKILL);
      text.clear();
      break;
    }
    const ssize_t bytes = read(ends[0], piece.data(), piece.size());
    if (bytes <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  if (failed == 0) waitpid(child, nullptr, 0);
  return text;
}

}  // namespace

std::optional<ElfFile> read_elf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto header = read_header(file);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  ElfFile elf;
  for (int i = 0; i < header->e_phnum; ++i) {
    const std::string entry =
        read_at(file, header->e_phoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
    if (entry.size() != sizeof(Elf64_Phdr)) break;
    Elf64_Phdr segment;
    std::memcpy(&segment, entry.data(), sizeof segment);
    if (segment.p_type == PT_INTERP) elf.interpreter = read_at(file, segment.p_offset, segment.p_filesz).c_str();
    if (segment.p_type == PT_NOTE && elf.build_id.empty()) {
      elf.build_id = build_id_in(read_at(file, segment.p_offset, segment.p_filesz), segment.p_align);
    }
  }
  return elf;
}

std::optional<ElfSection> open_section(const fs::path& path, const std::string& name) {
  std::ifstream file(path, std::ios::binary);
  const auto header = read_header(file);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  const auto section_at = [&](std::uint64_t index) -> std::optional<Elf64_Shdr> {
    Elf64_Shdr section;
    const std::string bytes = read_at(file, header->e_shoff + index * sizeof section, sizeof section);
    if (bytes.size() != sizeof section) return std::nullopt;
    std::memcpy(&section, bytes.data(), sizeof section);
    return section;
  };
  const auto names = section_at(header->e_shstrndx);
  const std::string text = names ? read_at(file, names->sh_offset, names->sh_size) : "";
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= text.size() || text.c_str() + section->sh_name != name) continue;
    return ElfSection(std::move(file), section->sh_offset, section->sh_size);
  }
  return std::nullopt;
}

std::vector<std::string> loader_texts(const fs::path& file, std::int64_t kind) {
  std::vector<std::string> texts;
  const auto entries = open_section(file, ".dynamic");
  const auto names = open_section(file, ".dynstr");
  for (std::uint64_t at = 0; entries && names; at += sizeof(Elf64_Dyn)) {
    const auto entry = entries->read<Elf64_Dyn>(at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag != kind) continue;
    auto& text = texts.emplace_back();
    for (auto from = entry->d_un.d_val; const char c = names->read<char>(from).value_or('\0'); ++from) text += c;
  }
  return texts;
}

std::vector<Library> list_libraries(const std::string& interpreter, const fs::path& program,
                                    std::chrono::milliseconds patience) {
  std::vector<Library> libraries;
  std::istringstream lines(trace_of(interpreter, program.string(), patience));
  for (std::string line; std::getline(lines, line);) {
    if (auto library = library_in(line)) libraries.push_back(std::move(*library));
  }
  return libraries;
}

}  // namespace mn::launcher
