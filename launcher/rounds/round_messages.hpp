/// What ranks, leaders and the root tell each other in the rounds of the comparison, as CBOR.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bind/binding.hpp"
#include "facts/facts.hpp"
#include "place/placement.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

/// Why a rank cannot go on.
struct Failure {
  int rank = 0;
  std::string host;
  int exit_code = 1;
  std::string text;
};

/// Ranks of a node that are missing from a round; -1 for each whose number is not known yet.
struct Absence {
  std::vector<int> late;   ///< they did not come in time
  std::vector<int> ended;  ///< they came, and ended
};

/// What the root decided.
struct Decision {
  Verdict verdict;
  int speaker = 0;  ///< the rank that prints it
};

// Round 1: who is here.

struct Arrival {
  int rank = kNobody;
  int intra_size = 1;                ///< as this rank's launcher tells it
  std::optional<int> master_port;    ///< rank 0's
  std::string marker;                ///< rank 0's: name of a file in its output folder; empty: none
  std::vector<std::string> options;  ///< words_of_all_ranks()
  std::optional<Failure> failure;    ///< why there is no more
  std::optional<int> position;       ///< on its node, as its leader counts; none for one that nobody waits for
};

struct NodeArrival {
  std::string host;
  std::vector<Arrival> ranks;  ///< those that came
  Absence absence;
  std::string address;  ///< by which other nodes reach this one, as it says itself
  int port = 0;         ///< port of the leader's listener
};

/// The root's answer.
struct Start {
  Verdict verdict;
  int speaker_node = 0;      ///< the launcher's number of it
  int speaker_position = 0;  ///< there: several may say that they are one rank, and only one may speak
  int inter_size = 1;
  std::vector<int> inter_ranks;  ///< by the launcher's number of the node
  std::vector<int> ports;        ///< ports of the leaders' listeners
  std::string master_address;
  int master_port = 0;
  int master_node = 0;  ///< the launcher's number of rank 0's node
  std::string marker;
};

/// A leader's to a rank of its node.
struct StartShare {
  Verdict verdict;
  Master master;
  NodeNumbers numbers;
};

// Round 2: what everyone found, and whether the job may start. The answer is a Decision.

struct RankReport {
  std::optional<RankFacts> facts;
  std::optional<Failure> failure;  ///< why there are none
};

struct NodeReport {
  NodeFacts node;
  double sent_at = 0;             ///< seconds since the epoch, by the node's clock
  std::vector<RankFacts> ranks;   ///< by rank
  std::vector<Binding> bindings;  ///< the same
  std::vector<Failure> failures;  ///< if there are any, the rest is incomplete
  Absence absence;                ///< the same
};

/// A leader's to a rank of its node.
struct VerdictShare {
  Verdict verdict;
  Binding binding;
};

// Round 3: whether everyone could prepare the start. The answer is a Decision.

struct Readiness {
  std::vector<Failure> failures;
  Absence absence;
};

/// For the structs above, and for Verdict. from_message throws DataError that begins with `what`.
template <typename Message>
[[nodiscard]] std::string to_message(const Message& message);
template <typename Message>
[[nodiscard]] Message from_message(std::string_view bytes, const std::string& what);

}  // namespace mn::launcher
