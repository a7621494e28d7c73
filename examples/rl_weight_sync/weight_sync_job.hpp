#pragma once
// The trainer's run: pre-training, then steps that publish their weights to workers that come and
// go.

#include "sync_options.hpp"

namespace training {

// Throws where rollouts stay away, a worker ends by itself, or the workers do not all hold the last
// version in the end.
void run_weight_sync(const SyncOptions& options);

}  // namespace training
