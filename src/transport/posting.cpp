#include "src/transport/posting.hpp"

#include <fmt/format.h>

namespace sparcl::transport {

Status check_posted(const Operation& operation, const Transport& body) {
  const char* verb = operation.kind == Operation::Kind::kSend ? "send to" : "receive from";
  if (operation.peer < 0 || operation.peer >= body.size()) {
    return Status(Code::kInvalidArgument, fmt::format("cannot {} rank {}: the ranks are 0 to {}",
                                                      verb, operation.peer, body.size() - 1));
  }
  if (operation.channel.lane >= kLanes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("cannot {} rank {} on lane {}: a call has lanes 0 to {}", verb,
                              operation.peer, operation.channel.lane, kLanes - 1));
  }
  if (operation.buffer.space() == MemorySpace::kDevice && !body.capabilities().device_memory) {
    return Status(Code::kUnsupported,
                  fmt::format("cannot {} rank {}: the {} transport moves host memory only", verb,
                              operation.peer, body.name()));
  }
  return {};
}

bool refused(Operation& operation, Status error) {
  if (error.ok()) return false;
  operation.status = std::move(error);
  operation.done = true;
  return true;
}

}  // namespace sparcl::transport
