#include <algorithm>
#include <numeric>
#include <vector>

#include <mn/comm/mpi.hpp>
#include <mn/comm/rank_groups.hpp>

namespace mn {

bool includes(const Communicator& group, const Communicator& part) {
  if (&part == &group || part.size() == 1) return true;
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  mpi_check(MPI_Comm_group(group.mpi_comm(), &all), "MPI_Comm_group");
  mpi_check(MPI_Comm_group(part.mpi_comm(), &some), "MPI_Comm_group");
  std::vector<int> ranks(static_cast<std::size_t>(part.size())), found(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  mpi_check(MPI_Group_translate_ranks(some, part.size(), ranks.data(), all, found.data()), "MPI_Group_translate_ranks");
  MPI_Group_free(&all);
  MPI_Group_free(&some);
  return std::ranges::find(found, MPI_UNDEFINED) == found.end();
}

}  // namespace mn
