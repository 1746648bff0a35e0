#include <mn/tensor/loss_unit.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

namespace mn {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

std::mutex followers_mutex;
std::vector<UnitFollower*> followers;
std::atomic<int> narrow_followers = 0;
std::atomic<int> marks = 0;  // number of living marks; if 0, graphs are not searched

class Mark : public torch::autograd::FunctionPreHook {
 public:
  explicit Mark(std::shared_ptr<Communicator> group) : group_(std::move(group)) { ++marks; }
  ~Mark() override { --marks; }
  variable_list operator()(const variable_list& gradients) override { return gradients; }
  [[nodiscard]] const std::shared_ptr<Communicator>& group() const noexcept { return group_; }

 private:
  std::shared_ptr<Communicator> group_;
};

}  // namespace

void LossUnit::rise_to(double samples) {
  const double factor = std::exchange(samples_, samples) / samples;
  const std::lock_guard lock(followers_mutex);
  for (const auto* follower : followers) follower->convert_(*this, factor);
}

UnitFollower::UnitFollower(bool narrow, Convert convert) : is_narrow_(narrow), convert_(std::move(convert)) {
  const std::lock_guard lock(followers_mutex);
  followers.push_back(this);
  if (is_narrow_) ++narrow_followers;
}

UnitFollower::~UnitFollower() {
  const std::lock_guard lock(followers_mutex);
  std::erase(followers, this);
  if (is_narrow_) --narrow_followers;
}

bool any_narrow_gradients() { return narrow_followers > 0; }

void mark_collective(const at::Tensor& result, const std::shared_ptr<Communicator>& group) {
  if (group->size() > 1 && result.grad_fn()) result.grad_fn()->add_pre_hook(std::make_unique<Mark>(group));
}

std::vector<std::shared_ptr<Communicator>> marked_groups(const at::Tensor& loss) {
  std::vector<std::shared_ptr<Communicator>> groups;
  if (marks == 0) return groups;
  std::vector<Node*> nodes = {loss.grad_fn().get()};
  std::unordered_set<const Node*> seen = {nullptr};
  while (!nodes.empty()) {
    Node* const node = nodes.back();
    nodes.pop_back();
    if (!seen.insert(node).second) continue;
    for (const auto& hook : node->pre_hooks()) {
      const auto* const mark = dynamic_cast<const Mark*>(hook.get());
      if (mark != nullptr && std::ranges::find(groups, mark->group()) == groups.end()) groups.push_back(mark->group());
    }
    for (const auto& edge : node->next_edges()) nodes.push_back(edge.function.get());
  }
  return groups;
}

}  // namespace mn
