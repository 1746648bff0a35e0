#include "facts/elf.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>

#include <elf.h>

#include <mn/core/command_output.hpp>
#include <mn/core/text.hpp>

#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

/// Not open unless the path is a regular file: reading a pipe might block, or consume another reader's bytes.
std::ifstream open_file(const fs::path& path) {
  return is_file(path) ? std::ifstream(path, std::ios::binary) : std::ifstream();
}

std::string read_at(std::ifstream& file, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;  // names and notes are short; longer ones are damage
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

}  // namespace

std::optional<ElfFile> read_elf(const fs::path& path) {
  std::ifstream file = open_file(path);
  const auto header = read_header(file);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  ElfFile elf{.machine = header->e_machine, .interpreter = "", .build_id = ""};
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
  std::ifstream file = open_file(path);
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
  std::vector<std::string> command = {interpreter, program.string()};
  // Unlike glibc's --list, the variable makes the loader go on after a missing library; ldd uses it, too. musl's loader
  // does not know the variable, and would run the program.
  const bool is_musl = fs::path(interpreter).filename().native().starts_with("ld-musl");
  if (is_musl) command.insert(command.begin() + 1, "--list");
  std::istringstream lines(command_output(command, patience, is_musl ? "" : "LD_TRACE_LOADED_OBJECTS=1"));
  for (std::string line; std::getline(lines, line);) {
    if (auto library = library_in(line)) libraries.push_back(std::move(*library));
  }
  return libraries;
}

}  // namespace mn::launcher
