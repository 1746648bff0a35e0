/// What makes communicators, and what ranks find out with one: included by <mn/comm/communicator.hpp>.
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

/// What create_communicator() takes beside a name and ranks.
struct CommunicatorOptions {
  std::optional<Device> device;       ///< default: MN_DEVICE, else the GPU with this rank's intra_rank, else the CPU
  std::size_t count_limit = INT_MAX;  ///< elements that one MPI message may count; lower only to test large counts
  std::optional<bool> debug = {};     ///< default: whether MN_DEBUG is set to anything but 0
  /// Limit of each call, also on communicators split from this; std::nullopt: MN_COMM_TIMEOUT in seconds, else no
  /// limit. Where ranks give different ones, the longest counts.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Gradients of other dtypes travel as this one (float16, bfloat16): on GPUs with NCCL only, as in ChainerMN.
  std::optional<DType> allreduce_grad_dtype = {};
};

/// Collective over `comm`, which stays the caller's. `name` is one of communicator_names() or "auto", which picks by
/// what is there and says on rank 0 which and why. Throws UsageError that lists the names for any other.
[[nodiscard]] std::shared_ptr<Communicator> create_communicator(std::string_view name = "auto",
                                                                MPI_Comm comm = MPI_COMM_WORLD,
                                                                const CommunicatorOptions& options = {});

/// Collective: whether all ranks gave the same value, e.g. a hash of what they hold; the same answer on every rank. One
/// allreduce of 16 bytes.
[[nodiscard]] bool same_on_all_ranks(std::uint64_t value, Communicator& comm);

/// How many collective calls this thread has made so far, of all communicators.
[[nodiscard]] std::uint64_t collective_calls() noexcept;

/// Collective: throws the same UsageError on every rank unless all gave an equal object (or null): "the ranks differ in
/// WHAT", and the first key of rank 0 that another rank has otherwise. Messages as for same_on_all_ranks(), if all are
/// equal.
void prove_equal(const nlohmann::json& object, std::string_view what, Communicator& comm);

/// The names of all backends that this build has.
[[nodiscard]] std::vector<std::string> communicator_names();
/// Those that ranks on `device` can use.
[[nodiscard]] std::vector<std::string> communicator_names(DeviceType device);

}  // namespace mn
