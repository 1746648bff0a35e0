/// Reads ELF files: the facts that identify a build, the libraries that the dynamic loader finds, and the GPUs for
/// which CUDA code was compiled.
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

/// Whether the path is a regular file visible to this process.
[[nodiscard]] bool is_file(const std::filesystem::path& path);

struct ElfFile {
  std::uint16_t machine = 0;  ///< processor, as <elf.h> numbers them
  std::string interpreter;    ///< the dynamic loader; empty for a static program or a library
  std::string build_id;       ///< hexadecimal; empty without a build id
};

/// Reads the facts about an ELF file. No value if `file` is not a 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

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

/// The compute capabilities for which CUDA code was compiled. 90 stands for 9.0.
struct GpuCode {
  std::set<int> binary;  ///< machine code: also runs on later minor versions of the same major version
  std::set<int> ptx;     ///< the driver can compile the code for these and all later capabilities

  [[nodiscard]] bool empty() const noexcept { return binary.empty() && ptx.empty(); }
  MN_FIELDS(binary, ptx);
  friend bool operator==(const GpuCode&, const GpuCode&) = default;
};

/// Finds the GPUs for which the CUDA code in `file` was compiled. Empty if `file` is not an ELF file or has no CUDA
/// code. Reads only the headers of the first 64 containers of CUDA code: a large library has thousands of containers,
/// compiled for the same GPUs.
[[nodiscard]] GpuCode read_gpu_code(const std::filesystem::path& file);

/// Whether a GPU with this capability can run the code.
[[nodiscard]] bool runs_on(const GpuCode& code, int capability);

/// Identifies a build of `file`: returns the build id that the linker wrote to `elf`. Without a build id, returns a
/// hash of the whole file, or of 16 MiB of a file over 32 MiB. No value if the file cannot be read.
[[nodiscard]] std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf);

/// A hash of the file's first and last 64 KiB; no value if the file cannot be read. `size`: size of the file.
[[nodiscard]] std::optional<std::string> hash_of_ends(const std::filesystem::path& file, std::uintmax_t size);
/// Whether hash_of_ends() covers all bytes of a file of this size.
[[nodiscard]] bool is_hashed_whole(std::uintmax_t size);

}  // namespace mn::launcher
