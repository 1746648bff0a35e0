#include <mn/app/compile.hpp>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <torch/torch.h>

#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/child_process.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/exported_file.hpp>
#include <mn/nn/exported_module.hpp>
#include <mn/tensor/libtorch_version.hpp>

namespace mn::app {
namespace {

std::filesystem::path cache_folder(const std::string& out) {
  if (const auto cache = environment("XDG_CACHE_HOME")) return std::filesystem::path(*cache) / "mn";
  if (const auto home = environment("HOME")) return std::filesystem::path(*home) / ".cache" / "mn";
  return out;
}

/// mn-compile of the build folder or the installation of this job, else that of PATH.
std::string find_compiler() {
  const std::filesystem::path beside = executable_path().parent_path().parent_path() / "mn-compile";
  return std::filesystem::exists(beside) ? beside.string() : "mn-compile";
}

/// Runs the command, whose output goes to this process's standard error, and returns its exit status. Calls
/// `still_runs` every few seconds.
int run_command(std::vector<std::string> command, const std::function<void()>& still_runs) {
  constexpr std::chrono::seconds kInterval{5};
  command.insert(command.begin(), {"/bin/sh", "-c", R"(exec "$0" "$@" 2>&1)"});
  const pid_t process = start_process(command, {.output = STDERR_FILENO});
  if (process < 0) return 127;
  const ActivityScope activity("compilation");
  int status = 0;
  auto last = std::chrono::steady_clock::now();
  for (pid_t ended = 0; ended == 0 || (ended < 0 && errno == EINTR);) {
    ended = ::waitpid(process, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    note_progress();
    if (const auto now = std::chrono::steady_clock::now(); now - last > kInterval) {
      last = now;
      still_runs();
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The command as a shell takes it.
std::string text_of(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (const std::string& each : command) words.push_back(each.starts_with("{") ? "'" + each + "'" : each);
  return join(words, " ");
}

/// True if the file is a package that this process can run. A file of the cache that is not is made again.
bool fits(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return false;
  try {
    static_cast<void>(ExportedFile(file));
    return true;
  } catch (const Error& error) {
    log_info("--compile: the cache's file does not fit: " + std::string(error.what()));
    return false;
  }
}

/// Returns the package, which this process makes if the cache does not have it. Libraries are for this host's
/// processors; therefore the host is part of the package's name.
std::string make_package(const CommonOptions& given, const NetworkSizes& network, const std::string& device,
                         const std::function<void()>& still_runs) {
  std::vector<std::string> command = {find_compiler(),          "--network", network.type, "--sizes",
                                      json_text(network.sizes), "--device",  device,       "--precision",
                                      given.precision};
  if (device == "cpu") command.insert(command.end(), {"--threads", std::to_string(at::get_num_threads())});
  OutText name;
  name << network.type << "-" << std::hex
       << hash64(join(command, " ") + loaded_libtorch() + at::get_cpu_capability() + host_name()) << ".mnc";
  const std::filesystem::path folder = cache_folder(given.out), file = folder / name.str();
  if (fits(file)) return file;
  make_folders(folder);
  command.insert(command.end(), {"--training-only", "--torch", loaded_libtorch(), "--out", file});
  log_info("--compile: mn-compile makes " + file.string() + ", once for this network");
  if (const int status = run_command(command, still_runs); status != 0) {
    throw DataError(
        "--compile: mn-compile ended with status " + std::to_string(status) + ": it needs Python with torch " +
        loaded_libtorch() +
        " (PYTHON names another Python) and g++; or make the file elsewhere, and give it as --compile FILE: " +
        text_of(command));
  }
  return file;
}

/// Collective: make_package() on rank 0. The other ranks hear every few seconds that it goes on, so their wait is no
/// hang.
std::string make_package_on_root(const CommonOptions& given, const NetworkSizes& network, const std::string& device,
                                 Communicator& comm) {
  std::string file;
  const auto tell = [&](bool goes_on) { return comm.bcast_obj(nlohmann::json(goes_on)).get<bool>(); };
  RootWork root(comm);
  root.attempt([&] { file = make_package(given, network, device, [&] { tell(true); }); });
  while (tell(false)) continue;
  root.agree<DataError>(true);
  return comm.bcast_obj(file);
}

/// Throws UsageError if the package `file` computes another network than this job: weights of equal shapes do not tell
/// heads or dropout. `made`: null if the package is of a network of one's own.
void check_network(const std::string& file, const nlohmann::json& made, const NetworkSizes& network) {
  if (made.is_null()) return;
  const std::string begin = "--compile: " + file + " was compiled for another network: ";
  if (made.value("type", "") != network.type) throw UsageError(begin + made.value("type", ""));
  const auto sizes = made.value("sizes", nlohmann::json::object());
  for (const auto& [name, value] : network.sizes.items()) {
    const auto other = sizes.value(name, nlohmann::json());
    if (name != "batch" && other != value)
      throw UsageError(begin + name + " " + json_text(other) + ", where this job has " + json_text(value));
  }
}

}  // namespace

void declare_compile(Options& options, std::string& compile) {
  options.add("compile", compile, "auto|FILE",
              "train with compiled code: of a package of mn-compile, or auto: rank 0 makes the package");
}

CompiledForward compile_network(const std::string& compile, const CommonOptions& given, const NetworkSizes& network,
                                const torch::nn::Module& model, const std::shared_ptr<Communicator>& comm) {
  if (given.precision != "fp32" && given.precision != "bf16") {
    throw UsageError("--compile does not work with --precision " + given.precision);
  }
  const std::string device = comm->device().type == DeviceType::kCuda ? "cuda" : "cpu";
  std::string file = compile;
  if (file == "auto") file = make_package_on_root(given, network, device, *comm);
  const ExportedFile package(file, comm);
  if (package.precision() != given.precision) {
    throw UsageError(package.precision().empty()
                         ? "--compile " + file + " is no package of mn-compile: give one, or auto"
                         : "--precision " + given.precision + ": " + file + " was compiled for " + package.precision());
  }
  check_network(file, package.network(), network);
  const auto compiled = std::make_shared<ExportedModule>(package, model);
  const std::int64_t samples = compiled->inputs().at(0).sizes.at(0);  // -1: any number but 1 (torch.export)
  return [compiled, samples](const torch::Tensor& inputs) {
    const bool fits = samples < 0 ? inputs.size(0) > 1 : inputs.size(0) == samples;
    return fits ? compiled->forward(inputs) : torch::Tensor();
  };
}

}  // namespace mn::app
