#include "selftest/collectives.hpp"

#include <cstdint>
#include <vector>

namespace mn::selftest {

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

std::string test_allreduce(Communicator& comm) {
  const auto rank_sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  std::int32_t wrong = 0;
  for (const std::size_t count : {1UL, 1027UL, 1UL << 18}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 64) * static_cast<float>(comm.rank() + 1);
    comm.allreduce(values);
    for (std::size_t i = 0; i < count; ++i) wrong += values[i] != static_cast<float>(i % 64) * rank_sum;
  }
  std::vector<std::int32_t> total = {wrong};
  comm.allreduce(total);
  return total[0] == 0 ? "passed" : "FAILED: " + std::to_string(total[0]) + " wrong sums over all ranks";
}

}  // namespace mn::selftest
