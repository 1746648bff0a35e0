/// Contents of an ELF file, and the libraries that the dynamic loader finds for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mn::launcher {

struct ElfFile {
  std::uint16_t machine = 0;  ///< processor, as <elf.h> numbers them
  std::string interpreter;    ///< the dynamic loader; empty for a static program or a library
  std::string build_id;       ///< hexadecimal; empty without a build id
};

/// No value if `file` is not a 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

/// A section of a file, to be read in pieces.
class ElfSection {
 public:
  ElfSection(std::ifstream file, std::uint64_t offset, std::uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {}
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// No value if the value would end behind the section.
  template <typename Value>
  [[nodiscard]] std::optional<Value> read(std::uint64_t at) const {
    Value value;
    if (at > bytes_ || bytes_ - at < sizeof value) return std::nullopt;
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset_ + at));
    return file_.read(reinterpret_cast<char*>(&value), sizeof value) ? std::optional(value) : std::nullopt;
  }

 private:
  mutable std::ifstream file_;
  std::uint64_t offset_;
  std::uint64_t bytes_;
};
/// No value if `file` is not a 64-bit ELF file, or lacks the section.
[[nodiscard]] std::optional<ElfSection> open_section(const std::filesystem::path& file, const std::string& name);

/// The texts of all entries of `kind`, such as DT_NEEDED, in the dynamic section of `file`.
[[nodiscard]] std::vector<std::string> loader_texts(const std::filesystem::path& file, std::int64_t kind);

struct Library {
  std::string name;            ///< the name that programs ask for: libmpi.so.40
  std::filesystem::path path;  ///< empty: not found
};

/// Asks the loader `interpreter` for the libraries of `program` in this process's environment, as ldd does. No code of
/// the program runs. Empty if the loader does not answer in time.
[[nodiscard]] std::vector<Library> list_libraries(const std::string& interpreter, const std::filesystem::path& program,
                                                  std::chrono::milliseconds patience);

}  // namespace mn::launcher
