/// The backends that need MPI messages alone: ChainerMN's naive, flat and dummy.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/comm/gradient_packer.hpp>

namespace mn {

/// All gradients in one reduction, packed only where they do not already lie in one buffer. Backends for GPUs derive
/// from it: that is how they reduce gradients on the host.
class Flat : public Communicator {
 public:
  explicit Flat(CommunicatorSetup setup) : Communicator(std::move(setup)) {}

 private:
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) final;

  GradientPacker packer_;
};

}  // namespace mn
