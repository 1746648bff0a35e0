// A metric that needs all results at once: the average precision of the detections in 100 images, of which each has
// none to three. Rank 0 computes it as a program on one process would.
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include <mn/mn.hpp>

/// As scikit-learn defines it: Σ (Rₙ − Rₙ₋₁) Pₙ over the distinct scores, from the highest score on.
double average_precision(const torch::Tensor& scores, const torch::Tensor& is_right) {
  const auto [sorted, order] = scores.sort(0, /*descending=*/true);
  const auto found = is_right.index_select(0, order).to(torch::kDouble).cumsum(0);
  const auto last = torch::cat({sorted.diff().ne(0), torch::ones({1}, torch::kBool)}).nonzero().flatten();
  const auto precision = found.index_select(0, last) / (last + 1);
  const auto recall = found.index_select(0, last) / found[-1];
  return (recall.diff(1, 0, torch::zeros({1}, torch::kDouble)) * precision).sum().item<double>();
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    // Image i has i · 7 mod 4 detections, with two features each; the rest of three is padding.
    const auto i = torch::arange(100).unsqueeze(1), k = torch::arange(3).unsqueeze(0);
    const auto first = (i * 37 + k * 11).remainder(20), second = (i * 13 + k * 5).remainder(4);
    const auto is_right = (i * 29 + k * 17).remainder(20).lt(first);
    const mn::TensorDataset images({torch::stack({first, second}, 2).to(torch::kFloat), is_right, i * 7 % 4},
                                   {"features", "is right", "count"});
    auto batches = std::make_shared<mn::TensorLoader>(
        images, comm, mn::TensorLoaderOptions{.batchsize = 24 / comm->size(), .shuffle = true});

    torch::nn::Linear model(torch::nn::LinearOptions(2, 1).bias(false));
    const torch::NoGradGuard no_grad;
    model->weight.copy_(torch::tensor({{1.0, 0.25}}));  // a trained model; sums of quarters are exact
    model->to(comm->device());

    // Results of each sample, here of an image: a row of scores and labels for each of its detections.
    const auto detections_of = [&](const mn::Batch& batch) {
      const auto scores = model->forward(batch["features"]).squeeze(2);
      std::vector<torch::Tensor> own_scores, own_labels;
      for (std::int64_t image = 0; image < batch.samples; ++image) {
        const auto count = batch["count"][image].item<std::int64_t>();
        own_scores.push_back(scores[image].slice(0, 0, count));
        own_labels.push_back(batch["is right"][image].slice(0, 0, count));
      }
      return std::vector{mn::ragged_field("score", own_scores), mn::ragged_field("is right", own_labels)};
    };
    const auto evaluate = [](const mn::Batch& all) {  // on rank 0, with every image once, in the dataset's order
      return mn::Metrics{{"precision", average_precision(all["score"], all["is right"])}};
    };
    // In a training: trainer.extend(std::make_unique<mn::extensions::Validation>(std::move(evaluator)));
    auto evaluator = mn::create_results_evaluator(batches, model.ptr(), detections_of, evaluate, comm);
    const mn::Metrics metrics = evaluator->evaluate();  // equal on every rank
    if (comm->rank() == 0) std::cout << "precision " << std::setprecision(12) << metrics.at("precision") << std::endl;
    return 0;
  });
}
