/// Reads ELF files (programs and libraries): their build, their libraries, and the GPUs of their CUDA code.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mn/core/fields.hpp>

namespace mn::launcher {

/// Whether `path` is a regular file that this process can see.
[[nodiscard]] bool is_file(const std::filesystem::path& path);

struct ElfFile {
  std::uint16_t machine = 0;  ///< processor, as <elf.h> numbers them
  std::string interpreter;    ///< the dynamic loader; empty for a static program or a library
  std::string build_id;       ///< hexadecimal; empty without a build id
};

/// No value if `file` is not a 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

/// The texts of all entries of one kind, such as DT_NEEDED, in the dynamic section.
[[nodiscard]] std::vector<std::string> loader_texts(const std::filesystem::path& file, std::int64_t kind);

struct Library {
  std::string name;            ///< the name that programs ask for: libmpi.so.40
  std::filesystem::path path;  ///< empty: not found
};

/// Asks the dynamic loader which libraries it would load for `program`, as ldd does. No code of the program runs. Empty
/// if the loader does not answer within `patience`.
[[nodiscard]] std::vector<Library> list_libraries(const std::string& interpreter, const std::filesystem::path& program,
                                                  std::chrono::milliseconds patience);

/// The compute capabilities (90 for 9.0) for which CUDA code was compiled.
struct GpuCode {
  std::set<int> binary;  ///< machine code: also runs on later minor versions of the same major version
  std::set<int> ptx;     ///< the driver can compile the code for these and all later capabilities

  [[nodiscard]] bool empty() const noexcept { return binary.empty() && ptx.empty(); }
  MN_FIELDS(binary, ptx);
};

/// Finds the GPUs for which the CUDA code in `file` was compiled. Reads only the first 64 containers (blocks of CUDA
/// code): a large library has thousands, all for the same GPUs.
[[nodiscard]] GpuCode read_gpu_code(const std::filesystem::path& file);

[[nodiscard]] bool runs_on(const GpuCode& code, int capability);

/// Identifies a build of `file`: the linker's build id in `elf`, or a hash (of 16 MiB if the file is larger than 32
/// MiB). No value if the file cannot be read.
[[nodiscard]] std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf);

/// A hash of the first 64 KiB and the last 64 KiB of `size` bytes. No value if the file cannot be read.
[[nodiscard]] std::optional<std::string> hash_of_ends(const std::filesystem::path& file, std::uintmax_t size);
/// Whether hash_of_ends() covers all bytes of a file of the size `size`.
[[nodiscard]] bool is_hashed_whole(std::uintmax_t size);

}  // namespace mn::launcher
