// One data-parallel training step of ResNet-50 on simulated ranks (SimGrid's SMPI). The reductions are mn's own code on
// real data, whose sums are checked: MessageReducer, the schedule of pieces and slices that NodeReducer runs on
// CPUs, and the one that GpuNodeSum runs on GPUs. Computation is simulated time; what NodeReducer does in
// shared memory are messages over the node's simulated buses, and what NCCL does are times (gpu_pieces.hpp). What it
// leaves out: stragglers, the time of additions, a network card's and MPI's own protocols.
//
// step_model ALGORITHM SCALE STEP_SECONDS OVERLAP
//   ALGORITHM        flat, hierarchical or two_dimensional, as on CPUs; two_dimensional_gpu
//   SCALE            gradients are this much smaller, as bandwidths must be
//   STEP_SECONDS     forward and backward of one GPU; 0: the allreduce alone
//   OVERLAP          1: every second rank is the communication stream of the rank before, on the same host
#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>
#include <smpi/smpi.h>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/comm/node/slice_exchange.hpp>
#include <mn/core/log.hpp>
#include <mn/gradients/bucket.hpp>

#include "tests/scaling/bus_node.hpp"
#include "tests/scaling/gpu_pieces.hpp"
#include "tests/scaling/resnet50.hpp"

namespace mn {

/// The model needs no more of logging.
void log(Severity /*severity*/, std::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
}

namespace {

constexpr std::size_t kBucketBytes = 4 << 20;  // the optimizer's, before it tunes them
constexpr std::size_t kFirstBucketBytes = kBucketBytes / 4;
using scaling::kSum;

struct Options {
  std::string algorithm;
  std::size_t scale;
  double step_seconds;
  bool overlap;
};

/// The reducer's slices of at most `bytes`, scaled like everything else, so that messages are as many as at full size.
std::size_t most_elements(std::size_t bytes, int ranks, std::size_t scale) {
  const std::size_t most = std::min(bytes, MessageReducer::kScratchBytes / static_cast<std::size_t>(ranks));
  return std::max<std::size_t>(most / sizeof(float) / scale, 1);
}

/// "n12-g3" is GPU 3 of node n12.
std::string simulated_node() {
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  mpi_check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  const std::string host(name, static_cast<std::size_t>(length));
  return host.substr(0, host.find('-'));
}

/// The ranks that communicate, and mn's reductions between them.
class Ranks {
 public:
  Ranks(MPI_Comm comm, const std::string& algorithm, std::size_t scale)
      : scale_(scale),
        all_(Mpi::duplicate(comm)),
        topology_(find()),
        node_(Mpi::split(all_.get(), topology_.inter_rank, all_.rank())) {
    if (algorithm == "flat") {
      set_mpi_count_limit(most_elements(MessageReducer::kSliceBytes, all_.size(), scale));
      flat_.emplace(all_.get());
      return;
    }
    if (algorithm == "two_dimensional_gpu") {
      peers_ = Mpi::split(all_.get(), topology_.intra_rank, all_.rank());
      gpus_.emplace(peers_.get());
      return;
    }
    const auto between = algorithm == "hierarchical" ? BetweenNodes::kLeaders : BetweenNodes::kSlices;
    set_mpi_count_limit(most_elements(MessageReducer::kScratchBytes, topology_.inter_size, scale));
    exchange_.emplace(all_.get(), topology_, between);
  }

  [[nodiscard]] const Topology& topology() const { return topology_; }
  /// The ranks whose gradients this one begins with: on GPUs the node's, as NCCL takes time alone.
  [[nodiscard]] std::vector<int> summed_at_start() const {
    return gpus_ ? topology_.ranks_of(topology_.inter_rank) : std::vector<int>{topology_.rank};
  }
  /// Where the sums of `data` lie on this rank.
  [[nodiscard]] std::vector<scaling::GpuPieces::Part> sums(std::vector<float>& data) const {
    return gpus_ ? parts_ : std::vector<scaling::GpuPieces::Part>{{data.data(), data.size()}};
  }

  void allreduce(float* data, std::size_t count) {
    if (flat_) return flat_->allreduce(data, count, kSum);
    if (gpus_) return allreduce_on_gpus(data, count);
    const std::size_t most = exchange_->piece_elements(count, sizeof(float));
    scaling::BusNode node(node_.get(), *exchange_, data, most);
    exchange_->allreduce(reinterpret_cast<std::byte*>(data), count, most, kSum, node);
  }

 private:
  [[nodiscard]] Topology find() const {
    const auto nodes = allgather_texts(all_.get(), simulated_node());
    return make_topology(all_.rank(), nodes, nodes);
  }

  void allreduce_on_gpus(float* data, std::size_t count) {
    scaling::GpuPieces pieces(data, count, static_cast<std::size_t>(topology_.intra_rank),
                              static_cast<std::size_t>(topology_.intra_size), scale_, parts_);
    HostPieces::allreduce(pieces.pieces(), pieces.most_elements(), kSum.dtype, &*gpus_, pieces);
    pieces.finish();
  }

  std::size_t scale_;
  Mpi all_;
  Topology topology_;
  Mpi node_;
  Mpi peers_;
  std::optional<MessageReducer> flat_;
  std::optional<MessageReducer> gpus_;  // between nodes
  std::vector<scaling::GpuPieces::Part> parts_;
  std::optional<SliceExchange> exchange_;
};

/// The scaled gradients, cut into buckets as the optimizer cuts them.
struct Plan {
  explicit Plan(std::size_t scale) {
    const auto gradients = scaling::resnet50_backward();
    std::vector<std::size_t> bytes;
    for (const auto& each : gradients) bytes.push_back(each.count * sizeof(float));
    for (const Bucket& bucket : plan_buckets(bytes, kBucketBytes, kFirstBucketBytes)) {
      counts.push_back(bucket.bytes / sizeof(float) / scale);
      shares.push_back(0);
      for (std::size_t i = bucket.first; i < bucket.first + bucket.count; ++i) shares.back() += gradients[i].share;
      total += counts.back();
    }
  }
  std::vector<std::size_t> counts;  ///< elements of each bucket
  std::vector<double> shares;       ///< each bucket's part of backward's time
  std::size_t total = 0;
};

/// Small integers, whose sums are exact.
float value(int rank, std::size_t i) { return static_cast<float>(rank % 7 + static_cast<int>(i % 5)); }

std::vector<float> gradients(const std::vector<int>& ranks, const Plan& plan) {
  std::vector<float> data(plan.total);
  for (const int rank : ranks) {
    for (std::size_t i = 0; i < plan.total; ++i) data[i] += value(rank, i);
  }
  return data;
}

std::size_t wrong_sums(std::vector<float>& data, const Ranks& reduced, int ranks) {
  float of_ranks = 0;
  for (int r = 0; r < ranks; ++r) of_ranks += static_cast<float>(r % 7);
  std::size_t wrong = 0;
  for (const auto& [first, count] : reduced.sums(data)) {
    const auto begin = static_cast<std::size_t>(first - data.data());
    for (std::size_t i = begin; i < begin + count; ++i) {
      wrong += data[i] != of_ranks + static_cast<float>(ranks) * static_cast<float>(i % 5);
    }
  }
  return wrong;
}

void compute(double seconds) {
  if (seconds > 0) smpi_execute_benched(seconds);
}

constexpr double kForward = 1.0 / 3;  // backward takes twice as long

/// All of backward, then one allreduce of everything.
void plain_step(const Options& options, Ranks& ranks, std::vector<float>& data, const Plan& plan) {
  compute(options.step_seconds);
  ranks.allreduce(data.data(), plan.total);
}

/// The computing rank: tells its stream when a bucket is full, and waits for the last.
void computing_step(const Options& options, const Plan& plan, int stream) {
  char token = 0;
  compute(options.step_seconds * kForward);
  for (const double share : plan.shares) {
    compute(options.step_seconds * (1 - kForward) * share);
    mpi_check(MPI_Send(&token, 1, MPI_CHAR, stream, 1, MPI_COMM_WORLD));
  }
  mpi_check(MPI_Recv(&token, 1, MPI_CHAR, stream, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/// Its communication stream.
void communicating_step(Ranks& ranks, std::vector<float>& data, const Plan& plan, int computer) {
  char token = 0;
  std::size_t first = 0;
  for (const std::size_t count : plan.counts) {
    mpi_check(MPI_Recv(&token, 1, MPI_CHAR, computer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ranks.allreduce(data.data() + first, count);
    first += count;
  }
  mpi_check(MPI_Send(&token, 1, MPI_CHAR, computer, 2, MPI_COMM_WORLD));
}

int run(const Options& options) {
  int rank = 0;
  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  const bool computes_only = options.overlap && rank % 2 == 0;
  const Mpi mine = Mpi::split(MPI_COMM_WORLD, computes_only ? 1 : 0, rank);
  const Plan plan(options.scale);
  std::optional<Ranks> ranks;
  std::vector<float> data;
  if (!computes_only) {
    ranks.emplace(mine.get(), options.algorithm, options.scale);
    data = gradients(ranks->summed_at_start(), plan);
  }
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));
  const double start = MPI_Wtime();
  if (computes_only) {
    computing_step(options, plan, rank + 1);
  } else if (options.overlap) {
    communicating_step(*ranks, data, plan, rank - 1);
  } else {
    plain_step(options, *ranks, data, plan);
  }
  double seconds = MPI_Wtime() - start;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  auto wrong = static_cast<double>(ranks ? wrong_sums(data, *ranks, mine.size()) : 0);
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
  if (rank == 0) {
    std::printf("RESULT ranks %d algorithm %s overlap %d seconds %.9f wrong %.0f\n", mine.size(),
                options.algorithm.c_str(), options.overlap ? 1 : 0, seconds, wrong);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 2;
  if (argc == 5) {
    status = mn::run({argv[1], std::strtoul(argv[2], nullptr, 10), std::atof(argv[3]), std::atoi(argv[4]) != 0});
  } else {
    std::fprintf(stderr, "usage: step_model ALGORITHM SCALE STEP_SECONDS OVERLAP\n");
  }
  MPI_Finalize();
  return status;
}
