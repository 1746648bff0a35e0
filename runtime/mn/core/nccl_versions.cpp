// Sources: NCCL's release notes; pytorch/pytorch#174338 (NCCL 2.29.2); NVIDIA/nccl#1136 (nodes of different CPUs).
#include <mn/core/nccl_versions.hpp>

#include <algorithm>

#include <dlfcn.h>

namespace mn {
namespace {

struct NcclFault {
  int first;   ///< the first version with the fault
  int mended;  ///< the first later version without the fault
  const char* what;
};

constexpr NcclFault kFaults[] = {
    {0, 21505, "damage data that is not aligned (protocol LL128)"},
    {0, 21803, "damage data where each GPU has a network port of its own (Tree with LL128)"},
    {0, 22403, "hang where nodes have different CPUs"},
    {22803, 22809, "hang on large clusters"},
#if defined(__aarch64__)
    {22902, 22903, "hang on ARM"},
#endif
};

}  // namespace

int nccl_version() noexcept {
  constexpr const char* kName = "ncclGetVersion";
  void* get = dlsym(RTLD_DEFAULT, kName);
  if (void* library = get == nullptr ? dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL) : nullptr) {
    get = dlsym(library, kName);
  }
  int version = 0;
  return get != nullptr && reinterpret_cast<int (*)(int*)>(get)(&version) == 0 ? version : 0;
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string nccl_faults(int version) {
  std::string faults;
  int mended = 0;
  for (const NcclFault& fault : kFaults) {
    if (version == 0 || version < fault.first || version >= fault.mended) continue;
    faults += (faults.empty() ? "" : ", or ") + std::string(fault.what);
    mended = std::max(mended, fault.mended);
  }
  if (faults.empty()) return {};
  return "NCCL " + nccl_version_text(version) + " can " + faults + ": use NCCL " + nccl_version_text(mended) +
         " or newer";
}

}  // namespace mn
