/// Functions that make communicators, and free functions that use communicators. <mn/comm/communicator.hpp> includes
/// this header.
#pragma once

#include <chrono>
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
  std::optional<Device> device;    ///< default: MN_DEVICE, else the GPU with number intra_rank, else the CPU
  std::optional<bool> debug = {};  ///< default: whether MN_DEBUG is set to anything but 0
  /// Time-out of each call, also on communicators made by split(). Default: MN_COMM_TIMEOUT in seconds if set,
  /// otherwise no time-out. If ranks pass different time-outs, the longest holds on all ranks.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Gradients of other dtypes are converted to this dtype (float16 or bfloat16) before the reduction. Only backends
  /// with NCCL on GPUs take it, as in ChainerMN. Default: no conversion.
  std::optional<DType> allreduce_grad_dtype = {};
};

/// Collective over `comm`: makes a communicator of the ranks of `comm`. Uses a duplicate, so the caller still owns
/// `comm`. `name` is one of communicator_names(), or "auto": the function then chooses a backend, and rank 0 logs the
/// choice and its reason. Throws a UsageError that lists all names if `name` is unknown.
[[nodiscard]] std::shared_ptr<Communicator> create_communicator(std::string_view name = "auto",
                                                                MPI_Comm comm = MPI_COMM_WORLD,
                                                                const CommunicatorOptions& options = {});

/// Collective: returns, on every rank, whether all ranks passed an equal value. The value may be the hash of longer
/// data. Cost: one allreduce of 16 bytes.
[[nodiscard]] bool same_on_all_ranks(std::uint64_t value, Communicator& comm);

/// The number of collective calls that the calling thread has made on all communicators together.
[[nodiscard]] std::uint64_t collective_calls() noexcept;

/// Collective: throws an equal UsageError on every rank unless all ranks passed an equal object (or null). The error's
/// text is "the ranks differ in WHAT", and then the first key whose value differs between rank 0 and the first rank
/// with a different object. Cost for equal objects: one same_on_all_ranks().
void prove_equal(const nlohmann::json& object, std::string_view what, Communicator& comm);

/// While a CallTimeout lives, the calling rank's calls on `comm` have the given time-out; the destructor restores the
/// earlier time-out.
class CallTimeout {
 public:
  /// If `timeout` is 0, calls have no time-out. For a collective call either all ranks or no rank must have a time-out.
  /// `comm` must outlive the object.
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
