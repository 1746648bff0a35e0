/// Includes all headers that a training program of your own needs (training.hpp). Link the program with mn::mn.
#pragma once

#include <mn/app/batches.hpp>
#include <mn/app/record_run.hpp>
#include <mn/app/report_extensions.hpp>
#include <mn/app/setup.hpp>
#include <mn/app/training.hpp>
#include <mn/app/update.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/options.hpp>
#include <mn/job/job.hpp>
#include <mn/tensor/libtorch_version.hpp>
#include <mn/tensor/tensor.hpp>
