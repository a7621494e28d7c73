#pragma once
// What a publisher says that it has, for those who have no tensors yet.

#include <string>
#include <vector>

#include "src/model/file_layout.hpp"
#include "src/replication/message.hpp"
#include "tools/sparcl/part_choice.hpp"

namespace sparcl::tool {

struct PublishedModel {
  std::string model_id;
  model::Schema schema;
  model::Layout layout;  // the publisher's files', or one file where it says nothing of them
};

// A layout as PublisherOptions.description carries it: an attachment (docs/reference/delta-file.md)
// whose base is a file without tensors.
Result<std::vector<std::byte>> describe_layout(const model::Layout& layout);

// For a hostile answer: what this accepts can be held in this machine's memory, and written. Of it
// what is chosen: a part is written as one file.
Result<PublishedModel> read_published_model(const replication::ModelReply& reply,
                                            const PartChoice& choice = {});

}  // namespace sparcl::tool
