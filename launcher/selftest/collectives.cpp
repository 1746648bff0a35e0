#include "selftest/collectives.hpp"

#include <cstdint>
#include <vector>

namespace mn::selftest {
namespace {

constexpr std::size_t kTerms = 64;

}  // namespace

std::string test_ring(Communicator& comm) {
  std::vector<std::int64_t> token = {0};
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  if (comm.size() == 1) return "one rank only";
  if (comm.rank() != 0) comm.recv(token, previous);
  token[0] += comm.rank();
  comm.send(token, next);
  if (comm.rank() == 0) comm.recv(token, previous);
  const std::int64_t expected = std::int64_t{comm.size()} * (comm.size() - 1) / 2;
  return comm.rank() != 0 || token[0] == expected ? "passed" : "FAILED: the ring's sum is " + std::to_string(token[0]);
}

float term(std::size_t i, int rank) { return static_cast<float>((i + static_cast<std::size_t>(rank)) % kTerms); }

float sum_of_terms(std::size_t i, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::size_t sum = ranks / kTerms * (kTerms * (kTerms - 1) / 2);
  for (std::size_t rank = ranks / kTerms * kTerms; rank < ranks; ++rank) sum += (i + rank) % kTerms;
  return static_cast<float>(sum);
}

std::string test_allreduce(Communicator& comm) {
  std::int32_t wrong = 0;
  for (const std::size_t count : {1UL, 1027UL, 1UL << 18}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = term(i, comm.rank());
    comm.allreduce(values);
    for (std::size_t i = 0; i < count; ++i) wrong += values[i] != sum_of_terms(i, comm.size());
  }
  std::vector<std::int32_t> total = {wrong};
  comm.allreduce(total);
  return total[0] == 0 ? "passed" : "FAILED: " + std::to_string(total[0]) + " wrong sums over all ranks";
}

}  // namespace mn::selftest
