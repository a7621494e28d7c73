#include "src/base/status.hpp"

#include <array>

namespace sparcl {
namespace {

struct CodeRow {
  Code code;
  const char* name;
  const char* text;
};

constexpr std::array kCodes{
    CodeRow{Code::kSuccess, "sparclSuccess", "no error"},
    CodeRow{Code::kUnhandledCudaError, "sparclUnhandledCudaError", "a CUDA call failed"},
    CodeRow{Code::kSystemError, "sparclSystemError",
            "a call to the operating system or the network failed"},
    CodeRow{Code::kInternalError, "sparclInternalError",
            "a check inside sparcl failed: please report it"},
    CodeRow{Code::kInvalidArgument, "sparclInvalidArgument", "an argument has an invalid value"},
    CodeRow{Code::kInvalidUsage, "sparclInvalidUsage", "the call is not allowed in this state"},
    CodeRow{Code::kRemoteError, "sparclRemoteError", "a peer died, aborted or met an error"},
    CodeRow{Code::kInProgress, "sparclInProgress", "the operation is still in progress"},
    CodeRow{Code::kTimeout, "sparclTimeout", "a peer did not answer in time"},
    CodeRow{Code::kMismatch, "sparclMismatch", "the ranks did not make the same call"},
    CodeRow{Code::kCorrupt, "sparclCorrupt", "bytes failed a check"},
    CodeRow{Code::kUnsupported, "sparclUnsupported", "not supported here"},
    CodeRow{Code::kOutOfMemory, "sparclOutOfMemory", "out of memory"},
    CodeRow{Code::kWrongBase, "sparclWrongBase", "an update for another base than the one held"},
    CodeRow{Code::kUnauthorized, "sparclUnauthorized",
            "a signature is missing, wrong or by an unknown key"},
    CodeRow{Code::kTruncated, "sparclTruncated", "the result does not fit a rank's capacity"},
    CodeRow{Code::kStale, "sparclStale",
            "a replica's version may be older than it is allowed to be"},
};

const CodeRow* find(Code code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

bool is_code(int number) { return find(static_cast<Code>(number)) != nullptr; }

const char* code_name(Code code) {
  const CodeRow* row = find(code);
  return row ? row->name : "unknown result";
}

const char* code_text(Code code) {
  const CodeRow* row = find(code);
  return row ? row->text : "unknown result code";
}

}  // namespace sparcl
