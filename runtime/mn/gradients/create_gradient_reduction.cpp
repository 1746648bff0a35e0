#include <mn/gradients/create_gradient_reduction.hpp>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/log.hpp>
#include <mn/gradients/compression/create_gradient_averager.hpp>
#include <mn/gradients/double_buffered_reduction.hpp>
#include <mn/gradients/one_node_reduction.hpp>
#include <mn/gradients/overlapped_reduction.hpp>
#include <mn/gradients/sharded_reduction.hpp>
#include <mn/tensor/stream_call.hpp>
#include <mn/tensor/stream_order.hpp>

namespace mn {
namespace {

/// The plain reduction: when the program calls step(), reduces all gradients where they lie, without a copy.
class DirectReduction : public GradientReduction {
 public:
  DirectReduction(GradientBuffer gradients, std::shared_ptr<Communicator> comm,
                  std::shared_ptr<GradientAverager> averager)
      : GradientReduction(std::move(comm), std::move(averager)) {
    gradients_.emplace(std::move(gradients));
  }

  ReductionResult reduce(const StepWeight& weight, bool has_fault) override {
    FlatBuffer& flat = gradients_->flat();
    StepAgreement agreement = gradients_->collect(weight, {.fault = has_fault});
    // On a GPU the hosts exchange the step's weights and flags (StepAgreement) only after they have enqueued the
    // reduction, so that the exchange runs while the GPU reduces gradients.
    const bool enqueues = comm_->device_collectives() != nullptr;
    if (!enqueues) agreement.agree(*comm_);
    averager().allreduce(flat, 0, flat.messages().size(), weight.divisor, *comm_);
    if (enqueues) agreement.agree(*comm_);
    agreement.read(flat.tail());
    return gradients_->finish(flat, agreement);
  }
  void finish() override {
    if (auto* const device = comm_->device_collectives()) device->wait();
  }
  void watch_graph() override { watch_work_of(*comm_); }
};

GradientWatch::Depth watch_depth(const OptimizerOptions& options, const Communicator& comm) {
  if (!options.check_gradients || comm.size() == 1) return GradientWatch::Depth::kOff;
  return comm.debug() ? GradientWatch::Depth::kAll : GradientWatch::Depth::kSome;
}

/// True if gradients move to one buffer. If there is only one rank on a GPU, nothing is sent; therefore gradients can
/// stay in the tensors that backward has made. On the CPU they move even then, because one buffer for all steps costs
/// less than new memory in each step. In debug mode they move, because debug mode looks at the gradients in the buffer.
bool moves_gradients(const Communicator& comm) {
  return comm.size() > 1 || comm.device().type == DeviceType::kCpu || comm.debug();
}

bool overlaps(const OptimizerOptions& options, Communicator& comm) {
  if (comm.size() == 1) return false;
  if (options.overlap) return *options.overlap;
  if (!gains_from_background(comm)) return false;
  if (comm.device_collectives() != nullptr || CommunicationThread::is_possible()) return true;
  if (comm.rank() == 0) {
    log_info(
        "gradients are reduced after backward, not during backward: overlap needs MPI_THREAD_MULTIPLE, and this MPI "
        "does not provide it");
  }
  return false;
}

}  // namespace

std::unique_ptr<GradientReduction> create_gradient_reduction(std::vector<at::Tensor> parameters,
                                                             const SparseGradients::Flags& sparse,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             const OptimizerOptions& options) {
  std::shared_ptr<GradientAverager> averager =
      create_gradient_averager(options.compression, without_sparse(parameters, sparse), *comm, options.trace);
  const GradientWatch::Depth watch = watch_depth(options, *comm);
  if (options.double_buffering) {
    return std::make_unique<DoubleBufferedReduction>(std::move(parameters), sparse, comm, std::move(averager), watch);
  }
  if (overlaps(options, *comm)) {
    return std::make_unique<OverlappedReduction>(std::move(parameters), sparse, comm, std::move(averager), watch,
                                                 options);
  }
  const auto order = backward_order(parameters.size());
  GradientBuffer gradients(std::move(parameters), sparse, *comm, watch, order, {}, moves_gradients(*comm));
  if (options.compression.kind == Compression::kNone &&
      !comm->debug()) {  // in debug mode all gradients are checked before any is sent
    if (auto reducer = comm->share(gradients.flat().messages())) {
      return std::make_unique<OneNodeReduction>(std::move(gradients), std::move(reducer), comm, std::move(averager),
                                                options.trace);
    }
  }
  averager->lay_out(order, *comm);
  return std::make_unique<DirectReduction>(std::move(gradients), comm, std::move(averager));
}

std::unique_ptr<GradientReduction> create_gradient_reduction(std::shared_ptr<ShardedParameters> shards,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             const StepWeights& weights,
                                                             const OptimizerOptions& options) {
  return std::make_unique<ShardedReduction>(std::move(shards), comm,
                                            create_gradient_averager(options.compression, {}, *comm, options.trace),
                                            weights, options);
}

}  // namespace mn
