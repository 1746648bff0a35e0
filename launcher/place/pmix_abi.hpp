/// The part of the PMIx client interface that mnlaunch uses, as the PMIx Standard's ABI has it since version 3
/// (https://pmix.org). mnlaunch loads libpmix at run time and so builds without its headers. Names are those of
/// <pmix.h> in a namespace of ours.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mn::launcher::pmix {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kPartialSuccess = -52;

constexpr std::uint32_t kRankWildcard = UINT32_MAX - 1;
constexpr std::uint8_t kScopeGlobal = 3;

enum Type : std::uint16_t { kBool = 1, kString = 3, kInt = 6, kUint16 = 13, kUint32 = 14, kByteObject = 27 };

struct ByteObject {
  char* bytes;
  std::size_t size;
};

struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    int integer;
    std::uint16_t uint16;
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

using Init = Status(Proc*, Info*, std::size_t);
using Finalize = Status(const Info*, std::size_t);
using Put = Status(std::uint8_t scope, const char* key, Value*);
using Commit = Status();
using OpCallback = void(Status, void*);
using FenceNb = Status(const Proc*, std::size_t, const Info*, std::size_t, OpCallback*, void*);
using Get = Status(const Proc*, const char* key, const Info*, std::size_t, Value**);
using ValueCallback = void(Status, Value*, void*);
using GetNb = Status(const Proc*, const char* key, const Info*, std::size_t, ValueCallback*, void*);
using ErrorString = const char*(Status);

}  // namespace mn::launcher::pmix
