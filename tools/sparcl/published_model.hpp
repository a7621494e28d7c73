#pragma once
// A publisher's description of its model, for replicas without tensors.

#include <string>
#include <vector>

#include "src/model/file_layout.hpp"
#include "src/replication/message.hpp"
#include "tools/sparcl/part_choice.hpp"

namespace sparcl::tool {

struct PublishedModel {
  std::string model_id;
  model::Schema schema;
  model::Layout layout;  // of the publisher's files, or one file if it does not describe them
};

// A layout in the form of PublisherOptions.description: an attachment
// (docs/reference/delta-file.md) whose base is a file without tensors.
Result<std::vector<std::byte>> describe_layout(const model::Layout& layout);

// The answer is not trusted: an accepted model fits into this machine's memory, and can be written.
// choice: the wanted part, which is written as one file.
Result<PublishedModel> read_published_model(const replication::ModelReply& reply,
                                            const PartChoice& choice = {});

}  // namespace sparcl::tool
