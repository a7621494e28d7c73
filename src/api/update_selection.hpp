#pragma once
// sparclUpdateOptions_t, turned into what the codec knows.

#include <memory>
#include <optional>

#include "sparcl/sparcl.h"
#include "src/base/status.hpp"
#include "src/codec/change_cut.hpp"

namespace sparcl::api {

// The options of a caller who was compiled against an older or newer header. NULL: none.
Result<sparclUpdateOptions_t> read_options(const sparclUpdateOptions_t* given);

codec::ValueCoding value_coding(const sparclUpdateOptions_t& options);

// The rule for this update, nullptr if all changes are sent. May read both states, and encode.
Result<std::unique_ptr<codec::ChangeRule>> make_rule(const sparclUpdateOptions_t& options,
                                                     const codec::EncodeInput& input);

}  // namespace sparcl::api
