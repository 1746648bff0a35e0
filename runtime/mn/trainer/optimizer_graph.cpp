// What a CUDA graph of a step needs of the optimizer (graphed_step.hpp).
//
// (1) The graph holds a step's work on the device. What a step does on the host beside it - counts, the comparison of
//     parameters, the watch for errors - is done here at each launch.
// (2) It is captured when a step no longer changes what the graph refers to: the buffer of gradients, the optimizer's
//     state, the numbers on the device that rates and counts are read from.
#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/optimizers/capturable.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/tensor/device_graph.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/parameter_check.hpp>

namespace mn {

/// What forbids a graph; null if nothing does.
const char* MultiNodeOptimizer::why_no_graph() const {
  if (comm_->device().type == DeviceType::kCpu) return "the ranks compute on CPUs";
  if (!DeviceGraph::is_available(comm_->device())) return "this build of mn has no CUDA";
  if (comm_->debug()) return "debug mode reads the values of each call";
  if (comm_->size() > 1 && comm_->device_collectives() == nullptr)
    return "this communicator reduces gradients through the host, pure_nccl does not";
  if (options_.double_buffering) return "double buffering applies the gradients of another step";
  if (local_) return "local steps do not involve all ranks";
  if (options_.compression.kind != Compression::kNone)
    return "compression keeps on the host which gradients it has sent";
  if (options_.loss_ranks) return "the hosts of loss_ranks add up their samples in each step";
  if (options_.trace) return "a profile waits for each phase of a step";
  if (capturable_ == nullptr) return "the optimizer must be mn's FusedAdam, FusedAdamW or FusedSgd (sgd, adam, adamw)";
  if (scaler_ && skips_ == nullptr) return "the host decides whether a step with this optimizer overflowed";
  return nullptr;
}

void MultiNodeOptimizer::stay_on_device() {
  capturable_ = dynamic_cast<Capturable*>(actual_.get());
  if (const char* const why = why_no_graph())
    throw UsageError(std::string("there can be no CUDA graph of a step (--cuda-graph): ") + why);
  capturable_->stay_on_device();
}

bool MultiNodeOptimizer::is_settled() const { return reduction_->is_settled(); }

/// What a graph holds as numbers, and which parameters, where, hooks and states it knows.
std::vector<double> MultiNodeOptimizer::graph_constants() {
  follow_parameter_set();
  std::vector<double> all = capturable_->constants();
  all.push_back(static_cast<double>(adoptions_));
  for (const at::Tensor& parameter : known_) {
    all.push_back(static_cast<double>(reinterpret_cast<std::uintptr_t>(parameter.const_data_ptr())));
  }
  return all;
}

void MultiNodeOptimizer::begin_recording() {
  capturable_->show_rates(actual_->param_groups());
  is_recording_ = true;
}

void MultiNodeOptimizer::end_recording() {
  is_recording_ = false;
  capturable_->keep_captured();
  is_first_launch_ = true;
}

/// `bytes` are those that the ranks exchange in it.
void MultiNodeOptimizer::launch(DeviceGraph& graph, std::uint64_t bytes) {
  capturable_->show_rates(actual_->param_groups());
  graph.launch();
  if (comm_->size() > 1) reduction_->watch_graph();
  // While it was recorded, the host has counted the first one.
  if (!std::exchange(is_first_launch_, false)) capturable_->count_replay();
  if (scaler_) watch_overflows();
  earlier_bytes_ += bytes;
  check_->after_update(known_, *comm_);
}

}  // namespace mn
