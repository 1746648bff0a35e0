#include <mn/core/metric.hpp>

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <vector>

#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::string_view kLower[] = {"loss", "bits", "error",      "err", "perplexity", "ppl", "mse",
                                       "rmse", "mae",  "mape",       "nll", "bpc",        "bpb", "wer",
                                       "cer",  "fid",  "divergence", "kl",  "distance"};
constexpr std::string_view kHigher[] = {"accuracy", "acc",   "top1",  "top5",  "iou", "miou",      "dice",
                                        "f1",       "auc",   "auroc", "auprc", "map", "precision", "recall",
                                        "bleu",     "rouge", "psnr",  "ssim",  "r2",  "reward"};

/// The words of the last part of a name, in lower case: "validation/main/mean_IoU" gives "mean" and "iou".
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : to_lower(name.substr(name.rfind('/') + 1))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else {
      words.emplace_back();
    }
  }
  return words;
}

bool any_of(const std::vector<std::string>& words, std::span<const std::string_view> known) {
  return std::ranges::any_of(words,
                             [&](const std::string& word) { return std::ranges::find(known, word) != known.end(); });
}

}  // namespace

std::optional<Better> better_of(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  if (any_of(words, kLower)) return Better::kLower;
  return any_of(words, kHigher) ? std::optional(Better::kHigher) : std::nullopt;
}

}  // namespace mn
