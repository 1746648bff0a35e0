/// Creation of communicators, and free functions on them; included by <mn/comm/communicator.hpp>.
#pragma once

#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/core/buffer.hpp>

namespace mn {

class Communicator;

/// Options of create_communicator().
struct CommunicatorOptions {
  std::optional<Device> device;       ///< default: MN_DEVICE, else the GPU with number intra_rank, else the CPU
  std::size_t count_limit = INT_MAX;  ///< most elements of one MPI message; lower only to test large counts
  std::optional<bool> debug = {};     ///< default: whether MN_DEBUG is set to anything but 0
  /// Limit of each call, also on split communicators; std::nullopt: MN_COMM_TIMEOUT in seconds, else no limit. The
  /// longest time-out of all ranks counts.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Dtype in which gradients of other dtypes travel (float16, bfloat16): only on GPUs with NCCL, as in ChainerMN.
  std::optional<DType> allreduce_grad_dtype = {};
};

/// Collective over `comm`, which stays the caller's. `name` is one of communicator_names(), or "auto": rank 0 then logs
/// the chosen name and the reason. Throws UsageError with all names if `name` is unknown.
[[nodiscard]] std::shared_ptr<Communicator> create_communicator(std::string_view name = "auto",
                                                                MPI_Comm comm = MPI_COMM_WORLD,
                                                                const CommunicatorOptions& options = {});

/// Collective: whether all ranks gave an equal value, for instance a hash; every rank gets the answer. One allreduce of
/// 16 bytes.
[[nodiscard]] bool same_on_all_ranks(std::uint64_t value, Communicator& comm);

/// Number of collective calls that the calling thread has made, on all communicators.
[[nodiscard]] std::uint64_t collective_calls() noexcept;

/// Collective: throws an equal UsageError on every rank unless all gave an equal object (or null): "the ranks differ in
/// WHAT", and the first key of rank 0 with another value elsewhere. Equal objects cost one same_on_all_ranks().
void prove_equal(const nlohmann::json& object, std::string_view what, Communicator& comm);

/// While it lives, the calls of the rank on `comm` have `timeout`; its destructor restores the former time-out.
class CallTimeout {
 public:
  /// `timeout` 0: none. Collective calls need a time-out on all ranks, or on none. `comm` must outlive the object.
  CallTimeout(Communicator& comm, std::chrono::milliseconds timeout);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;             ///< not copyable
  CallTimeout& operator=(const CallTimeout&) = delete;  ///< not copyable

 private:
  Communicator& comm_;
  std::chrono::milliseconds before_;
};

/// Names of all backends in the build.
[[nodiscard]] std::vector<std::string> communicator_names();
/// Names of the backends for ranks on `device`.
[[nodiscard]] std::vector<std::string> communicator_names(DeviceType device);

}  // namespace mn
