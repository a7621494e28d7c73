#pragma once
// A rank's part of an aggregator as a safetensors file: the arrays of its shard as tensors, and in
// the metadata its options, its rounds and a hash over everything.

#include <string>

#include "src/aggregate/outer/aggregator.hpp"

namespace sparcl::aggregate {

// The file appears, or replaces the old one, when everything is on the disk. After an error `path`
// is unchanged.
Status save_aggregator(Aggregator& aggregator, const std::string& path);

// For untrusted files. Errors name the path and the reason.
Result<Aggregator> load_aggregator(const std::string& path, const kernels::KernelSet& kernels);

}  // namespace sparcl::aggregate
