#include <mn/nn/collective_forms.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/fixed_forms.hpp>
#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// A collective call in the first pass of a FixedForms.
struct FixedCall {
  std::string name;
  std::weak_ptr<Communicator> comm;
  std::vector<CollectiveForm> own, all;
};

namespace {

using Forms = std::vector<CollectiveForm>;

thread_local FixedForms* current_sequence = nullptr;

std::span<std::byte> bytes_of(Forms& forms) { return std::as_writable_bytes(std::span(forms)); }

bool are_equal(const Forms& a, const Forms& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(CollectiveForm)) == 0;
}

std::string text_of(const Forms& forms) {
  return join(forms, ", ", [](const CollectiveForm& form) {
    return form.tensor.text() + (form.requires_grad != 0 ? " with gradient" : "");
  });
}

/// True if communicators send elements of this type.
bool is_sent(at::ScalarType type) {
  if (!at::isFloatingType(type) && !at::isIntegralType(type, /*includeBool=*/true)) return false;
  try {
    static_cast<void>(buffer_view(at::empty({0}, type)));
  } catch (const ArgumentError&) {  // floats of 8 bits
    return false;
  }
  return true;
}

/// Describes the fault. `number` is the dtype for kOtherDtype, and the number of tensors for kOtherCount.
std::string text_of(CollectiveForm::Fault fault, std::int64_t number) {
  if (fault == CollectiveForm::kSparse) return "a sparse tensor: give its to_dense()";
  if (fault == CollectiveForm::kManyDims)
    return "a tensor of more than " + std::to_string(MessageForm::kMaxDims) + " dimensions";
  if (fault == CollectiveForm::kOtherDtype)
    return std::string("a tensor of dtype ") + toString(static_cast<at::ScalarType>(number)) +
           ": convert it to bool, an integer or a float type first";
  return std::to_string(number) + " tensors, or undefined ones: give one for each rank";
}

/// The message that a rank sends before each collective call.
struct Signature {
  std::array<char, 16> call = {};
  std::uint64_t hash = 0;  // hash of the forms of the rank's tensors

  [[nodiscard]] bool operator==(const Signature&) const = default;
  [[nodiscard]] auto operator<=>(const Signature&) const = default;
};

std::vector<Signature> exchange_signatures(Communicator& comm, Forms& own, const char* call) {
  Signature mine{.hash = hash64(bytes_of(own))};
  std::string_view(call).copy(mine.call.data(), mine.call.size() - 1);
  std::vector<Signature> all(static_cast<std::size_t>(comm.size()));
  const auto bytes = [](auto&& span) {
    const auto all_bytes = std::as_writable_bytes(span);
    return std::span(reinterpret_cast<std::uint8_t*>(all_bytes.data()), all_bytes.size());
  };
  comm.allgather(bytes(std::span(&mine, 1)), bytes(std::span(all)));
  const auto other = std::ranges::find_if(all, [&](const Signature& each) { return each.call != all[0].call; });
  if (other == all.end()) return all;
  throw ArgumentError("rank 0 called " + std::string(all[0].call.data()) + ", rank " +
                          std::to_string(other - all.begin()) + " called " + other->call.data() +
                          ": all ranks must make the same collective calls in the same order",
                      true);
}

/// Collective. Throws if any rank's tensor has a fault, for example a sparse layout.
Forms gather_forms(Communicator& comm, Forms own, const char* call) {
  Forms all(own.size() * static_cast<std::size_t>(comm.size()));
  const auto numbers = [](Forms& forms) {
    return std::span(reinterpret_cast<std::int64_t*>(forms.data()),
                     forms.size() * sizeof(CollectiveForm) / sizeof(std::int64_t));
  };
  comm.allgather(numbers(own), numbers(all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].fault == CollectiveForm::kNone) continue;
    throw ArgumentError(std::string(call) + ": rank " + std::to_string(i / own.size()) + " gave " +
                            text_of(all[i].fault, all[i].tensor.dims),
                        true);
  }
  return all;
}

/// The forms that the ranks of a communicator have sent, by the signatures of all ranks. All ranks make the same calls,
/// so every rank has the same entries and drops them at the same call.
class KnownForms {
 public:
  [[nodiscard]] const Forms* find(const std::vector<Signature>& signatures) const {
    const auto found = forms_.find(signatures);
    return found == forms_.end() ? nullptr : &found->second;
  }
  void add(const std::vector<Signature>& signatures, const Forms& forms) {
    constexpr std::size_t kMaxCount = 1 << 16;  // about 10 MB
    if (count_ + forms.size() > kMaxCount) forms_.clear(), count_ = 0;
    count_ += forms.size();
    forms_.emplace(signatures, forms);
  }

  /// Returns the object for a communicator. Drops the objects of destroyed communicators.
  [[nodiscard]] static KnownForms& of(const std::shared_ptr<Communicator>& comm) {
    static std::mutex mutex;
    static std::map<std::weak_ptr<Communicator>, KnownForms, std::owner_less<>> all;
    const std::lock_guard lock(mutex);
    std::erase_if(all, [](const auto& entry) { return entry.first.expired(); });
    return all[comm];
  }

 private:
  std::map<std::vector<Signature>, Forms> forms_;
  std::size_t count_ = 0;  // number of forms in all entries
};

Forms exchange_forms(const std::shared_ptr<Communicator>& comm, Forms own, const char* call) {
  const std::vector<Signature> signatures = exchange_signatures(*comm, own, call);
  KnownForms& known = KnownForms::of(comm);
  if (const Forms* const found = known.find(signatures)) return *found;
  const Forms all = gather_forms(*comm, std::move(own), call);
  known.add(signatures, all);
  return all;
}

/// Throws if the call differs from the call of the first pass. First aborts the communicator, because the other ranks
/// repeat the call of the first pass and would wait for this rank.
void check_fixed(const FixedCall* expected, Communicator& comm, const Forms& own, const char* call) {
  const bool same_call = expected != nullptr && expected->name == call && expected->comm.lock().get() == &comm;
  if (same_call && are_equal(expected->own, own)) return;
  const std::string was = expected == nullptr ? "nothing" : expected->name + " of " + text_of(expected->own);
  const std::string text = "rank " + std::to_string(comm.rank()) + " called " + call + " of " + text_of(own) +
                           " in a " + "pass of mn::FixedForms, in place of " + was + " in the first pass" +
                           (same_call ? "" : ", or on another communicator");
  comm.abort(text);
  throw ArgumentError(text + ": use another FixedForms where calls or shapes differ");
}

}  // namespace

CollectiveForm CollectiveForm::of(Communicator& comm, const at::Tensor& tensor) {
  CollectiveForm form{.narrow_gradients = any_narrow_gradients() ? 1 : 0};
  if (!tensor.defined()) return form;
  if (tensor.layout() != at::kStrided) return {.fault = kSparse};
  if (tensor.dim() > static_cast<std::int64_t>(MessageForm::kMaxDims)) return {.fault = kManyDims};
  if (!is_sent(tensor.scalar_type()))
    return {.fault = kOtherDtype, .tensor = {.dims = static_cast<std::int64_t>(tensor.scalar_type())}};
  form.requires_grad = at::GradMode::is_enabled() && tensor.requires_grad() ? 1 : 0;
  form.tensor = MessageForm::of(tensor, "");
  form.tensor.by_device = is_enqueued(comm, tensor) ? 1 : 0;
  return form;
}

std::vector<CollectiveForm> agree_on_forms(const std::shared_ptr<Communicator>& comm,
                                           const std::vector<CollectiveForm>& own, const char* call) {
  FixedForms* const sequence = FixedForms::current();
  if (sequence == nullptr) return exchange_forms(comm, own, call);
  if (sequence->is_first_pass()) {
    Forms all = exchange_forms(comm, own, call);
    sequence->add({call, comm, own, all});
    return all;
  }
  const FixedCall* const expected = sequence->next();
  check_fixed(expected, *comm, own, call);
  return expected->all;
}

void require_communicator(const std::shared_ptr<Communicator>& comm, const char* call) {
  if (!comm) throw ArgumentError(std::string(call) + ": there is no communicator: split() gives none to some ranks");
}

FixedForms::FixedForms() = default;
FixedForms::~FixedForms() = default;
FixedForms* FixedForms::current() noexcept { return current_sequence; }
const FixedCall* FixedForms::next() { return made_ < calls_.size() ? &calls_[made_++] : nullptr; }
void FixedForms::add(FixedCall call) {
  calls_.push_back(std::move(call));
  ++made_;
}

FixedForms::Pass::Pass(FixedForms& forms) : exceptions_(std::uncaught_exceptions()) {
  if (current_sequence != nullptr) throw ArgumentError("a pass of mn::FixedForms began inside another pass");
  if (!forms.is_first_ && forms.made_ < forms.calls_.size()) {
    throw ArgumentError("the last pass of mn::FixedForms made " + std::to_string(forms.made_) + " calls, the first " +
                        std::to_string(forms.calls_.size()) + ": use another FixedForms where calls differ");
  }
  forms.made_ = 0;
  current_sequence = &forms;
}

FixedForms::Pass::~Pass() {
  FixedForms& forms = *std::exchange(current_sequence, nullptr);
  const bool failed = std::uncaught_exceptions() > exceptions_;
  if (forms.is_first_ && failed) forms.calls_.clear();  // the next pass is the first
  forms.is_first_ = forms.is_first_ && failed;
  if (failed) forms.made_ = forms.calls_.size();  // no second error about calls that are missing now
}

}  // namespace mn
