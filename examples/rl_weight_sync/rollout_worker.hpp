#pragma once
// An inference worker: a process of its own that holds the newest published weights, samples with
// them, and sends its samples.

#include "sync_options.hpp"

namespace training {

// Until the trainer says no more. Dies with the trainer.
void run_rollout_worker(const WorkerOptions& options);

}  // namespace training
