#include <mn/sharding/sharded_parameters.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include <malloc.h>

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

/// The types in which a block is gathered: in its parameters' types, or matrices as autocast's copies (4).
constexpr std::array kTypes = {at::kFloat, at::kBFloat16, at::kHalf};
/// A gather's number is block * kTypes.size() + index in kTypes.
constexpr std::size_t block_of_gather(std::size_t gather) { return gather / kTypes.size(); }

/// (1): block and number of each parameter, block after block. Optimizers list the parameters by group, and the groups
/// (weights, biases) may separate the parameters of a block.
std::vector<std::pair<std::string, std::size_t>> parameters_by_block(const std::vector<at::Tensor>& parameters) {
  std::vector<std::pair<std::string, std::size_t>> ordered;
  std::map<std::string, std::size_t> first;  // the first parameter of the block
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ordered.emplace_back(block_of(tensor_name(parameters[i], i)), i);
    first.emplace(ordered.back().first, i);
  }
  std::ranges::stable_sort(ordered, {}, [&](const auto& parameter) { return first.at(parameter.first); });
  return ordered;
}

/// (1): the units of all blocks, in the order of the blocks.
std::vector<Members> units_of(const std::vector<at::Tensor>& parameters, const ShardOptions& options) {
  const auto is_equal_kind = [&](const at::Tensor& a, const at::Tensor& b) {
    return a.scalar_type() == b.scalar_type() &&
           (options.what != Shard::kParameters || ParameterUse::watches_copies(a) == ParameterUse::watches_copies(b));
  };
  std::vector<Members> units;
  std::string block;
  std::size_t number = 0, bytes = 0;
  for (const auto& [own, i] : parameters_by_block(parameters)) {
    if (own != block && bytes >= options.unit_bytes) {
      ++number;
      bytes = 0;
    }
    block = own;
    const at::Tensor& parameter = parameters[i];
    bytes += parameter.nbytes();
    const auto unit = std::ranges::find_if(units, [&](const Members& other) {
      return other.block == number && is_equal_kind(parameters[other.numbers.front()], parameter);
    });
    (unit == units.end() ? units.emplace_back(Members{number, {}}) : *unit).numbers.push_back(i);
  }
  return units;
}

}  // namespace

std::uint64_t largest_unit_bytes(const std::vector<at::Tensor>& parameters, const ShardOptions& options,
                                 std::optional<c10::ScalarType> autocast) {
  const auto bytes_of = [&](const at::Tensor& parameter) {
    const bool is_narrow = autocast && ParameterUse::watches_copies(parameter);
    return static_cast<std::uint64_t>(parameter.numel()) *
           (is_narrow ? c10::elementSize(*autocast) : parameter.element_size());
  };
  std::map<std::size_t, std::uint64_t> bytes;  // of blocks
  for (const Members& unit : units_of(parameters, options)) {
    for (const std::size_t i : unit.numbers) bytes[unit.block] += bytes_of(parameters[i]);
  }
  std::uint64_t largest = 0;
  for (const auto& [block, size] : bytes) largest = std::max(largest, size);
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
  for (const auto& [block, numbers] : units_of(parameters_, options)) {
    const std::size_t unit = units_.size();
    blocks_.push_back(block);
    std::vector<at::Tensor> members;
    for (const std::size_t i : numbers) {
      places_[i] = {unit, members.size()};
      members.push_back(parameters_[i]);
    }
    units_.push_back(std::make_unique<ShardedUnit>(
        std::move(members), *ranks_.group, options.what != Shard::kParameters, options.offload,
        [this, unit](std::size_t number, ParameterUse::Kind kind) { return use(unit, number, kind); }));
    for (const std::size_t i : numbers) {
      const ShardedUnit& own = *units_.back();
      pieces_[i] = own.piece(places_[i].number);
      known_.push_back(std::make_unique<KnownPiece>(
          ParameterPiece{parameters_[i], pieces_[i], own.layout().piece(places_[i].number, ranks_.group->rank()).begin,
                         own.keeps(), !ranks_.is_first_group(), ranks_.group.get(), this}));
    }
    malloc_trim(0);  // a job's malloc keeps freed memory, and shares lie between the freed parameters
  }
  types_.resize(blocks_.empty() ? 0 : blocks_.back() + 1);
  if (options.what == Shard::kParameters) buffers_ = gather_buffers();
}

/// Buffers for two units (2). Without them the heap would hold activations in the places of freed units, and grow.
UnitBuffers ShardedParameters::gather_buffers() const {
  std::size_t bytes = 0;
  for (const auto& unit : units_) {
    bytes = std::max(bytes, static_cast<std::size_t>(unit->layout().size()) * unit->share().element_size());
  }
  return {*ranks_.group, std::vector<std::size_t>(bytes > 0 ? 2 : 0, bytes)};
}

ShardedParameters::~ShardedParameters() { turns_->remove(model_); }

std::uint64_t ShardedParameters::bytes_gathered() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& unit : units_) bytes += unit->bytes_gathered();
  return bytes;
}

bool ShardedParameters::use(std::size_t unit, std::size_t number, ParameterUse::Kind kind) {
  const auto name = [&] {
    const at::Tensor& parameter = units_[unit]->parameters()[number];
    std::size_t i = 0;
    while (!parameters_[i].is_same(parameter)) ++i;
    return tensor_name(parameter, i);
  };
  if (kind.copies) return in_pass() && holds_ == 0;
  if (kind.writes && holds_ == 0) {
    throw UsageError(name() +
                     " is sharded and cannot be written: each rank holds a part of it; write while a "
                     "mn::WholeParameters lives");
  }
  const std::size_t block = blocks_[unit];
  const auto type = static_cast<std::size_t>(std::ranges::find(kTypes, kind.type) - kTypes.begin());
  if (holds_ == 0 && units_[unit]->has_copies()) types_[block] = type;
  if (units_[unit]->use_on_current_stream(kind.type)) return true;
  if (!in_pass()) {
    throw UsageError(name() +
                     " is sharded and has no values here: read it between zero_grad() and step(), while a "
                     "mn::ShardPass lives, or while a mn::WholeParameters lives");
  }
  if (kind.is_first) release(/*except=*/block);
  turns_->take(model_, static_cast<std::int64_t>(block * kTypes.size() + types_[block]) + 1);
  return true;
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

/// Makes a call that the ranks have agreed on: 0 reduces gradients, number - 1 is a gather.
void ShardedParameters::make_call(std::int64_t number, bool is_own) {
  if (number == 0) return reduce_();
  const auto gather = static_cast<std::size_t>(number - 1);
  if (predicted_ != gather) {
    drop_prediction();
    begin_gather(gather);
  }
  // If this rank has not named the call, another rank uses the block.
  for (ShardedUnit* const unit : units_of_block(block_of_gather(gather))) unit->finish_gather(/*drops=*/!is_own);
  if (!gains_from_background(*ranks_.group)) return;  // an early gather would only need more memory
  predicted_ = schedule_.next_after(gather);
  if (predicted_) begin_gather(*predicted_);
}

void ShardedParameters::begin_gather(std::size_t gather) {
  for (ShardedUnit* const unit : units_of_block(block_of_gather(gather))) {
    unit->begin_gather(*ranks_.group, kTypes[gather % kTypes.size()], buffers_);
  }
}

void ShardedParameters::drop_prediction() {
  if (!predicted_) return;
  const std::size_t block = block_of_gather(*std::exchange(predicted_, std::nullopt));
  for (ShardedUnit* const unit : units_of_block(block)) unit->finish_gather(/*drops=*/true);
}

void ShardedParameters::begin_pass(PassOf who) {
  if (!in_pass()) schedule_.begin();
  who == PassOf::kStep ? void(in_step_ = true) : void(++objects_);
}

void ShardedParameters::join() {
  if (in_pass()) turns_->join();
}

void ShardedParameters::end_pass(PassOf who) {
  if (!in_pass()) return;
  join();
  leave_pass(who);
}

void ShardedParameters::leave_pass(PassOf who) {
  who == PassOf::kStep ? void(in_step_ = false) : void(--objects_);
  drop_prediction();
  if (holds_ == 0) release(/*except=*/std::nullopt);
  if (who == PassOf::kStep && in_pass()) schedule_.begin();
}

void ShardedParameters::reduce_in_turn() { in_pass() ? turns_->take(model_, 0) : reduce_(); }

void ShardedParameters::publish() {
  if (holds_ > 0 && what_ == Shard::kParameters) {
    throw UsageError("an update while a mn::WholeParameters lives would be lost: call step() after the object's end");
  }
  drop_prediction();  // a hook may have gathered values that are old now
  if (holds_ == 0) release(/*except=*/std::nullopt);
  for (const auto& unit : units_) {
    if (unit->keeps()) unit->begin_gather(*ranks_.group, unit->type());
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
    unit->begin_gather(*ranks_.group, unit->type());
    unit->finish_gather();
  }
}

void ShardedParameters::let_go() {
  if (--holds_ > 0) return;
  for (const auto& unit : units_) unit->keep_writes();
  if (!in_pass()) release(/*except=*/std::nullopt);
}

}  // namespace mn
