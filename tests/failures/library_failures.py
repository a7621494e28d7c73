"""The library's calls and the replication service, with failing calls: library_failures.py SHIM FOLDER_OF_PROGRAMS SPARCL NUMBERS CASE..."""
import os
import sys
import tempfile

from failing_runs import LONG, Case, Runner


def main(shim, programs, sparcl, most, *wanted):
    calls = os.path.join(programs, "library_calls")
    cases = [
        Case("collectives", [calls, "collectives"]),
        Case("requests", [calls, "requests"]),
        Case("handles", [calls, "handles", "feedback"], outputs=["feedback"]),
        Case("meeting", [calls, "meeting"]),
        # Where a failure leaves one side waiting, it waits for its time limit.
        Case("service", [os.path.join(programs, "service_calls"), sparcl], env={} if LONG else {"SPARCL_TIMEOUT_S": "6"}),
    ]
    with tempfile.TemporaryDirectory() as folder:
        work, records = os.path.join(folder, "work"), os.path.join(folder, "records")
        for each in (work, records):
            os.mkdir(each)
        os.chdir(work)
        runner = Runner(shim, records)
        for case in cases:
            if case.name in wanted:
                runner.try_case(case, int(most))
        os.chdir("/")
        return runner.report()


sys.exit(main(*sys.argv[1:]))
