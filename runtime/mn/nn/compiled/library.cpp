#include <mn/nn/compiled/library.hpp>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/library.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>

namespace mn::compiled {
namespace {

/// A new folder that only this user can read. The destructor removes the folder and its files.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mn-compiled-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw FileError(with_errno("cannot create " + pattern, errno), errno);
    path_ = pattern;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

/// The operator's kernel. `library` is the address of the Library.
std::vector<at::Tensor> run_library(at::TensorList inputs, std::int64_t library) {
  const auto& self = *reinterpret_cast<const Library*>(library);  // NOLINT(performance-no-int-to-ptr)
  const c10::DeviceGuard on_device(inputs.front().device());
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // it is compiled in
  try {
    return self.runner_for(inputs.front().device()).run(inputs.vec());
  } catch (const c10::Error& error) {
    throw Error(self.name_ + " failed: " + first_line_of(error.what_without_backtrace()));
  }
}

namespace {

c10::OperatorHandle find_operator() {
  // A call through the dispatcher lets sharding see parameters before their memory is read.
  static torch::Library library(torch::Library::FRAGMENT, "mn", std::nullopt, __FILE__, __LINE__);
  static const c10::OperatorHandle handle = [] {
    library.def("run_library(Tensor[] inputs, int library) -> Tensor[]");
    for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
      library.impl("run_library", torch::dispatch(key, TORCH_FN(run_library)));
    }
    return c10::Dispatcher::singleton().findSchemaOrThrow("mn::run_library", "");
  }();
  return handle;
}

}  // namespace

Library::Library(std::string code, std::string operators, std::string name)
    : code_(std::move(code)), operators_(std::move(operators)), name_(std::move(name)) {}

Library::~Library() = default;

std::vector<at::Tensor> Library::run(const std::vector<at::Tensor>& inputs) const {
  const at::AutoDispatchBelowAutograd no_autograd;
  const auto address = reinterpret_cast<std::int64_t>(this);
  return find_operator().typed<std::vector<at::Tensor>(at::TensorList, std::int64_t)>().call(inputs, address);
}

Library::Runner& Library::runner_for(c10::Device device) const {
  const std::lock_guard lock(mutex_);
  auto& runner = runners_[device];
  if (!runner) runner = load(device);
  return *runner;
}

std::unique_ptr<Library::Runner> Library::load(c10::Device device) const {
  const PrivateFolder folder;  // the system keeps the code of a loaded library after the file is removed
  write_file(folder.path() / "library.so", code_);
  if (!operators_.empty()) write_file(folder.path() / "library.json", operators_);
  const auto& makers = torch::inductor::getAOTIModelRunnerRegistry();
  const auto found = makers.find(c10::DeviceTypeName(device.type(), /*lower_case=*/true));
  if (found == makers.end()) throw Error(name_ + ": this libtorch runs no compiled code on " + device.str());
  try {
    return found->second((folder.path() / "library.so").string(), 1, device.str(), "", false);
  } catch (const std::exception& error) {
    throw Error(name_ + " can't be loaded: " + first_line_of(error.what()) + "; if " +
                folder.path().parent_path().string() + " forbids programs, set TMPDIR to another folder");
  }
}

}  // namespace mn::compiled
