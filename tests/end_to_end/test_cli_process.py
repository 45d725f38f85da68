"""What only a process of its own can show: Ctrl-C, a reader that leaves, `python -m leadline`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from leadline.cli import main

LEADLINE = [sys.executable, "-m", "leadline"]


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_end(tmp_path, monkeypatch, capsys):
    words = ["train", "moons", "--epochs", "150", "--hidden", "16", "--threads", "1", "--no-report", "--compile", "off"]
    process = subprocess.Popen(
        [*LEADLINE, *words, "--folder", "cut", "--json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    metrics = tmp_path / "cut" / "metrics.jsonl"
    until = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "leadline resume cut" in err and "Traceback" not in err
    assert json.loads(out)["reason"] == "interrupted"
    monkeypatch.chdir(tmp_path)
    assert main(["resume", "cut", "--json"]) == 0
    assert not (tmp_path / "cut" / "report.html").exists()  # as train was told
    assert main([*words, "--folder", "whole", "--json"]) == 0
    resumed, whole = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert resumed["metrics"] == whole["metrics"]
    assert metrics.read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()


def test_a_reader_that_leaves_is_no_error(tmp_path):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m leadline list data | head -1; echo ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""


def test_the_console_script_is_the_same_program(capsys):
    script = Path(sys.executable).with_name("leadline")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=120)
    assert main(["--help"]) == 0
    assert done.returncode == 0 and done.stdout == capsys.readouterr().out
