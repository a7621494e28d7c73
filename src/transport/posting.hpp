#pragma once
// Checks of every transport when an operation is posted.

#include <memory>
#include <utility>

#include "src/transport/transport.hpp"

namespace sparcl::transport {

template <class OwnOperation>
std::shared_ptr<OwnOperation> make_operation(Operation::Kind kind, int peer, Channel channel,
                                             Buffer buffer) {
  auto operation = std::make_shared<OwnOperation>();
  operation->kind = kind;
  operation->peer = peer;
  operation->channel = channel;
  operation->buffer = std::move(buffer);
  if (kind == Operation::Kind::kSend) operation->bytes = operation->buffer.size();
  return operation;
}

// An error if `body` cannot carry the operation: its rank does not exist, or the memory is not
// supported.
Status check_posted(const Operation& operation, const Transport& body);

// If `error` is an error, the operation is done before it began. Returns whether it is.
bool refused(Operation& operation, Status error);

}  // namespace sparcl::transport
