/// The rank of this process in the job and its position on the node, the facts behind them, and the board, through
/// which ranks exchange texts on the launcher's server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/fields.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// Nodes are numbered in the order of their lowest ranks, as in ChainerMN.
struct Layout {
  std::vector<int> nodes;
  std::vector<std::string> hosts;  ///< [number of nodes] name of each node

  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts[static_cast<std::size_t>(node_of(rank))]; }
  [[nodiscard]] int node_of(int rank) const { return nodes[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
};

/// Rank i runs on the launcher's node number ids[i], named names[i]. Different nodes may have equal names.
[[nodiscard]] Layout make_layout(std::span<const int> ids, std::span<const std::string> names);

enum class Launcher {
  kNone,       ///< started by hand: rank 0 of 1
  kPmix,       ///< a PMIx server: Open MPI's mpiexec, PRRTE, srun --mpi=pmix
  kPmi,        ///< a PMI-1 server: MPICH's or Intel's Hydra, Flux
  kSlurm,      ///< a Slurm step without PMIx (srun --mpi=none or pmi2)
  kVariables,  ///< variables alone: Open MPI or Hydra without their servers, MVAPICH2, PALS, ALPS, JSM
};

/// Facts by which rows of the table of launchers (derive_rank.hpp) recognize their launcher.
struct Signs {
  const Variables& variables;
  bool in_slurm_step = false;
  bool is_hydra = false;
  bool is_flux = false;
  bool has_live_pmi = false;  ///< PMI_FD is an open socket: the innermost launcher has a PMI server
};
/// Reads the facts from `variables`, which must outlive the result. If PMI_FD is not an open socket by is_socket(fd),
/// the variable is left over from a launcher that has ended.
[[nodiscard]] Signs read_signs(const Variables& variables, const std::function<bool(int)>& is_socket);

/// What a PMIx or PMI server tells about the job.
struct ServerJob {
  std::string name_space;  ///< slurm.pmix.JOB.STEP for srun; unique to the job
  int rank = 0;
  std::vector<int> node_ids;       ///< [size] the server's number of the rank's node
  std::vector<std::string> hosts;  ///< [size] the server's name of the rank's node
};

/// The value of inter_size if the number of nodes is unknown; inter_rank is then unknown, too.
inline constexpr int kNotKnown = 0;

/// A rank, or the position of a rank on its node, without a valid number.
inline constexpr int kNobody = -1;

/// The position of a rank on its node, and the node's number in the job.
struct NodeNumbers {
  int intra_rank = 0;  ///< position among the node's ranks, which are sorted by rank
  int intra_size = 1;
  int inter_rank = 0;  ///< number of this node: the launcher's; after round 1, ChainerMN's (Layout)
  int inter_size = 1;  ///< or kNotKnown
  MN_FIELDS(intra_rank, intra_size, inter_rank, inter_size);
};

struct Placement : NodeNumbers {
  int rank = 0;
  int size = 1;
  Launcher launcher = Launcher::kNone;
  std::string source;              ///< for people: "PMIx slurm.pmix.7.0", "Hydra", …
  std::string job;                 ///< unique to the job and equal on all its ranks: seeds MASTER_PORT
  std::vector<std::string> hosts;  ///< [inter_size] names of the nodes; empty: not known
  /// Contradictions between variables and the placement's launcher, with both values.
  std::vector<std::string> conflicts;
  std::string error;  ///< why the numbers cannot be right; round 1 turns this into the error of all ranks
};

/// If the variable `name` is set and differs from `value`, notes this in here.conflicts. `meaning` names the value.
void note_conflict(Placement& here, const Variables& variables, const std::string& name, int value,
                   const std::string& meaning);

/// Takes the job's size, the nodes' names, and this rank's node and position from `layout`, for here.rank.
void take_layout(Placement& here, const Layout& layout);

/// Returns the variable's number. If it has none, returns kNobody and sets here.error.
[[nodiscard]] int number_or_error(Placement& here, const Variables& variables, const std::string& name);

/// If a number is wrong, sets here.error for a later report. But if the node's number is wrong, this rank cannot
/// report, so the function throws UsageError.
void check_ranges(Placement& here);

/// Rank 0's address and port (MASTER_ADDR and MASTER_PORT). An empty address is unknown and not exported.
struct Master {
  std::string address;
  int port = 0;
  MN_FIELDS(address, port);
};

/// Some ranks of the job did not come to a fence (Board::fence()) in time.
class FenceTimeout : public Error {
 public:
  explicit FenceTimeout(const std::string& what, std::vector<int> absent = {})
      : Error(what), missing(std::move(absent)) {}
  std::vector<int> missing;  ///< ranks that never came; empty if the server does not tell
};

/// Texts on a launcher's server, through which the ranks of a job learn each other's addresses.
class Board {
 public:
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Stores `text`, at most 1,000 printable characters without a blank. All ranks can read it after the next fence().
  virtual void put(const std::string& key, const std::string& text) = 0;
  /// Collective: waits for all ranks of the job; then each can read the texts of all. Throws FenceTimeout.
  virtual void fence() = 0;
  /// The text that rank `rank` has stored under `key`; no value if there is none.
  [[nodiscard]] virtual std::optional<std::string> get(int rank, const std::string& key) = 0;
};

/// The answer of a launcher's server: a board, and a description of the job.
struct JobServer {
  std::unique_ptr<Board> board;  ///< null: no server was asked, or none answers
  std::optional<ServerJob> job;  ///< no value if `board` is null
  std::string why_silent;        ///< why a PMIx server does not answer; else empty
};

}  // namespace mn::launcher
