#include <mn/sharding/sharded_parameters.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// (1): "blocks.3" of "blocks.3.attention.weight"; the first part of a name without a number.
std::string block_of(const std::string& name) {
  std::size_t begin = 0;
  for (std::size_t end = name.find('.'); end != std::string::npos; end = name.find('.', begin)) {
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  return name.substr(0, name.find('.'));
}

/// The members of a unit: the numbers of some parameters of one block.
struct Members {
  std::size_t block;
  std::vector<std::size_t> numbers;
};

/// (1): the units of all blocks, in the order of the blocks.
std::vector<Members> units_of(const std::vector<at::Tensor>& parameters, std::size_t least_bytes) {
  std::vector<Members> units;
  std::string block;
  std::size_t number = 0, bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string own = block_of(tensor_name(parameters[i], i));
    if (own != block && bytes >= least_bytes) {
      ++number;
      bytes = 0;
    }
    block = own;
    bytes += parameters[i].nbytes();
    const auto unit = std::ranges::find_if(units, [&](const Members& other) {
      return other.block == number && parameters[other.numbers.front()].scalar_type() == parameters[i].scalar_type();
    });
    (unit == units.end() ? units.emplace_back(Members{number, {}}) : *unit).numbers.push_back(i);
  }
  return units;
}

}  // namespace

std::uint64_t largest_unit_bytes(const std::vector<at::Tensor>& parameters, const ShardOptions& options) {
  std::uint64_t largest = 0;
  for (const Members& unit : units_of(parameters, options.unit_bytes)) {
    std::uint64_t bytes = 0;
    for (const std::size_t i : unit.numbers) bytes += parameters[i].nbytes();
    largest = std::max(largest, bytes);
  }
  return largest;
}

ShardedParameters::ShardedParameters(std::vector<at::Tensor> parameters, const std::shared_ptr<Communicator>& comm,
                                     const ShardOptions& options)
    : what_(options.what),
      parameters_(std::move(parameters)),
      ranks_(make_shard_ranks(comm, options)),
      places_(parameters_.size()),
      turns_(PassTurns::of(*comm)) {
  model_ = turns_->add([this](std::int64_t number, bool is_own) { make_call(number, is_own); });
  pieces_.resize(parameters_.size());
  for (const auto& [block, numbers] : units_of(parameters_, options.unit_bytes)) {
    const std::size_t unit = units_.size();
    blocks_.push_back(block);
    std::vector<at::Tensor> members;
    for (const std::size_t i : numbers) {
      places_[i] = {unit, members.size()};
      members.push_back(parameters_[i]);
    }
    units_.push_back(std::make_unique<ShardedUnit>(
        std::move(members), *ranks_.group, options.what != Shard::kParameters, options.offload,
        [this, unit](std::size_t number, ParameterUse::Kind kind) { use(unit, number, kind); }));
    for (const std::size_t i : numbers) {
      const ShardedUnit& own = *units_.back();
      pieces_[i] = own.piece(places_[i].number);
      known_.push_back(std::make_unique<KnownPiece>(
          ParameterPiece{parameters_[i], pieces_[i], own.layout().piece(places_[i].number, ranks_.group->rank()).begin,
                         own.keeps(), !ranks_.is_first_group(), ranks_.group.get(), this}));
    }
  }
}

ShardedParameters::~ShardedParameters() { turns_->remove(model_); }

std::uint64_t ShardedParameters::bytes_gathered() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& unit : units_) bytes += unit->bytes_gathered();
  return bytes;
}

void ShardedParameters::use(std::size_t unit, std::size_t number, ParameterUse::Kind kind) {
  const auto name = [&] {
    const at::Tensor& parameter = units_[unit]->parameters()[number];
    std::size_t i = 0;
    while (!parameters_[i].is_same(parameter)) ++i;
    return tensor_name(parameter, i);
  };
  if (holds_ > 0) return;
  if (kind.writes) {
    throw UsageError(name() +
                     " is sharded and cannot be written: each rank holds a part of it; write while a "
                     "mn::WholeParameters lives");
  }
  if (units_[unit]->is_whole()) return units_[unit]->use_on_current_stream();
  if (!in_pass_) {
    throw UsageError(name() +
                     " is sharded and has no values here: read it between zero_grad() and step(), while a "
                     "mn::ShardPass lives, or while a mn::WholeParameters lives");
  }
  if (kind.is_first) release(/*except=*/blocks_[unit]);
  turns_->take(model_, static_cast<std::int64_t>(blocks_[unit]) + 1);
}

void ShardedParameters::release(std::optional<std::size_t> except) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (blocks_[unit] != except) units_[unit]->release();
  }
}

std::vector<ShardedUnit*> ShardedParameters::units_of_block(std::size_t block) {
  std::vector<ShardedUnit*> units;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (blocks_[unit] == block) units.push_back(units_[unit].get());
  }
  return units;
}

/// Makes a call that the ranks have agreed on: 0 reduces gradients, b + 1 gathers block b.
void ShardedParameters::make_call(std::int64_t number, bool is_own) {
  if (number == 0) return reduce_();
  const auto block = static_cast<std::size_t>(number - 1);
  const std::vector<ShardedUnit*> units = units_of_block(block);
  const bool was_whole = units.front()->is_whole();
  gather(block);
  if (is_own || was_whole) return;
  for (ShardedUnit* const unit : units) unit->release();  // another rank uses the block
}

void ShardedParameters::gather(std::size_t block) {
  if (predicted_ != block) {
    drop_prediction();
    for (ShardedUnit* const unit : units_of_block(block)) unit->begin_gather(*ranks_.group);
  }
  for (ShardedUnit* const unit : units_of_block(block)) unit->finish_gather();
  if (!gains_from_background(*ranks_.group)) return;  // an early gather would only need more memory
  predicted_ = schedule_.next_after(block);
  if (!predicted_) return;
  for (ShardedUnit* const unit : units_of_block(*predicted_)) unit->begin_gather(*ranks_.group);
}

void ShardedParameters::drop_prediction() {
  if (!predicted_) return;
  for (ShardedUnit* const unit : units_of_block(*std::exchange(predicted_, std::nullopt))) {
    const bool was_whole = unit->is_whole();
    unit->finish_gather();
    if (!was_whole) unit->release();
  }
}

bool ShardedParameters::begin_pass() {
  if (std::exchange(in_pass_, true)) return false;
  schedule_.begin();
  return true;
}

void ShardedParameters::join() {
  if (in_pass_) turns_->join();
}

void ShardedParameters::end_pass() {
  if (!in_pass_) return;
  join();
  leave_pass();
}

void ShardedParameters::leave_pass() {
  in_pass_ = false;
  drop_prediction();
  if (holds_ == 0) release(/*except=*/std::nullopt);
}

void ShardedParameters::reduce_in_turn() { in_pass_ ? turns_->take(model_, 0) : reduce_(); }

void ShardedParameters::publish() {
  for (const auto& unit : units_) {
    if (unit->keeps()) unit->begin_gather(*ranks_.group);
  }
  for (const auto& unit : units_) {
    if (unit->keeps()) unit->finish_gather();
  }
}

void ShardedParameters::hold() {
  if (holds_++ > 0) return;
  join();
  drop_prediction();
  for (const auto& unit : units_) {
    if (unit->keeps()) continue;
    unit->begin_gather(*ranks_.group);
    unit->finish_gather();
  }
}

void ShardedParameters::let_go() {
  if (--holds_ > 0) return;
  for (const auto& unit : units_) unit->keep_writes();
  if (!in_pass_) release(/*except=*/std::nullopt);
}

}  // namespace mn
