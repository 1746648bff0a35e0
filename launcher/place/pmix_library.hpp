/// libpmix, loaded at run time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "place/pmix_abi.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Where to look for libpmix: beside the MPI whose mpiexec started this, in `folders`, then where the dynamic loader
/// looks.
[[nodiscard]] std::vector<std::filesystem::path> pmix_libraries(const Variables& variables,
                                                                const std::vector<std::filesystem::path>& folders = {});

/// A directive that is on.
[[nodiscard]] pmix::Info pmix_flag(const char* key);

/// PMIx allocates values with malloc and leaves them to the caller.
struct FreeValue {
  void operator()(pmix::Value* value) const noexcept {
    if (value->type == pmix::kString) std::free(value->data.string);
    if (value->type == pmix::kByteObject) std::free(value->data.object.bytes);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<pmix::Value, FreeValue>;

/// The functions of libpmix, with this process's name in the job. Never unloaded: its thread may be on its way out.
struct PmixLibrary {
  /// Loads the first of `libraries` that loads. Throws PmixError if none does, or if it lacks a function.
  explicit PmixLibrary(const std::vector<std::filesystem::path>& libraries);

  /// Throws PmixError that names `operation`.
  void check(pmix::Status status, const std::string& operation) const;
  [[nodiscard]] pmix::Proc proc(std::uint32_t rank) const;
  /// Null if there is no value.
  [[nodiscard]] OwnedValue read(std::uint32_t rank, const char* key, const pmix::Info* info, std::size_t count) const;

  void* const handle;
  pmix::Init* const init;
  pmix::Finalize* const finalize;
  pmix::Put* const put;
  pmix::Commit* const commit;
  pmix::FenceNb* const fence_nb;
  pmix::Get* const get;
  pmix::GetNb* const get_nb;
  pmix::ErrorString* const error_string;
  pmix::Proc me{};
};

}  // namespace mn::launcher
