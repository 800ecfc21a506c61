"""Commands that depend on each other."""
import multiprocessing
import os
import signal
import sys
import time

import pytest

from projects.study.jobs import Job, run_jobs
from qbheat_mm.errors import UserError


def python(code):
    return [sys.executable, '-S', '-c', code]


def test_jobs_wait_for_what_they_need_and_for_a_slot(tmp_path, capsys):
    made, ended = tmp_path / 'made', []
    metrics = ('Epoch(val) [5][19/19]    accuracy/top1: 12.5000  '
               'data_time: 0.0128  time: 0.1494')
    run_jobs([
        Job('late', python(f'open({str(made)!r}).read()'), ['a/early']),
        Job('a/early', python(f'open({str(made)!r}, "w"); print({metrics!r})'))
    ], tmp_path / 'logs', finished=lambda job, _: ended.append(job.name))
    assert ended == ['a/early', 'late']
    assert (tmp_path / 'logs/a/early.log').read_text() == metrics + '\n'
    out = capsys.readouterr().out
    assert ' accuracy/top1: 12.5000\n' in out and 'done in' in out


def test_no_more_run_than_there_are_slots(tmp_path):
    code = ('import os, time; p = "running/" + str(os.getpid()); open(p, "w")'
            '; assert len(os.listdir("running")) <= 2; time.sleep(.2)'
            '; os.remove(p)').replace('running', str(tmp_path / 'running'))
    (tmp_path / 'running').mkdir()
    run_jobs([Job(f'job{i}', python(code)) for i in range(4)],
             tmp_path / 'logs')


def test_a_failure_stops_the_others_and_shows_its_last_lines(tmp_path, capsys):
    jobs = [Job('long', python('import time; time.sleep(60)')),
            Job('bad', python('print("the reason"); raise SystemExit(3)')),
            Job('never', python(''), ['bad'])]
    start = time.monotonic()
    with pytest.raises(UserError, match=r'bad failed with status 3.*bad\.log'):
        run_jobs(jobs, tmp_path)
    assert time.monotonic() - start < 30
    out = capsys.readouterr().out
    assert '\nthe reason\n' in out and 'never' not in out


def test_others_go_on_if_told_so(tmp_path, capsys):
    def finished(job, seconds):
        ended.append(job.name)
        if job.name == 'unread':
            raise ValueError('no such metric')

    ended = []
    jobs = [Job('bad', python('raise SystemExit(3)')),
            Job('unread', python('')), Job('never', python(''), ['unread']),
            Job('good', python('')), Job('last', python(''), ['good'])]
    with pytest.raises((UserError, ValueError)):
        run_jobs(jobs, tmp_path, 1, finished=finished, keep_going=True)
    assert ended == ['unread', 'good', 'last']
    assert 'no such metric' in capsys.readouterr().out


def test_nothing_starts_after_its_time(tmp_path):
    run_jobs([Job('late', python('raise SystemExit(3)'))], tmp_path,
             until=time.monotonic() - 1)


def test_a_log_that_cannot_be_written_ends_its_job(tmp_path):
    """Nobody would read its output, and it would wait forever."""
    (tmp_path / 'job.log').mkdir()
    chatty = python('import signal; signal.alarm(20)\n'
                    'while True: print("said " * 1000)')
    with pytest.raises(OSError, match=r'job\.log'):
        run_jobs([Job('job', chatty)], tmp_path)


def test_a_signal_ends_the_jobs_too(tmp_path):
    pid = tmp_path / 'pid'
    child = python(f'import os, time; open({str(pid)!r}, "w").write('
                   'f"{os.getpid()} "); time.sleep(60)')
    # Forked, since importing everything anew takes most of the time.
    runner = multiprocessing.get_context('fork').Process(
        target=run_jobs, args=([Job('child', child)], tmp_path))
    runner.start()
    while not (pid.exists() and pid.read_text()):
        assert runner.is_alive()
        time.sleep(0.1)
    os.kill(runner.pid, signal.SIGTERM)
    runner.join(60)
    assert runner.exitcode > 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
