// mpiexec -n N pmix_fence: what mnlaunch would do without an exchange of its own: each rank puts as much as a node's
// facts take, meets the others in a fence that collects it, and rank 0 gets it all. launch_cost measures it.
#include <chrono>
#include <string>

#include "launcher/place/ask_pmix_server.hpp"

int main() {
  using namespace mn::launcher;
  constexpr std::size_t kBytes = 4096;
  const JobServer server = ask_pmix_server(Variables::of_this_process(), {}, std::chrono::seconds(60));
  if (!server.job) return 1;
  server.board->put("facts", std::string(kBytes, 'x'));
  server.board->fence();
  const auto& job = *server.job;
  for (int rank = 0; job.rank == 0 && rank < static_cast<int>(job.hosts.size()); ++rank) {
    if (server.board->get(rank, "facts").value_or("").size() != kBytes) return 1;
  }
}
