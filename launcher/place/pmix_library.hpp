/// Loads libpmix at run time, so mnlaunch builds without libpmix's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// The used parts of the PMIx client interface, as in the PMIx Standard since version 3 (https://pmix.org).
namespace pmix {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kPartialSuccess = -52;

constexpr std::uint32_t kRankWildcard = UINT32_MAX - 1;
constexpr std::uint8_t kScopeGlobal = 3;

enum Type : std::uint16_t { kBool = 1, kString = 3, kUint32 = 14, kByteObject = 27 };

struct ByteObject {
  char* bytes;
  std::size_t size;
};

struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    std::uint32_t uint32;
    ByteObject object;
    struct {
      char* words[2];
      char separator;
    } widest;  // pmix_envar_t: gives the union its size
  } data;
};

struct Proc {
  char name_space[256];
  std::uint32_t rank;
};

struct Info {
  char key[512];
  std::uint32_t flags;
  Value value;
};

constexpr const char* kJobSize = "pmix.job.size";
constexpr const char* kHostName = "pmix.hname";
constexpr const char* kCollectData = "pmix.collect";
constexpr const char* kImmediate = "pmix.immediate";

}  // namespace pmix

class PmixError : public Error {
 public:
  using Error::Error;
};

/// Paths to try for libpmix: folders of the MPI whose mpiexec started this process, `folders`, and the loader's choice.
[[nodiscard]] std::vector<std::filesystem::path> pmix_libraries(const Variables& variables,
                                                                const std::vector<std::filesystem::path>& folders = {});

[[nodiscard]] pmix::Info pmix_flag(const char* key);

/// Frees a value that PMIx has returned (PMIx uses malloc).
struct FreeValue {
  void operator()(pmix::Value* value) const noexcept {
    if (value->type == pmix::kString) std::free(value->data.string);
    if (value->type == pmix::kByteObject) std::free(value->data.object.bytes);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<pmix::Value, FreeValue>;

/// The functions of libpmix. Never unloaded: a thread of libpmix may still be running.
struct PmixLibrary {
  /// Loads the first of `libraries` that can be loaded. Throws PmixError if there is none, or if a function is missing.
  explicit PmixLibrary(const std::vector<std::filesystem::path>& libraries);

  void check(pmix::Status status, const std::string& operation) const {
    if (status != pmix::kSuccess) throw PmixError(operation + ": " + error_string(status));
  }
  [[nodiscard]] pmix::Proc proc(std::uint32_t rank) const {
    pmix::Proc other = me;
    other.rank = rank;
    return other;
  }
  /// The value that rank `rank` has stored under `key`; null if there is none.
  [[nodiscard]] OwnedValue read(std::uint32_t rank, const char* key, const pmix::Info* info, std::size_t count) const {
    const pmix::Proc from = proc(rank);
    pmix::Value* value = nullptr;
    return OwnedValue(get(&from, key, info, count, &value) == pmix::kSuccess ? value : nullptr);
  }

  void* const handle;
  using Status = pmix::Status;
  Status (*const init)(pmix::Proc*, pmix::Info*, std::size_t) = symbol("PMIx_Init");
  Status (*const finalize)(const pmix::Info*, std::size_t) = symbol("PMIx_Finalize");
  Status (*const put)(std::uint8_t scope, const char* key, pmix::Value*) = symbol("PMIx_Put");
  Status (*const commit)() = symbol("PMIx_Commit");
  Status (*const fence_nb)(const pmix::Proc*, std::size_t, const pmix::Info*, std::size_t, void (*)(Status, void*),
                           void*) = symbol("PMIx_Fence_nb");
  Status (*const get)(const pmix::Proc*, const char* key, const pmix::Info*, std::size_t,
                      pmix::Value**) = symbol("PMIx_Get");
  Status (*const get_nb)(const pmix::Proc*, const char* key, const pmix::Info*, std::size_t,
                         void (*)(Status, pmix::Value*, void*), void*) = symbol("PMIx_Get_nb");
  const char* (*const error_string)(Status) = symbol("PMIx_Error_string");
  pmix::Proc me{};

 private:
  /// The address of a function; converts to any pointer to a function.
  struct Symbol {
    void* address;
    template <typename Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address);
    }
  };
  [[nodiscard]] Symbol symbol(const char* name) const;
};

}  // namespace mn::launcher
