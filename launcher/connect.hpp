/// Finding the launcher that started this rank, and the way to the other ranks.
#pragma once

#include <memory>
#include <string>

#include "place/placement.hpp"
#include "place/pmix.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

struct Connection {
  Placement here;
  std::unique_ptr<PmixSession> session;  ///< null: ranks cannot exchange facts
  std::string no_exchange;               ///< why not
  std::string master_address;            ///< rank 0's, where the launcher's server passed it on
};

/// Where a PMIx server does not answer, takes this rank's placement from variables. Prepares `variables` for a program
/// that is a PMIx client too. Throws Error.
[[nodiscard]] Connection connect_to_launcher(Variables& variables);

}  // namespace mn::launcher
