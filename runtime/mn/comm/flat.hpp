/// ChainerMN's flat, and what backends for GPUs do with gradients on the host.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/comm/gradient_packer.hpp>

namespace mn {

/// All gradients in one reduction, packed only where they don't already lie in one buffer.
class Flat : public Communicator {
 public:
  explicit Flat(CommunicatorSetup setup) : Communicator(std::move(setup)) {}

 private:
  void do_allreduce_grad(std::span<const BufferView> gradients, double scale) final;

  GradientPacker packer_;
};

}  // namespace mn
