/// All of mn that a training program needs: `#include <mn/mn.hpp>`, link mn::mn. Of libtorch it brings modules and
/// optimizers; the layers (torch::nn::Linear …) come with <torch/torch.h>, which a training program has anyway.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/log.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/image_transform.hpp>
#include <mn/data/loader.hpp>
#include <mn/data/scatter.hpp>
#include <mn/image/image_decoder.hpp>
#include <mn/job/job.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/checkpoint/checkpoint_folder.hpp>
#include <mn/train/checkpoint/random_state.hpp>
#include <mn/train/checkpoint/safetensors.hpp>
#include <mn/train/evaluator.hpp>
#include <mn/train/extensions/allreduce_persistent.hpp>
#include <mn/train/extensions/dump_graph.hpp>
#include <mn/train/extensions/fail_on_non_number.hpp>
#include <mn/train/extensions/learning_rate.hpp>
#include <mn/train/extensions/log_report.hpp>
#include <mn/train/extensions/plot_report.hpp>
#include <mn/train/extensions/print_report.hpp>
#include <mn/train/extensions/profile.hpp>
#include <mn/train/extensions/progress_bar.hpp>
#include <mn/train/extensions/snapshot.hpp>
#include <mn/train/extensions/validation.hpp>
#include <mn/train/fused_adam.hpp>
#include <mn/train/lars.hpp>
#include <mn/train/optimizer.hpp>
#include <mn/train/schedules.hpp>
#include <mn/train/summary.hpp>
#include <mn/train/trace.hpp>
#include <mn/train/trainer.hpp>
#include <mn/train/triggers.hpp>
