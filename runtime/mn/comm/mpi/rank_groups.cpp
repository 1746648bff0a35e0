#include <mn/comm/mpi/rank_groups.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  mpi_check(MPI_Comm_group(group, &all), "MPI_Comm_group");
  mpi_check(MPI_Comm_group(part, &some), "MPI_Comm_group");
  int size = 0;
  mpi_check(MPI_Group_size(some, &size), "MPI_Group_size");
  std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  mpi_check(MPI_Group_translate_ranks(some, size, ranks.data(), all, found.data()), "MPI_Group_translate_ranks");
  MPI_Group_free(&all);
  MPI_Group_free(&some);
  std::ranges::replace(found, MPI_UNDEFINED, -1);
  return found;
}

bool includes(MPI_Comm group, MPI_Comm part) {
  if (part == group) return true;
  const std::vector<int> found = ranks_in(group, part);
  return std::ranges::find(found, -1) == found.end();
}

}  // namespace mn
