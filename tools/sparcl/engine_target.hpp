#pragma once
// The value of --notify: an inference engine, or a command, that is told of each version.

#include <string>

#include "src/base/status.hpp"

namespace sparcl::tool {

struct EngineTarget {
  enum class Kind { kVllm, kSglang, kCommand };
  // How vLLM takes the weights.
  enum class Update {
    kReload,    // its workers read the folder
    kTransfer,  // its weight transfer backend does
  };

  Kind kind = Kind::kCommand;
  std::string text;  // as it was given
  std::string url;   // without a slash at the end, and without a query
  std::string mode;  // of running requests while the weights change, in the engine's words
  Update update = Update::kReload;
  std::string command;  // of kCommand

  // "vllm:URL", "sglang:URL" or "exec:CMD". URL: http or https, HOST:PORT, and perhaps a path and
  // ?mode=WORD or &update=WORD. InvalidArgument says what does not fit.
  static Result<EngineTarget> parse(const std::string& text);
};

}  // namespace sparcl::tool
