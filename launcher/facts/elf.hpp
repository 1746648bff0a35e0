/// What an ELF file says about itself, and the libraries that the dynamic loader finds for it.
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
  std::uint16_t machine = 0;  ///< processors that it is for, as <elf.h> numbers them
  std::string interpreter;    ///< the dynamic loader; empty for a static program or a library
  std::string build_id;       ///< hexadecimal; empty if it has none
};

/// No value if `file` is not a 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

/// A section of a file, of which pieces can be read.
class ElfSection {
 public:
  ElfSection(std::ifstream file, std::uint64_t offset, std::uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {}
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// No value past the section's end.
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
/// No value if `file` is not a 64-bit ELF file, or has no section of that name.
[[nodiscard]] std::optional<ElfSection> open_section(const std::filesystem::path& file, const std::string& name);

/// The texts of a kind of entry, such as DT_NEEDED, that `file` leaves for the dynamic loader.
[[nodiscard]] std::vector<std::string> loader_texts(const std::filesystem::path& file, std::int64_t kind);

struct Library {
  std::string name;            ///< as programs ask for it: libmpi.so.40
  std::filesystem::path path;  ///< empty: not found
};

/// Asks `interpreter`, as ldd does: the loader's own answer, with this process's environment. No code of the program
/// runs. Empty if the loader gives no answer in time.
[[nodiscard]] std::vector<Library> list_libraries(const std::string& interpreter, const std::filesystem::path& program,
                                                  std::chrono::milliseconds patience);

}  // namespace mn::launcher
