/// The table of backends.
#pragma once

#include <memory>
#include <string_view>

#include <mn/comm/communicator.hpp>

namespace mn {

/// An entry of the table.
struct Backend {
  std::string_view name;
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup);
};

/// Collective: the backend that `setup.name` names, in the form for GPUs where every rank has one. Throws UsageError
/// that lists the names for any other.
[[nodiscard]] std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup);

// The table's entries, each defined in the file of its name.
[[nodiscard]] std::shared_ptr<Communicator> make_naive(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_two_dimensional(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_single_node(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_dummy(CommunicatorSetup setup);

}  // namespace mn
