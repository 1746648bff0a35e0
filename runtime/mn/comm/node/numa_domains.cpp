#include <mn/comm/node/numa_domains.hpp>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <string>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>

namespace mn {
namespace {

constexpr std::size_t kSliceBytes = 64 * 1024;  // slices of a few ranks fit a core's own cache
constexpr std::size_t kLineElements = 64;       // slices begin on multiples, so two ranks never write to one cache line

/// The NUMA domain of a CPU. -1 if the kernel names no domain for it.
int domain_of_cpu(int cpu) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/cpu/cpu" + std::to_string(cpu), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node")) return std::atoi(name.c_str() + 4);
  }
  return -1;
}

/// The NUMA domain in which the calling rank runs. -1 if the rank may run in several domains.
int own_domain() {
  if (const auto given = environment_int("MN_NUMA_DOMAIN")) return static_cast<int>(*given);
  const std::vector<int> cpus = usable_cpus();
  const int first = domain_of_cpu(cpus.front());
  return std::ranges::all_of(cpus, [&](int cpu) { return domain_of_cpu(cpu) == first; }) ? first : -1;
}

class DomainRank {
 public:
  DomainRank(std::span<std::byte* const> buffers, std::span<const std::size_t> borders, std::size_t rank,
             std::size_t count, const Reduction& reduction)
      : buffers_(buffers), borders_(borders), rank_(rank), count_(count), reduction_(reduction) {
    domains_ = borders.size() - 1;
    std::size_t most_ranks = 0;
    for (std::size_t j = 0; j < domains_; ++j) most_ranks = std::max(most_ranks, borders[j + 1] - borders[j]);
    for (domain_ = 0; borders[domain_ + 1] <= rank; ++domain_) continue;
    assert(borders[domain_] <= rank && rank < borders[domain_ + 1]);
    piece_ = most_ranks * kSliceBytes / size_of(reduction.dtype);
    pieces_ = (count + piece_ - 1) / piece_;
  }

  [[nodiscard]] std::size_t steps() const { return pieces_ + domains_; }
  void step(std::size_t t) const {
    if (t >= domain_ && t - domain_ < pieces_) add(t - domain_);
    if (!is_last() && t >= domains_) copy(t - domains_);
  }

 private:
  struct Slice {
    std::size_t first_byte;
    std::size_t length;  // in elements
  };

  [[nodiscard]] bool is_last() const { return domain_ + 1 == domains_; }
  [[nodiscard]] Slice slice_of(std::size_t piece) const {
    const std::size_t begin = piece * piece_;
    const std::size_t length = std::min(piece_, count_ - begin);
    const std::size_t ranks = borders_[domain_ + 1] - borders_[domain_];
    const std::size_t each = ((piece_ + ranks - 1) / ranks + kLineElements - 1) / kLineElements * kLineElements;
    const std::size_t first = std::min((rank_ - borders_[domain_]) * each, length);
    return {(begin + first) * size_of(reduction_.dtype), std::min(each, length - first)};
  }
  /// Invariant 1: adds this domain's buffers, in rank order, to the sum of the previous domain.
  void add(std::size_t piece) const {
    const Slice slice = slice_of(piece);
    std::vector<const void*> inputs;
    if (domain_ > 0) inputs.push_back(buffers_[borders_[domain_ - 1]] + slice.first_byte);
    for (std::size_t r = borders_[domain_]; r < borders_[domain_ + 1]; ++r) {
      inputs.push_back(buffers_[r] + slice.first_byte);
    }
    std::vector<void*> outputs{buffers_[borders_[domain_]] + slice.first_byte};
    for (std::size_t r = borders_[domain_] + 1; is_last() && r < borders_[domain_ + 1]; ++r) {
      outputs.push_back(buffers_[r] + slice.first_byte);
    }
    reduce_in_order(outputs, inputs, slice.length,
                    {reduction_.dtype, reduction_.op, is_last() ? reduction_.scale : 1.0});
  }
  /// Copies the result to this rank: on the first rank of a domain from the last domain, on the others from the rank
  /// before. So the result crosses the link between domains only once.
  void copy(std::size_t piece) const {
    const Slice slice = slice_of(piece);
    const std::size_t bytes = slice.length * size_of(reduction_.dtype);
    const std::byte* from = buffers_[borders_[domains_ - 1]] + slice.first_byte;
    for (std::size_t r = borders_[domain_]; r < borders_[domain_ + 1]; ++r) {
      std::memcpy(buffers_[r] + slice.first_byte, from, bytes);
      from = buffers_[r] + slice.first_byte;
    }
  }

  std::span<std::byte* const> buffers_;
  std::span<const std::size_t> borders_;
  std::size_t rank_;
  std::size_t count_;
  const Reduction& reduction_;
  std::size_t domains_ = 1;
  std::size_t domain_ = 0;  // domain of this rank
  std::size_t piece_ = 0;   // in elements
  std::size_t pieces_ = 0;
};

}  // namespace

std::vector<std::size_t> domain_borders(std::span<const int> domain_of) {
  std::vector<std::size_t> borders{0};
  std::vector<int> seen{domain_of.front()};
  for (std::size_t r = 1; r < domain_of.size(); ++r) {
    if (domain_of[r] == seen.back()) continue;
    if (std::ranges::find(seen, domain_of[r]) != seen.end()) return {0, domain_of.size()};
    seen.push_back(domain_of[r]);
    borders.push_back(r);
  }
  if (std::ranges::min(seen) < 0) return {0, domain_of.size()};
  borders.push_back(domain_of.size());
  return borders;
}

std::vector<std::size_t> find_domain_borders(MPI_Comm node) {
  const int own = own_domain();
  std::vector<int> all(static_cast<std::size_t>(size_of(node)));
  mpi_check(MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, node), "comparing NUMA domains");
  return domain_borders(all);
}

bool fits_domains(const Reduction& reduction) {
  return reduction.dtype != DType::kFloat16 && reduction.dtype != DType::kBFloat16;
}

void reduce_by_domains(std::span<std::byte* const> buffers, std::span<const std::size_t> borders, std::size_t rank,
                       std::size_t count, const Reduction& reduction, NodeBarrier& barrier) {
  const DomainRank own(buffers, borders, rank, count, reduction);
  for (std::size_t t = 0; t < own.steps(); ++t) {
    own.step(t);
    barrier.arrive_and_wait();  // invariant 2: the next step reads what this step wrote
  }
}

}  // namespace mn
