#include <mn/comm/messages/network_costs.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/messages/message_steps.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr int kTrials = 3;
constexpr int kTextBytes = 128;  // room for the value of MN_NETWORK
constexpr std::size_t kShortBytes = 8;
constexpr std::size_t kTrialBytes = 64 * 1024;  // from a rank to all others together, like kLongBytes
constexpr std::size_t kLongBytes = 1024 * 1024;
constexpr double kLong_s = 8e-3;

template <class Call>
double shortest(const Call& call) {
  double best = std::numeric_limits<double>::max();
  for (int trial = 0; trial < kTrials; ++trial) {
    const double begin = MPI_Wtime();
    call();
    best = std::min(best, MPI_Wtime() - begin);
  }
  return best;
}

/// The ranks whose messages are timed. `memory` has room for `bytes` bytes of each rank.
struct Peers {
  void exchange_all(std::size_t bytes, std::span<std::byte> memory) const {
    const auto step = [&](std::size_t source, std::size_t /*dest*/) -> MessageSteps::Step {
      return {memory.subspan(source * bytes, bytes), memory.subspan(static_cast<std::size_t>(rank) * bytes, bytes)};
    };
    MessageSteps(comm, bytes, "measuring the network", step).finish();
  }
  /// Returns the time, in seconds, of the slowest rank. All ranks compute an equal message size from this time.
  [[nodiscard]] double slowest_trial(std::size_t bytes, std::span<std::byte> memory) const {
    const double begin = MPI_Wtime();
    exchange_all(bytes, memory);
    const KeptForMpi<double> seconds(MPI_Wtime() - begin);
    call_mpi(MPI_Allreduce, MPI_Iallreduce, "measuring the network", 0, MPI_IN_PLACE, &*seconds, 1, MPI_DOUBLE, MPI_MAX,
             comm);
    return *seconds;
  }

  MPI_Comm comm;
  int rank = rank_in(comm);
  int size = size_of(comm);
};

NetworkCosts measure(MPI_Comm comm) {
  const Peers peers{comm};
  if (peers.size == 1) return {};
  const auto size = static_cast<std::size_t>(peers.size);
  const auto of_each = [&](std::size_t bytes) { return std::max(bytes / size, 2 * kShortBytes); };
  const KeptForMpi kept(std::vector<std::byte>(of_each(kLongBytes) * size));
  std::vector<std::byte>& memory = *kept;
  peers.exchange_all(kShortBytes, memory);  // lets MPI make its connections
  NetworkCosts costs;
  costs.latency_s = shortest([&] {
    std::array<MPI_Request, 2> requests;
    const int source = (peers.rank + peers.size - 1) % peers.size;
    mpi_check(MPI_Irecv(memory.data() + 1, 1, MPI_BYTE, source, kInternalTag, comm, &requests[0]));
    mpi_check(MPI_Isend(memory.data(), 1, MPI_BYTE, (peers.rank + 1) % peers.size, kInternalTag, comm, &requests[1]));
    mpi_wait(requests, "measuring the network");
  });
  const double short_s = shortest([&] { peers.exchange_all(kShortBytes, memory); });
  const std::size_t most = of_each(bytes_to_measure(peers.slowest_trial(of_each(kTrialBytes), memory), kTrialBytes));
  const double long_s = shortest([&] { peers.exchange_all(most, memory); });
  const double others = peers.size - 1;
  costs.message_s = std::max(short_s - costs.latency_s, short_s / 10) / others;
  costs.bytes_per_s = others * static_cast<double>(most - kShortBytes) / std::max(long_s - short_s, long_s / 10);
  return costs;
}

/// Collective: returns the greatest measured costs. `counts` is false on a rank that has measured nothing.
NetworkCosts agree(MPI_Comm comm, bool counts, const NetworkCosts& mine) {
  const KeptForMpi<std::array<double, 3>> most({});
  if (counts) *most = {mine.latency_s, mine.message_s, 1 / mine.bytes_per_s};
  call_mpi(MPI_Allreduce, MPI_Iallreduce, "comparing the network's costs", sizeof *most, MPI_IN_PLACE, most->data(), 3,
           MPI_DOUBLE, MPI_MAX, comm);
  return {(*most)[0], (*most)[1], 1 / (*most)[2]};
}

NetworkCosts parse(const std::string& text) {
  double latency_us = 0;
  double message_us = 0;
  double gigabytes = 0;
  char commas[2] = {};
  char more = 0;
  InText words(text);
  words >> latency_us >> commas[0] >> message_us >> commas[1] >> gigabytes;
  const bool is_read = words && commas[0] == ',' && commas[1] == ',' && !(words >> more);
  if (!is_read || !(latency_us > 0) || !(message_us > 0) || !(gigabytes > 0)) {
    throw UsageError("MN_NETWORK is \"" + text +
                     "\"; it takes three numbers above 0, LATENCY_US,MESSAGE_US,GB_PER_S: MN_NETWORK=5,1,6");
  }
  return {latency_us * 1e-6, message_us * 1e-6, gigabytes * 1e9};
}

}  // namespace

NetworkCosts NetworkCosts::find(MPI_Comm comm, MPI_Comm peers) {
  const KeptForMpi<std::array<char, kTextBytes>> given({});
  environment("MN_NETWORK").value_or("").copy(given->data(), given->size() - 1);
  call_mpi(MPI_Bcast, MPI_Ibcast, "comparing the network's costs", given->size(), given->data(), kTextBytes, MPI_CHAR,
           0, comm);
  if (given->front() != '\0') return parse(given->data());  // invariant 1: all ranks use rank 0's variable
  const bool counts = peers != MPI_COMM_NULL;
  return agree(comm, counts, counts ? measure(peers) : NetworkCosts{});
}

std::size_t bytes_to_measure(double seconds, std::size_t bytes) {
  const double wanted = static_cast<double>(bytes) * kLong_s / std::max(seconds, 1e-9);
  if (wanted >= static_cast<double>(kLongBytes)) return kLongBytes;
  return std::max(static_cast<std::size_t>(wanted), bytes);
}

ExchangeKind quicker_exchange(const NetworkCosts& costs, int ranks, std::size_t bytes) {
  const double n = ranks;
  const double transfer_s = static_cast<double>(bytes) / costs.bytes_per_s;
  const auto steps = static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const double logarithmic_s = 2 * steps * costs.latency_s + (steps / 2 + 1) * transfer_s;
  const double pairwise_s = 2 * (costs.latency_s + (n - 1) * costs.message_s) + 2 * (n - 1) / n * transfer_s;
  return logarithmic_s < pairwise_s ? ExchangeKind::kLogarithmic : ExchangeKind::kPairwise;
}

std::size_t best_pieces(const NetworkCosts& costs, int ranks, std::size_t bytes) {
  // The messages of k pieces take k × messages_s. The work on the first and the last piece takes transfer_s / k. The
  // sum is least at k = sqrt(transfer_s / messages_s).
  const double n = ranks;
  const double messages_s = 2 * (n - 1) * costs.message_s;
  const double transfer_s = 2 * (n - 1) / n * static_cast<double>(bytes) / costs.bytes_per_s;
  return static_cast<std::size_t>(std::max(1.0, std::round(std::sqrt(transfer_s / messages_s))));
}

}  // namespace mn
