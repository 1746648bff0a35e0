/// Tests large counts with little memory.
#pragma once

#include <climits>
#include <cstddef>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

/// While an object lives, an MPI message has at most `limit` elements, as if MPI's counts were smaller than an int.
class CountLimit {
 public:
  explicit CountLimit(std::size_t limit) { set_mpi_count_limit(limit); }
  ~CountLimit() { set_mpi_count_limit(INT_MAX); }
  CountLimit(const CountLimit&) = delete;
  CountLimit& operator=(const CountLimit&) = delete;
};

}  // namespace mn
