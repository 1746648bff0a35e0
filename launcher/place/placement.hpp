/// Declares the rank and position of this process, the facts from environment variables behind them, and the texts that
/// a launcher's server stores.
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

/// The node of each rank. Nodes are numbered as ChainerMN does, by their lowest rank.
struct Layout {
  std::vector<int> nodes;          ///< [size] node of each rank
  std::vector<std::string> hosts;  ///< [number of nodes] name of each node

  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts[static_cast<std::size_t>(node_of(rank))]; }
  [[nodiscard]] int node_of(int rank) const { return nodes[static_cast<std::size_t>(rank)]; }
  /// The ranks of `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
};

/// The layout of a job whose rank i runs on the node that the launcher calls ids[i] and names names[i]. Ids tell nodes
/// apart; names may repeat.
[[nodiscard]] Layout make_layout(std::span<const int> ids, std::span<const std::string> names);

enum class Launcher {
  kNone,       ///< started by hand: rank 0 of 1
  kPmix,       ///< a PMIx server: Open MPI's mpiexec, PRRTE, srun --mpi=pmix
  kPmi,        ///< a PMI-1 server: MPICH's or Intel's Hydra, Flux
  kSlurm,      ///< a Slurm step without PMIx (srun --mpi=none or pmi2)
  kVariables,  ///< variables alone: Open MPI or Hydra without their servers, MVAPICH2, PALS, ALPS, JSM
};

/// Facts from the launchers' variables that several rows of the table of launchers need.
struct Signs {
  const Variables& variables;
  bool in_slurm_step = false;
  bool is_hydra = false;
  bool is_flux = false;
  bool has_live_pmi = false;  ///< PMI_FD is an open socket: the innermost launcher has a PMI server
};
/// `is_socket(fd)` returns whether the descriptor is an open socket of this process. If it is not, PMI_FD is left over
/// from a launcher that has ended. `variables` must outlive the result.
[[nodiscard]] Signs read_signs(const Variables& variables, const std::function<bool(int)>& is_socket);

/// A PMIx or PMI server's description of the job.
struct ServerJob {
  std::string name_space;  ///< slurm.pmix.JOB.STEP for srun; unique to the job
  int rank = 0;
  std::vector<int> node_ids;       ///< [size] the server's number for the node of each rank
  std::vector<std::string> hosts;  ///< [size] the server's name for that node
};

/// Value of inter_size if the job has several nodes, but the launcher does not tell how many. inter_rank is unknown,
/// too.
inline constexpr int kNotKnown = 0;

/// Stands for the number or position of a rank if no valid value is known.
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
  /// Contradictions between environment variables and the launcher that gave the placement. Each text names the two
  /// values.
  std::vector<std::string> conflicts;
  std::string error;  ///< why the numbers cannot be right; round 1 makes this the error of all ranks
};

/// Adds a conflict if the variable `name` is set and differs from `value`. `meaning` tells what `value` is, for example
/// "local rank".
void note_conflict(Placement& here, const Variables& variables, const std::string& name, int value,
                   const std::string& meaning);

/// Fills size, node, position and hosts from the layout and here.rank.
void take_layout(Placement& here, const Layout& layout);

/// The number in the variable `name`. If the variable has no number, returns kNobody and sets here.error.
[[nodiscard]] int number_or_error(Placement& here, const Variables& variables, const std::string& name);

/// Sets here.error if a number is out of range. Throws UsageError if the node's number is out of range, because this
/// rank then cannot report an error to other ranks.
void check_ranges(Placement& here);

/// Where rank 0 can be reached. An empty address is unknown and not exported.
struct Master {
  std::string address;
  int port = 0;
  MN_FIELDS(address, port);
};

/// The error that some ranks of the job did not come to a fence in time.
class FenceTimeout : public Error {
 public:
  explicit FenceTimeout(const std::string& what, std::vector<int> absent = {})
      : Error(what), missing(std::move(absent)) {}
  std::vector<int> missing;  ///< ranks that never came; empty if the server does not tell
};

/// Texts that a launcher's server stores for the ranks of a job. By these texts the ranks learn each other's addresses.
class Board {
 public:
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Stores `text` on the server. All ranks can read it after the next fence(). `text` has at most 1,000 printable
  /// characters and no blank.
  virtual void put(const std::string& key, const std::string& text) = 0;
  /// Collective over all ranks of the job: texts put before the fence can be read after it. Throws FenceTimeout.
  virtual void fence() = 0;
  /// The text that `rank` put for `key`; no value if `rank` put no text.
  [[nodiscard]] virtual std::optional<std::string> get(int rank, const std::string& key) = 0;
};

/// A launcher's server that was asked about the job.
struct JobServer {
  std::unique_ptr<Board> board;  ///< null: no server was asked, or it does not answer
  std::optional<ServerJob> job;  ///< no value if `board` is null
  std::string why_silent;        ///< why a PMIx server does not answer; else empty
};

}  // namespace mn::launcher
