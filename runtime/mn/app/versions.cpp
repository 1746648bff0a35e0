#include <mn/app/versions.hpp>

#include <cstdio>
#include <initializer_list>

#include <H5public.h>
#include <dlfcn.h>
#include <mpi.h>

#include <mn/core/mpi_name.hpp>
#include <mn/core/nccl_versions.hpp>
#include <mn/tensor/libtorch_version.hpp>

namespace mn::app {
namespace {

constexpr const char* kNone = "none";

/// Returns the function `name` of the first library that can be loaded, or null. The library stays loaded.
template <class Function>
Function* function_of(std::initializer_list<const char*> libraries, const char* name) {
  for (const char* library : libraries) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) return reinterpret_cast<Function*>(dlsym(handle, name));
  }
  return nullptr;
}

std::string dotted(int major, int minor, int patch = -1) {
  std::string text = std::to_string(major) + "." + std::to_string(minor);
  return patch < 0 ? text : text + "." + std::to_string(patch);
}

/// Returns the text after `begin`, up to the next character in `ends`; "none" if `begin` is missing.
std::string part_of(const std::string& text, const std::string& begin, const char* ends) {
  const auto found = text.find(begin);
  if (found == std::string::npos) return kNone;
  const auto first = found + begin.size();
  return text.substr(first, text.find_first_of(ends, first) - first);
}

std::string cuda_at_run_time() {
  auto* get = function_of<int(int*)>({"libcudart.so.13", "libcudart.so.12"}, "cudaRuntimeGetVersion");
  int version = 0;
  return get != nullptr && get(&version) == 0 ? dotted(version / 1000, version % 1000 / 10) : kNone;
}

std::string nccl_at_run_time() {
  const int version = nccl_version();
  return version == 0 ? kNone : nccl_version_text(version);
}

std::string pmix_at_run_time() {
  auto* get = function_of<const char*()>({"libpmix.so.2"}, "PMIx_Get_version");
  return get == nullptr ? kNone : part_of(get(), "PMIx ", " ,(");
}

std::string mpi_at_run_time() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string open_mpi = part_of(text, "Open MPI v", ", ");
  return open_mpi != kNone ? "Open MPI " + open_mpi : part_of(text, "", ",\n");
}

std::string hdf5_at_run_time() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return dotted(static_cast<int>(major), static_cast<int>(minor), static_cast<int>(release));
}

std::string row(const std::string& name, const std::string& compiled, const std::string& run_time) {
  char line[256];
  std::snprintf(line, sizeof line, "%-7s %-18s %s\n", name.c_str(), compiled.c_str(), run_time.c_str());
  return line;
}

}  // namespace

std::string version_table() {
  return "mn " MN_VERSION "\n" + row("", "compiled", "run time") + row("torch", TORCH_VERSION, loaded_libtorch()) +
         row("CUDA", MN_CUDA_VERSION, cuda_at_run_time()) + row("NCCL", MN_NCCL_VERSION, nccl_at_run_time()) +
         row("MPI", mpi_of_build(), mpi_at_run_time()) + row("PMIx", kNone, pmix_at_run_time()) +
         row("HDF5", dotted(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE), hdf5_at_run_time());
}

}  // namespace mn::app
