#include <mn/models/language_model.hpp>

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>

namespace mn::models {
namespace {

/// The logits of the token after `text`, on the CPU. Reads only the tokens that are not in the cache. If the text is
/// longer than the context, reads its last tokens anew: their positions change with each token.
torch::Tensor next_logits(LanguageModel& model, const std::vector<std::int32_t>& text, std::int64_t context,
                          KeyValueCache& cache, torch::Device device) {
  const auto length = static_cast<std::int64_t>(text.size());
  const bool fits = length <= context;
  const std::int64_t first = fits ? cache.length : length - context;
  const auto tokens =
      torch::tensor(at::ArrayRef<std::int32_t>(text).slice(first), torch::kLong).unsqueeze(0).to(device);
  const torch::Tensor logits = fits ? model.read(tokens, cache) : model.forward(tokens);
  return logits[0][-1].to(torch::kCPU, torch::kFloat);
}

/// Draws a token; changes `logits`. Nucleus sampling is from Holtzman et al. 2020, arXiv:1904.09751.
torch::Tensor draw(torch::Tensor& logits, const Sampling& how, const at::Generator& numbers) {
  constexpr double kCold = 1e-6;  // the logits divided by less might overflow
  if (how.temperature < kCold) return logits.argmax().view({1});
  if (how.top_k > 0 && how.top_k < logits.size(0)) {
    const auto least = std::get<0>(logits.topk(how.top_k))[-1];
    logits.masked_fill_(logits < least, -INFINITY);
  }
  const torch::Tensor probabilities = torch::softmax(logits / how.temperature, 0);
  if (how.top_p < 1) {
    const auto [sorted, order] = probabilities.sort(0, /*descending=*/true);
    const torch::Tensor before = sorted.cumsum(0) - sorted;
    const torch::Tensor dropped = before >= how.top_p;
    dropped[0] = false;  // the likeliest token stays
    probabilities.index_fill_(0, order.masked_select(dropped), 0);
  }
  return torch::multinomial(probabilities, 1, false, numbers);
}

}  // namespace

torch::Tensor LanguageModel::read(const torch::Tensor& tokens, KeyValueCache& cache) {
  if (cache.length > 0 && tokens.size(1) != 1)
    throw ArgumentError("a language model reads one token at a time after those in its cache");
  torch::Tensor logits = do_forward(tokens, {}, /*recompute=*/false, &cache);
  cache.length += tokens.size(1);
  return logits;
}

std::vector<std::int32_t> generate(LanguageModel& model, std::vector<std::int32_t> prompt, std::int64_t context,
                                   const Sampling& how, torch::Device device) {
  const torch::NoGradGuard no_grad;
  auto numbers = at::make_generator<at::CPUGeneratorImpl>(how.seed);
  KeyValueCache cache;
  std::vector<std::int32_t> made;
  for (std::int64_t i = 0; i < how.length; ++i) {
    torch::Tensor logits = next_logits(model, prompt, context, cache, device);
    if (how.vocabulary > 0) logits = logits.narrow(0, 0, how.vocabulary);
    const torch::Tensor next = draw(logits, how, numbers);
    made.push_back(static_cast<std::int32_t>(next.item<std::int64_t>()));
    prompt.push_back(made.back());
  }
  return made;
}

}  // namespace mn::models
