#include "place/pmix_library.hpp"

#include <string_view>

#include <dlfcn.h>

namespace mn::launcher {
namespace {

void* load_first(const std::vector<std::filesystem::path>& libraries) {
  std::string reasons;
  for (const auto& path : libraries) {
    // A plugin might load a second libpmix.
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw PmixError("no libpmix could be loaded (" + reasons + "): put the one of your MPI on LD_LIBRARY_PATH");
}

}  // namespace

std::vector<std::filesystem::path> pmix_libraries(const Variables& variables,
                                                  const std::vector<std::filesystem::path>& folders) {
  constexpr const char* kName = "libpmix.so.2";
  std::vector<std::filesystem::path> libraries;
  // A private MPI (a module, a container, a Python wheel) brings its own server's libpmix.
  for (const char* folder : {"OMPI_LIBDIR_LOC", "OPAL_PREFIX", "PMIX_PREFIX"}) {
    const auto value = variables.get(folder);
    if (!value) continue;
    for (const char* below : {"", "openmpi", "lib", "lib/openmpi"})
      libraries.push_back(std::filesystem::path(*value) / below / kName);
  }
  for (const auto& folder : folders) libraries.push_back(folder / kName);
  std::erase_if(libraries, [](const auto& library) { return !std::filesystem::exists(library); });
  libraries.emplace_back(kName);
  return libraries;
}

pmix::Info pmix_flag(const char* key) {
  pmix::Info info{};
  std::string_view(key).copy(info.key, sizeof info.key - 1);
  info.value.type = pmix::kBool;
  info.value.data.flag = true;
  return info;
}

PmixLibrary::PmixLibrary(const std::vector<std::filesystem::path>& libraries) : handle(load_first(libraries)) {}

PmixLibrary::Symbol PmixLibrary::symbol(const char* name) const {
  void* address = dlsym(handle, name);
  if (address != nullptr) return {address};
  throw PmixError(std::string("the loaded libpmix has no ") + name + ": it is older than PMIx 3");
}

}  // namespace mn::launcher
