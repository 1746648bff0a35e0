#include <mn/gradients/gradient_watch.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mn/core/checksum.hpp>
#include <mn/core/random.hpp>

namespace mn {
namespace {

constexpr std::int64_t kComparedElements = 8;  // in each gradient, evenly distributed

/// A hash of a few elements of a gradient that lies in host memory without gaps.
std::uint64_t mark_of_some(const at::Tensor& gradient) {
  const auto* data = static_cast<const std::byte*>(gradient.const_data_ptr());
  const std::size_t element_bytes = gradient.element_size();
  const std::int64_t stride = std::max<std::int64_t>(gradient.numel() / kComparedElements, 1);
  std::uint64_t mark = 0;
  for (std::int64_t i = 0; i < gradient.numel(); i += stride) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data + static_cast<std::size_t>(i) * element_bytes, std::min(element_bytes, sizeof bits));
    // Adds 1, because mix_bits() maps 0 to 0: without the 1, an element of zero would not change the hash.
    mark = mix_bits(mark + bits + 1);
  }
  return mark;
}

bool is_zero(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = gradient.is_sparse() ? gradient.detach()._values() : gradient.detach();
  return values.count_nonzero().item<std::int64_t>() == 0;
}

}  // namespace

GradientWatch::GradientWatch(std::vector<at::Tensor> parameters, Depth depth)
    : parameters_(std::move(parameters)),
      depth_(depth),
      entries_(parameters_.size()),
      arrived_(parameters_.size()),
      reduced_(parameters_.size()) {}

void GradientWatch::look_at(const FlatBuffer& gradients, DeviceSamples::ChangeNote earlier) {
  if (depth_ != Depth::kSome || parameters_.empty() || parameters_[0].is_cpu()) return;
  samples_ = std::make_shared<DeviceSamples>(gradients, parameters_.size(), std::move(earlier));
}

/// Makes the device record samples when backward ends, in the order of the program's stream. Call it once in each
/// backward.
void GradientWatch::sample_after_backward() {
  torch::autograd::Engine::get_default_engine().queue_callback([samples = samples_] { samples->record(); });
}

void GradientWatch::arrived(std::size_t i) {
  backward_ran_ = true;
  auto record = backward_record();
  // This branch runs for the first gradient of a backward. If model->zero_grad() has dropped all earlier gradients, the
  // earlier backwards no longer count.
  if (const int task = torch::autograd::get_current_graph_task_id(); task != task_) {
    task_ = task;
    if (!backwards_.empty() && !keeps(arrived_)) backwards_.clear();
    if (samples_) sample_after_backward();
    if (!record) record = std::make_shared<BackwardRecord>(BackwardRecord{.task = task});  // no weight, no scale
  }
  if (record) {
    if (!backwards_.empty() && backwards_.back()->task == record->task) backwards_.pop_back();  // an earlier state
    backwards_.push_back(std::move(record));
  }
  // If the parameter's gradient is still the last mean over ranks, the program has not called zero_grad(), and autograd
  // has added the new gradient to the mean.
  if (reduced_[i].is(parameters_[i].grad())) {
    added_to_reduced_ = true;
  } else {
    reduced_[i] = {};  // the buffer may use this tensor for a new gradient
  }
}

void GradientWatch::take_over(Backwards backwards, bool ran) {
  backwards_ = std::move(backwards);
  backward_ran_ = ran;
  for (std::size_t i = 0; i < parameters_.size(); ++i) arrived_[i] = TensorIdentity(parameters_[i].grad());
}

void GradientWatch::record(std::size_t i) {
  arrived_[i] = TensorIdentity(parameters_[i].grad());
  if (depth_ == Depth::kOff) return;
  const at::Tensor& gradient = parameters_[i].grad();
  if (!gradient.defined()) return;
  entries_[i] = {true, TensorIdentity(gradient), static_cast<std::uint32_t>(gradient._version()), mark_of(gradient)};
}

void GradientWatch::record() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) record(i);
  if (samples_) samples_->record();
}

void GradientWatch::forget(std::size_t i) {
  entries_[i] = {};
  if (samples_) samples_->forget();
}

void GradientWatch::forget() {
  if (samples_) samples_->begin();
  entries_.assign(parameters_.size(), {});
  arrived_.assign(parameters_.size(), {});
  reduced_.assign(parameters_.size(), {});
  backwards_.clear();
  backward_ran_ = false;
  added_to_reduced_ = false;
}

bool GradientWatch::follow(const LossUnit& unit) {
  bool any = false;
  for (auto& backward : backwards_) {
    BackwardRecord now = *backward;
    for (LossWeight& loss : now.losses) {
      if (loss.shared_unit.get() != &unit) continue;
      loss.unit = unit.samples();
      any = true;
    }
    backward = std::make_shared<BackwardRecord>(std::move(now));
  }
  return any;
}

double GradientWatch::weight_so_far() const {
  double sum = 0;
  for (const auto& backward : backwards_) {
    for (const LossWeight& loss : backward->losses) sum += loss.weight();
  }
  return sum > 0 ? sum : 1;
}

std::uint64_t GradientWatch::mark_of(const at::Tensor& gradient) const {
  // Returns 0 as the hash of gradients whose elements would cost too much to read. For them only a new tensor
  // or a new version shows a change.
  if (gradient.is_sparse() || !gradient.is_non_overlapping_and_dense() || gradient.numel() == 0) return 0;
  if (depth_ == Depth::kAll) {
    const at::Tensor host = gradient.detach().contiguous().cpu();
    return hash64(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()));
  }
  return gradient.is_cpu() ? mark_of_some(gradient) : 0;
}

std::optional<std::size_t> GradientWatch::changed_earlier() const {
  return samples_ ? samples_->changed_parameter() : std::nullopt;
}

std::optional<std::size_t> GradientWatch::find_change() {
  // Call changed_earlier() before compare() is enqueued. Otherwise a rank with a fast device would see the change in
  // the present step already, and throw while the other ranks wait in the reduction.
  const auto earlier = changed_earlier();
  if (samples_) samples_->compare();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Entry& entry = entries_[i];
    const at::Tensor& gradient = parameters_[i].grad();
    if (!entry.recorded || !gradient.defined()) continue;
    // The tensor's version does not count writes through data_ptr() or .data; the hash finds most of these writes.
    const bool same = entry.tensor.is(gradient) && static_cast<std::uint32_t>(gradient._version()) == entry.version &&
                      mark_of(gradient) == entry.mark;
    // A change to zeros is not an error, because zero_grad(set_to_none = false) may have written the zeros.
    if (!same && !is_zero(gradient)) return i;
  }
  return earlier;
}

void GradientWatch::mark_reduced() {
  forget();
  for (std::size_t i = 0; i < parameters_.size(); ++i) reduced_[i] = TensorIdentity(parameters_[i].grad());
}

bool GradientWatch::keeps(const std::vector<TensorIdentity>& gradients) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (gradients[i].is(parameters_[i].grad())) return true;
  }
  return false;
}

}  // namespace mn
