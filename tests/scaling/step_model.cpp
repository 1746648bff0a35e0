// One data-parallel training step of ResNet-50 on simulated ranks (SimGrid's SMPI). The reductions are mn's own code on
// real data, whose sums are checked; computation is simulated time; stages within a node are messages over the node's
// simulated buses, since GPUs share no memory with the CPU. What it leaves out: stragglers, the time of additions, a
// network card's and MPI's own protocols, copies between GPU and host.
//
// step_model ALGORITHM SCALE STEP_SECONDS OVERLAP
//   ALGORITHM        flat, hierarchical or two_dimensional
//   SCALE            gradients are this much smaller, as bandwidths must be
//   STEP_SECONDS     forward and backward of one GPU; 0: the allreduce alone
//   OVERLAP          1: every second rank is the communication stream of the rank before, on the same host
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>
#include <smpi/smpi.h>

#include <mn/comm/bucket.hpp>
#include <mn/comm/mpi.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/topology.hpp>
#include <mn/core/log.hpp>

#include "tests/scaling/resnet50.hpp"

namespace mn {

/// The model needs no more of logging.
void log(Severity /*severity*/, std::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
}

namespace {

constexpr std::size_t kBucketBytes = 25 << 20;
constexpr std::size_t kFirstBucketBytes = 1 << 20;
constexpr Reduction kSum{DType::kFloat32, ReduceOp::kSum};

struct Options {
  std::string algorithm;
  std::size_t scale;
  double step_seconds;
  bool overlap;
};

/// Between nodes the reducer's own slices, scaled like everything else, so that messages are as many as at full size.
std::size_t network_slice(int ranks, std::size_t scale) {
  const std::size_t bytes =
      std::min(OrderedReducer::kSliceBytes, OrderedReducer::kScratchBytes / static_cast<std::size_t>(ranks));
  return std::max<std::size_t>(bytes / sizeof(float) / scale, 1);
}

/// On a node's buses: what a GPU takes at a time is not bound by a CPU's cache.
std::size_t bus_slice(std::size_t scale) { return (4 << 20) / sizeof(float) / scale; }

/// "n12-g3" is GPU 3 of node n12.
std::string simulated_node() {
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  mpi_check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  const std::string host(name, static_cast<std::size_t>(length));
  return host.substr(0, host.find('-'));
}

/// The ranks that communicate, and the algorithms between them, made of mn's reducers.
class Ranks {
 public:
  Ranks(MPI_Comm comm, std::size_t scale)
      : all_(Mpi::duplicate(comm)),
        topology_(find()),
        node_(Mpi::split(all_.get(), topology_.inter_rank, all_.rank())),
        peers_(Mpi::split(all_.get(), topology_.intra_rank, all_.rank())),
        flat_(all_.get(), network_slice(all_.size(), scale)),
        in_node_(node_.get(), bus_slice(scale)),
        between_nodes_(peers_.get(), network_slice(peers_.size(), scale)) {}

  [[nodiscard]] const Topology& topology() const { return topology_; }

  void allreduce(const std::string& algorithm, float* data, std::size_t count) {
    if (algorithm == "flat") return flat_.allreduce(data, count, kSum);
    stages(data, count, algorithm == "hierarchical");
  }

 private:
  [[nodiscard]] Topology find() const {
    const auto nodes = allgather_texts(all_.get(), simulated_node());
    return make_topology(all_.rank(), nodes, nodes);
  }

  /// Reduce-scatter in the node; between nodes each rank its part, or the leaders everything; allgather in the node.
  void stages(float* data, std::size_t count, bool leaders) {
    const auto ranks = static_cast<std::size_t>(topology_.intra_size);
    const std::size_t part = (count + ranks - 1) / ranks;  // buffers have room for the last, padded part
    float* own = data + part * static_cast<std::size_t>(topology_.intra_rank);
    in_node_.reduce_scatter(data, own, part, kSum);
    const auto elements = static_cast<int>(part);
    if (!leaders) {
      between_nodes_.allreduce(own, part, kSum);
    } else {
      const bool leader = topology_.intra_rank == 0;
      mpi_check(
          MPI_Gather(leader ? MPI_IN_PLACE : own, elements, MPI_FLOAT, data, elements, MPI_FLOAT, 0, node_.get()));
      if (leader) between_nodes_.allreduce(data, part * ranks, kSum);
      mpi_check(
          MPI_Scatter(data, elements, MPI_FLOAT, leader ? MPI_IN_PLACE : own, elements, MPI_FLOAT, 0, node_.get()));
    }
    mpi_check(MPI_Allgather(MPI_IN_PLACE, elements, MPI_FLOAT, data, elements, MPI_FLOAT, node_.get()));
  }

  Mpi all_;
  Topology topology_;
  Mpi node_;
  Mpi peers_;
  OrderedReducer flat_;
  OrderedReducer in_node_;
  OrderedReducer between_nodes_;
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
  std::vector<double> shares;       ///< of backward's time
  std::size_t total = 0;
};

/// Small integers, whose sums are exact.
float value(int rank, std::size_t i) { return static_cast<float>(rank % 7 + static_cast<int>(i % 5)); }

std::vector<float> gradients(int rank, const Plan& plan, std::size_t padding) {
  std::vector<float> data(plan.total + padding);
  for (std::size_t i = 0; i < plan.total; ++i) data[i] = value(rank, i);
  return data;
}

std::size_t wrong_sums(const std::vector<float>& data, const Plan& plan, int ranks) {
  float of_ranks = 0;
  for (int r = 0; r < ranks; ++r) of_ranks += static_cast<float>(r % 7);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < plan.total; ++i) {
    wrong += data[i] != of_ranks + static_cast<float>(ranks) * static_cast<float>(i % 5);
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
  ranks.allreduce(options.algorithm, data.data(), plan.total);
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

/// Its communication stream. Buckets are reduced in a buffer of their own, with room for what stages pad them with.
void communicating_step(const Options& options, Ranks& ranks, std::vector<float>& data, const Plan& plan,
                        int computer) {
  char token = 0;
  std::size_t first = 0;
  std::vector<float> bucket(*std::max_element(plan.counts.begin(), plan.counts.end()) + data.size() - plan.total);
  for (const std::size_t count : plan.counts) {
    mpi_check(MPI_Recv(&token, 1, MPI_CHAR, computer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    std::memcpy(bucket.data(), data.data() + first, count * sizeof(float));
    ranks.allreduce(options.algorithm, bucket.data(), count);
    std::memcpy(data.data() + first, bucket.data(), count * sizeof(float));
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
    ranks.emplace(mine.get(), options.scale);
    data = gradients(ranks->topology().rank, plan, static_cast<std::size_t>(ranks->topology().intra_size));
  }
  mpi_check(MPI_Barrier(MPI_COMM_WORLD));
  const double start = MPI_Wtime();
  if (computes_only) {
    computing_step(options, plan, rank + 1);
  } else if (options.overlap) {
    communicating_step(options, *ranks, data, plan, rank - 1);
  } else {
    plain_step(options, *ranks, data, plan);
  }
  double seconds = MPI_Wtime() - start;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  auto wrong = static_cast<double>(ranks ? wrong_sums(data, plan, mine.size()) : 0);
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
