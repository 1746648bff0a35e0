/// Reads ELF files, which are programs and libraries. Finds which build of a program a file is, which libraries the
/// dynamic loader would load for the program, and for which GPUs the CUDA code in a file was compiled.
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

/// Reads the facts about an ELF file. No value if `file` is not a 64-bit ELF file of this machine's byte order.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& file);

/// The texts of all entries of the kind `kind`, such as DT_NEEDED, in the file's dynamic section, which the dynamic
/// loader reads.
[[nodiscard]] std::vector<std::string> loader_texts(const std::filesystem::path& file, std::int64_t kind);

struct Library {
  std::string name;            ///< the name that programs ask for: libmpi.so.40
  std::filesystem::path path;  ///< empty: not found
};

/// Asks the dynamic loader `interpreter` which libraries it would load for `program` in this process's environment, as
/// ldd does. No code of the program runs. Empty if the loader does not answer within `patience`.
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
/// code. Reads only the headers of the first 64 containers (blocks of CUDA code in the file), because a large library
/// has thousands of containers, all compiled for the same GPUs.
[[nodiscard]] GpuCode read_gpu_code(const std::filesystem::path& file);

/// Whether a GPU with the compute capability `capability` can run the code.
[[nodiscard]] bool runs_on(const GpuCode& code, int capability);

/// Returns a text that identifies a build of `file`. If the linker has written a build id to the file, the text is the
/// build id in `elf`. Otherwise the text is a hash of the whole file; of a file over 32 MiB, only 16 MiB are hashed. No
/// value if the file cannot be read.
[[nodiscard]] std::optional<std::string> file_id(const std::filesystem::path& file, const std::optional<ElfFile>& elf);

/// A hash of the first 64 KiB and the last 64 KiB of the file. `size` is the size of the file. No value if the file
/// cannot be read.
[[nodiscard]] std::optional<std::string> hash_of_ends(const std::filesystem::path& file, std::uintmax_t size);
/// Whether hash_of_ends() covers all bytes of a file of the size `size`.
[[nodiscard]] bool is_hashed_whole(std::uintmax_t size);

}  // namespace mn::launcher
