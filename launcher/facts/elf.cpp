#include "facts/elf.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include <elf.h>

#include <mn/core/checksum.hpp>
#include <mn/core/command_output.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

/// A file or a part of a file. It is read in pieces, because libraries may be large.
class FilePart {
 public:
  /// Has no bytes unless the file is regular: reading a pipe might block, or take bytes meant for another process.
  explicit FilePart(const fs::path& path) {
    std::error_code error;
    if (!is_file(path)) return;
    file_.open(path, std::ios::binary);
    bytes_ = fs::file_size(path, error);
    if (error) bytes_ = 0;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] FilePart part(std::uint64_t offset, std::uint64_t bytes) && {
    offset_ += offset;
    bytes_ = bytes;
    return std::move(*this);
  }
  template <typename Value>
  [[nodiscard]] std::optional<Value> read(std::uint64_t at) {
    Value value;
    if (at > bytes_ || bytes_ - at < sizeof value) return std::nullopt;
    const std::string found = text(at, sizeof value);
    if (found.size() != sizeof value) return std::nullopt;
    std::memcpy(&value, found.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::string text(std::uint64_t at, std::uint64_t bytes) {
    constexpr std::uint64_t kMaxBytes = 1 << 16;  // names and notes are short; longer ones are damage
    std::string text(std::min(bytes, kMaxBytes), '\0');
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset_ + at));
    file_.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file_.gcount()));
    return text;
  }

 private:
  std::ifstream file_;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

std::optional<Elf64_Ehdr> read_header(FilePart& file) {
  const auto header = file.read<Elf64_Ehdr>(0);
  const bool is_elf = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
  return is_elf && header->e_ident[EI_CLASS] == ELFCLASS64 ? header : std::nullopt;
}

std::optional<FilePart> open_section(const fs::path& path, const std::string& name) {
  FilePart file(path);
  const auto header = read_header(file);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  const auto section_at = [&](std::uint64_t i) {
    return file.read<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names = section_at(header->e_shstrndx);
  const std::string text = names ? file.text(names->sh_offset, names->sh_size) : "";
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= text.size() || text.c_str() + section->sh_name != name) continue;
    return std::move(file).part(section->sh_offset, section->sh_size);
  }
  return std::nullopt;
}

std::string build_id_in(const std::string& notes, std::uint64_t alignment) {
  const auto aligned = [&](std::size_t n) { return alignment == 8 ? (n + 7) / 8 * 8 : (n + 3) / 4 * 4; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const std::size_t name = at + sizeof note;
    const std::size_t data = aligned(name + note.n_namesz);
    if (data + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && notes.compare(name, 3, "GNU") == 0) {
      return to_hex(std::as_bytes(std::span(notes).subspan(data, note.n_descsz)));
    }
    at = aligned(data + note.n_descsz);
  }
  return "";
}

/// Parses a line of the dynamic loader: "  libm.so.6 => /lib/libm.so.6 (0x…)" or "  libx.so => not found".
std::optional<Library> library_in(const std::string& line) {
  const std::size_t arrow = line.find(" => ");
  if (arrow == std::string::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(" \t");
  const std::string target = line.substr(arrow + 4, line.find(" (", arrow) - arrow - 4);
  return Library{line.substr(begin, arrow - begin), target == "not found" ? "" : target};
}

// nvcc stores CUDA code in the section .nv_fatbin, as a sequence of containers. A container is a header and entries;
// each entry holds code for one kind of GPU.
struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  ///< size of the entries
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t unused[2];
  std::uint16_t minor, major;
  std::uint32_t capability;
};
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kBinary = 2;

constexpr std::uintmax_t kPieceBytes = 64 << 10;
constexpr std::uintmax_t kPieces = 256;  // enough: different builds differ in most pieces

/// A hash of `count` pieces, evenly spread over the file. No value if the file cannot be read.
std::optional<std::string> hash_of_pieces(const fs::path& path, std::uintmax_t size, std::uintmax_t count) {
  const std::uintmax_t piece = std::min(size, kPieceBytes);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(count * piece, '\0');
  for (std::uintmax_t i = 0; i < count; ++i) {
    file.seekg(static_cast<std::streamoff>((size - piece) * i / (count - 1)));
    file.read(bytes.data() + i * piece, static_cast<std::streamsize>(piece));
  }
  return file ? std::optional(to_hex(hash64(bytes))) : std::nullopt;
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::optional<ElfFile> read_elf(const fs::path& path) {
  FilePart file(path);
  const auto header = read_header(file);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  ElfFile elf{.machine = header->e_machine, .interpreter = "", .build_id = ""};
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = file.read<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) break;
    if (segment->p_type == PT_INTERP) elf.interpreter = file.text(segment->p_offset, segment->p_filesz).c_str();
    if (segment->p_type == PT_NOTE && elf.build_id.empty()) {
      elf.build_id = build_id_in(file.text(segment->p_offset, segment->p_filesz), segment->p_align);
    }
  }
  return elf;
}

std::vector<std::string> loader_texts(const fs::path& file, std::int64_t kind) {
  std::vector<std::string> texts;
  auto entries = open_section(file, ".dynamic");
  auto names = open_section(file, ".dynstr");
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
  // glibc's loader lists the libraries if LD_TRACE_LOADED_OBJECTS is set; with --list it would stop at a missing
  // library. musl's loader needs --list: it ignores the variable, and would run the program.
  const bool is_musl = fs::path(interpreter).filename().native().starts_with("ld-musl");
  if (is_musl) command.insert(command.begin() + 1, "--list");
  std::istringstream lines(command_output(command, patience, is_musl ? "" : "LD_TRACE_LOADED_OBJECTS=1"));
  for (std::string line; std::getline(lines, line);) {
    if (auto library = library_in(line)) libraries.push_back(std::move(*library));
  }
  return libraries;
}

GpuCode read_gpu_code(const fs::path& file) {
  constexpr int kMaxContainers = 64;
  constexpr int kMaxEntries = 1024;  // per container; it has an entry for each target of each source
  GpuCode code;
  auto section = open_section(file, ".nv_fatbin");
  if (!section) return code;
  std::uint64_t at = 0;
  for (int i = 0; i < kMaxContainers; ++i) {
    const auto container = section->read<Container>(at);
    if (!container || container->magic != kFatbinMagic) break;
    const std::uint64_t first = at + container->header_bytes;
    if (container->header_bytes < sizeof(Container) || container->bytes > section->bytes()) break;
    const std::uint64_t end = first + container->bytes;
    at = first;
    for (int k = 0; k < kMaxEntries && at < end; ++k) {
      const auto entry = section->read<Entry>(at);
      if (!entry || entry->bytes == 0 || entry->bytes > end - at) break;
      if (entry->kind == kPtx) code.ptx.insert(static_cast<int>(entry->capability));
      if (entry->kind == kBinary) code.binary.insert(static_cast<int>(entry->capability));
      at += entry->header_bytes + entry->bytes;
    }
    at = (end + 7) / 8 * 8;
  }
  return code;
}

bool runs_on(const GpuCode& code, int capability) {
  return std::ranges::any_of(code.ptx, [&](int target) { return target <= capability; }) ||
         std::ranges::any_of(code.binary,
                             [&](int target) { return target <= capability && target / 10 == capability / 10; });
}

std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf) {
  if (elf && !elf->build_id.empty()) return elf->build_id.substr(0, 16);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > 2 * kPieces * kPieceBytes) return hash_of_pieces(file, size, kPieces);
  try {
    return to_hex(hash64_file(file));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::optional<std::string> hash_of_ends(const fs::path& file, std::uintmax_t size) {
  return hash_of_pieces(file, size, 2);
}

bool is_hashed_whole(std::uintmax_t size) { return size <= 2 * kPieceBytes; }

}  // namespace mn::launcher
