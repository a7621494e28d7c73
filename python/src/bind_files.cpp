// Checkpoints and deltas on disk.

#include <cxxabi.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

// Carries a call's progress to Python, and Ctrl-C or an exception of the callback back.
class Progress {
 public:
  explicit Progress(nb::object callback) : callback_(std::move(callback)) { watch_interrupts(); }

  template <class Options>
  void attach(Options& options) {
    options.on_progress = &Progress::on_progress;
    options.on_note = &Progress::on_note;
    options.arg = this;
  }
  template <class Call>
  nb::tuple run(Call&& call) {
    sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
    sparclResult_t result;
    {
      const ReleasedGil released;
      result = call(&report);
    }
    if (has_raised_) {
      error_.restore();
      throw nb::python_error();
    }
    check(result);
    return nb::make_tuple(nb::cast(report), notes_);
  }

 private:
  // An exception between its callback and the end of the call.
  struct Raised {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    void fetch() { PyErr_Fetch(&type, &value, &trace); }
    void restore() { PyErr_Restore(type, value, trace); }
  };

  // CPython before 3.14 ends a thread in Python's code by unwinding, when the interpreter ends.
  static sparclResult_t on_progress(std::uint64_t done, std::uint64_t total, void* arg) try {
    return tell(done, total, arg);
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
  static sparclResult_t tell(std::uint64_t done, std::uint64_t total, void* arg) {
    auto& self = *static_cast<Progress*>(arg);
    const unsigned now = interrupts();
    if (self.callback_.is_none() && now == self.seen_) return sparclSuccess;
    self.seen_ = now;
    const HeldGil held;
    if (PyErr_CheckSignals() == 0 && self.callback_.is_none()) return sparclSuccess;
    if (PyErr_Occurred() == nullptr) {
      PyObject* const answer =
          PyObject_CallFunction(self.callback_.ptr(), "KK", static_cast<unsigned long long>(done),
                                static_cast<unsigned long long>(total));
      Py_XDECREF(answer);
      if (answer != nullptr) return sparclSuccess;
    }
    self.error_.fetch();
    self.has_raised_ = true;
    return sparclInvalidUsage;  // ends the call
  }
  static void on_note(sparclFileNoteKind_t kind, const char* name, void* arg) {
    auto& self = *static_cast<Progress*>(arg);
    const HeldGil held;
    self.notes_.append(nb::make_tuple(
        static_cast<int>(kind),
        nb::steal(PyUnicode_DecodeUTF8(name, static_cast<Py_ssize_t>(strlen(name)), "replace"))));
  }

  nb::object callback_;
  nb::list notes_;
  unsigned seen_ = interrupts();
  bool has_raised_ = false;
  Raised error_;
};

using Text = std::optional<std::string>;

nb::tuple file_diff(const std::string& base, const std::string& target, const std::string& output,
                    const Text& mode, const std::vector<std::string>& only,
                    const std::optional<sparclUpdateOptions_t>& selection, bool side_files,
                    int threads, bool identities, nb::object on_progress) {
  std::vector<const char*> globs;
  for (const std::string& each : only) globs.push_back(c_text(each));
  sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  options.mode = text_or_null(mode);
  options.only = globs.data();
  options.only_count = globs.size();
  options.selection = selection ? &*selection : nullptr;
  options.side_files = side_files ? sparclFileSideFilesCarry : sparclFileSideFilesOmit;
  options.threads = threads;
  options.with_identities = identities ? 1 : 0;
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileDiff(c_text(base), c_text(target), c_text(output), &options, report);
  });
}

nb::tuple file_apply(const std::string& base, const std::string& delta, const std::string& output,
                     nb::object on_progress) {
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileApply(c_text(base), c_text(delta), c_text(output), &options, report);
  });
}

nb::tuple file_verify(const std::string& path, nb::object on_progress) {
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run(
      [&](sparclFileReport_t* report) { return sparclFileVerify(c_text(path), &options, report); });
}

nb::tuple file_compose(const std::vector<std::string>& deltas, const Text& base,
                       const std::string& output, nb::object on_progress) {
  std::vector<const char*> paths;
  for (const std::string& each : deltas) paths.push_back(c_text(each));
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileCompose(paths.data(), paths.size(), text_or_null(base), c_text(output),
                             &options, report);
  });
}

nb::tuple file_invert(const std::string& base, const std::string& delta, const std::string& output,
                      nb::object on_progress) {
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileInvert(c_text(base), c_text(delta), c_text(output), &options, report);
  });
}

nb::tuple file_convert(const std::string& input, const Text& from, const std::string& output,
                       const std::string& to, const Text& base, nb::object on_progress) {
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileConvert(c_text(input), text_or_null(from), c_text(output), c_text(to),
                             text_or_null(base), &options, report);
  });
}

nb::tuple file_hash(const std::string& path, int kind, nb::object on_progress) {
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress(std::move(on_progress));
  progress.attach(options);
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileHash(c_text(path), static_cast<sparclFileHashKind_t>(kind), &options, report);
  });
}

nb::tuple file_sign(const std::string& path, const std::string& key, const Text& signature,
                    const Text& model_id, std::uint64_t version, double valid_s, bool adds) {
  sparclFileSignOptions_t options = SPARCL_FILE_SIGN_OPTIONS_INITIALIZER;
  Progress progress{nb::none()};
  progress.attach(options);
  options.signature = text_or_null(signature);
  options.model_id = text_or_null(model_id);
  options.version = version;
  options.valid_s = valid_s;
  options.adds = adds ? 1 : 0;
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileSign(c_text(path), c_text(key), &options, report);
  });
}

nb::tuple file_verify_signature(const std::string& path, const std::string& trust,
                                const Text& signature, const Text& model_id,
                                std::uint64_t min_version, std::uint64_t threshold) {
  sparclFileSignatureOptions_t options = SPARCL_FILE_SIGNATURE_OPTIONS_INITIALIZER;
  Progress progress{nb::none()};
  progress.attach(options);
  options.signature = text_or_null(signature);
  options.model_id = text_or_null(model_id);
  options.min_version = min_version;
  options.trust_threshold = threshold;
  return progress.run([&](sparclFileReport_t* report) {
    return sparclFileVerifySignature(c_text(path), c_text(trust), &options, report);
  });
}

sparclFileAdvice_t file_advise(const std::string& first, const std::string& second,
                               double link_gbit, int ranks) {
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  Progress progress{nb::none()};
  progress.attach(options);
  progress.run([&](sparclFileReport_t*) {
    return sparclFileAdvise(c_text(first), c_text(second), link_gbit, ranks, &options, &advice);
  });
  return advice;
}

nb::list modes_of(const sparclFileAdvice_t& advice) {
  nb::list modes;
  for (std::uint64_t i = 0; i < advice.mode_count && i < 16; ++i)
    modes.append(
        nb::make_tuple(advice.modes[i].name, advice.modes[i].bytes, advice.modes[i].seconds));
  return modes;
}

}  // namespace

void add_files(nb::module_& module) {
  using Report = sparclFileReport_t;
  nb::class_<Report>(module, "FileReport", "Counts and bytes of a call on files.")
      .def_ro("elements", &Report::elements)
      .def_ro("changed", &Report::changed, "elements")
      .def_ro("tensors", &Report::tensors)
      .def_ro("bytes", &Report::bytes, "of the file; of a checkpoint: of its tensors")
      .def_ro("input_bytes", &Report::input_bytes)
      .def_ro("dense_bytes", &Report::dense_bytes)
      .def_ro("files", &Report::files)
      .def_ro("unchanged", &Report::unchanged)
      .def_ro("blocks", &Report::blocks)
      .def_ro("chunks", &Report::chunks)
      .def_ro("left_out", &Report::left_out, "changes that are not selected")
      .def_ro("left_out_l2", &Report::left_out_l2)
      .def_ro("left_out_largest", &Report::left_out_largest)
      .def_ro("quantisation_largest", &Report::quantisation_largest)
      .def_ro("quantisation_relative", &Report::quantisation_relative)
      .def_ro("largest_error", &Report::largest_error)
      .def_ro("relative_error", &Report::relative_error)
      .def_ro("seconds", &Report::seconds)
      .def_prop_ro("base_hash", [](const Report& report) { return report.base_hash; })
      .def_prop_ro("target_hash", [](const Report& report) { return report.target_hash; })
      .def_prop_ro("hash", [](const Report& report) { return report.hash; })
      .def_prop_ro("layout", [](const Report& report) { return report.layout; })
      .def_prop_ro("is_delta", [](const Report& report) { return report.is_delta != 0; })
      .def_prop_ro("same_header", [](const Report& report) { return report.same_header != 0; });
  using Advice = sparclFileAdvice_t;
  nb::class_<Advice>(module, "Advice", "Shape and cost of a change.")
      .def_ro("elements", &Advice::elements)
      .def_ro("changed", &Advice::changed)
      .def_ro("dense_bytes", &Advice::dense_bytes)
      .def_ro("clustering", &Advice::clustering,
              "1: changes are independent; more: they are clustered")
      .def_ro("position_bits", &Advice::position_bits, "entropy of positions, bits a change")
      .def_ro("position_bits_given_old", &Advice::position_bits_given_old)
      .def_ro("unit_steps", &Advice::unit_steps, "share of changes by one unit in the last place")
      .def_ro("sparse_seconds", &Advice::sparse_seconds, "predicted broadcast of the update")
      .def_ro("dense_seconds", &Advice::dense_seconds, "predicted broadcast of the state")
      .def_ro("dense_wins_above", &Advice::dense_wins_above, "density; negative: none")
      .def_prop_ro("sparse_algorithm", [](const Advice& advice) { return advice.sparse_algorithm; })
      .def_prop_ro("dense_algorithm", [](const Advice& advice) { return advice.dense_algorithm; })
      .def_prop_ro("best_mode", [](const Advice& advice) { return advice.best_mode; })
      .def_prop_ro("broadcast_bytes", [](const Advice& advice) { return advice.broadcast.bytes; })
      .def_prop_ro("modes", &modes_of, "tuples of name, bytes and seconds");
  module.def("file_diff", &file_diff, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("file_apply", &file_apply, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("file_verify", &file_verify, nb::arg(), nb::arg().none());
  module.def("file_compose", &file_compose, nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg().none());
  module.def("file_invert", &file_invert, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("file_convert", &file_convert, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(),
             nb::arg().none(), nb::arg().none());
  module.def("file_hash", &file_hash, nb::arg(), nb::arg(), nb::arg().none());
  module.def("file_sign", &file_sign, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(),
             nb::arg(), nb::arg(), nb::arg());
  module.def("file_verify_signature", &file_verify_signature, nb::arg(), nb::arg(),
             nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg());
  module.def("file_advise", &file_advise);
}

}  // namespace sparcl::python
