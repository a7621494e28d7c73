#pragma once
// Files for C++20: file.h with std::string, std::function and exceptions. Errors are thrown as
// sparcl::Error.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sparcl/cpp_basics.hpp"
#include "sparcl/file.h"

namespace sparcl::file {

using Report = sparclFileReport_t;
using Advice = sparclFileAdvice_t;

// Callbacks of a call while it runs. An exception that a callback throws reaches the caller.
struct Watch {
  // Any other result than sparclSuccess cancels the call, which throws it as an Error.
  std::function<sparclResult_t(std::uint64_t done_bytes, std::uint64_t total_bytes)> on_progress =
      {};
  std::function<void(sparclFileNoteKind_t kind, const std::string& name)> on_note = {};
};

struct DiffOptions {
  std::string mode = {};               // of all blocks; empty: the smallest for each block
  std::vector<std::string> only = {};  // globs of tensor names; empty: all tensors
  sparclUpdateOptions_t selection = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  bool side_files = true;
  int threads = 0;
  bool with_identities = false;  // base and target by a SHA-256 tree, too
};

namespace detail {

struct Told {
  const Watch& watch;
  std::exception_ptr thrown;  // by a callback
};

// A tensor's name has the bytes C0 80 for each NUL.
inline std::string name_of(sparclFileNoteKind_t kind, const char* text) {
  std::string name = text;
  if (kind > sparclFileTensorReplaced) return name;
  for (std::size_t at = 0; (at = name.find("\xc0\x80", at)) != std::string::npos; ++at)
    name.replace(at, 2, 1, '\0');
  return name;
}

// Makes a call with callbacks that no exception leaves.
template <class Options, class Call>
void run(const Watch& watch, Options options, Call&& call) {
  Told told{watch, nullptr};
  options.arg = &told;
  options.on_progress = [](std::uint64_t done_bytes, std::uint64_t total_bytes, void* arg) {
    auto& own = *static_cast<Told*>(arg);
    if (own.thrown) return sparclInternalError;
    try {
      return own.watch.on_progress ? own.watch.on_progress(done_bytes, total_bytes) : sparclSuccess;
    } catch (...) {
      own.thrown = std::current_exception();
      return sparclInternalError;
    }
  };
  options.on_note = [](sparclFileNoteKind_t kind, const char* name, void* arg) {
    auto& own = *static_cast<Told*>(arg);
    try {
      if (own.watch.on_note && !own.thrown) own.watch.on_note(kind, name_of(kind, name));
    } catch (...) {
      own.thrown = std::current_exception();
    }
  };
  const sparclResult_t result = call(&options);
  if (told.thrown) std::rethrow_exception(told.thrown);
  check(result);
}

inline const char* or_null(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

inline std::vector<const char*> pointers(std::span<const std::string> texts) {
  std::vector<const char*> made;
  for (const std::string& text : texts) made.push_back(text.c_str());
  return made;
}

constexpr sparclFileOptions_t kOptions = SPARCL_FILE_OPTIONS_INITIALIZER;

}  // namespace detail

inline Report diff(const std::string& base, const std::string& target, const std::string& output,
                   const DiffOptions& options = {}, const Watch& watch = {}) {
  const std::vector<const char*> only = detail::pointers(options.only);
  sparclFileDiffOptions_t all = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  all.mode = detail::or_null(options.mode);
  all.only = only.data();
  all.only_count = only.size();
  all.selection = &options.selection;
  all.side_files = options.side_files ? sparclFileSideFilesCarry : sparclFileSideFilesOmit;
  all.threads = options.threads;
  all.with_identities = options.with_identities ? 1 : 0;
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, all, [&](const sparclFileDiffOptions_t* given) {
    return sparclFileDiff(base.c_str(), target.c_str(), output.c_str(), given, &report);
  });
  return report;
}

inline Report apply(const std::string& base, const std::string& delta, const std::string& output,
                    const Watch& watch = {}) {
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileApply(base.c_str(), delta.c_str(), output.c_str(), given, &report);
  });
  return report;
}

inline Report verify(const std::string& path, const Watch& watch = {}) {
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileVerify(path.c_str(), given, &report);
  });
  return report;
}

// base: empty if there is none.
inline Report compose(std::span<const std::string> deltas, const std::string& output,
                      const std::string& base = "", const Watch& watch = {}) {
  const std::vector<const char*> paths = detail::pointers(deltas);
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileCompose(paths.data(), paths.size(), detail::or_null(base), output.c_str(),
                             given, &report);
  });
  return report;
}

inline Report invert(const std::string& base, const std::string& delta, const std::string& output,
                     const Watch& watch = {}) {
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileInvert(base.c_str(), delta.c_str(), output.c_str(), given, &report);
  });
  return report;
}

// from: empty if the file tells. base: empty if no delta takes part.
inline Report convert(const std::string& input, const std::string& output, const std::string& to,
                      const std::string& base = "", const std::string& from = "",
                      const Watch& watch = {}) {
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileConvert(input.c_str(), detail::or_null(from), output.c_str(), to.c_str(),
                             detail::or_null(base), given, &report);
  });
  return report;
}

// Hexadecimal digits.
inline std::string hash(const std::string& path, sparclFileHashKind_t kind = sparclFileHashState,
                        const Watch& watch = {}) {
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileHash(path.c_str(), kind, given, &report);
  });
  return report.hash;
}

struct SignOptions {
  std::string signature = {};  // path of the signature file; empty: beside what is signed
  std::string model_id = {};
  std::uint64_t version = 0;
  double valid_s = 0;  // 0: it never expires
  bool adds = false;   // to the signature file that is there, whose facts are taken
};

inline Report sign(const std::string& path, const std::string& key, const SignOptions& options = {},
                   const Watch& watch = {}) {
  sparclFileSignOptions_t all = SPARCL_FILE_SIGN_OPTIONS_INITIALIZER;
  all.signature = detail::or_null(options.signature);
  all.model_id = detail::or_null(options.model_id);
  all.version = options.version;
  all.valid_s = options.valid_s;
  all.adds = options.adds ? 1 : 0;
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, all, [&](const sparclFileSignOptions_t* given) {
    return sparclFileSign(path.c_str(), key.c_str(), given, &report);
  });
  return report;
}

struct SignatureOptions {
  std::string signature = {};  // path of the signature file; empty: beside what was signed
  std::string model_id = {};   // empty: any
  std::uint64_t min_version = 0;
  std::uint64_t trust_threshold = 1;
};

inline Report verify_signature(const std::string& path, const std::string& trust,
                               const SignatureOptions& options = {}, const Watch& watch = {}) {
  sparclFileSignatureOptions_t all = SPARCL_FILE_SIGNATURE_OPTIONS_INITIALIZER;
  all.signature = detail::or_null(options.signature);
  all.model_id = detail::or_null(options.model_id);
  all.min_version = options.min_version;
  all.trust_threshold = options.trust_threshold;
  Report report = SPARCL_FILE_REPORT_INITIALIZER;
  detail::run(watch, all, [&](const sparclFileSignatureOptions_t* given) {
    return sparclFileVerifySignature(path.c_str(), trust.c_str(), given, &report);
  });
  return report;
}

inline Advice advise(const std::string& first, const std::string& second, double link_gbit = 10,
                     int ranks = 8, const Watch& watch = {}) {
  Advice advice = SPARCL_FILE_ADVICE_INITIALIZER;
  detail::run(watch, detail::kOptions, [&](const sparclFileOptions_t* given) {
    return sparclFileAdvise(first.c_str(), second.c_str(), link_gbit, ranks, given, &advice);
  });
  return advice;
}

}  // namespace sparcl::file
