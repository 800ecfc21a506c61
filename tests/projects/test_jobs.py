"""Commands side by side."""
import os
import signal
import subprocess
import sys
import time

import pytest

from projects.drawn_world.jobs import Job, JobFailed, JobRunner, describe


def python(code):
    return [sys.executable, '-S', '-c', code]


@pytest.fixture
def said():
    return []


@pytest.fixture
def runner(tmp_path, said):
    return JobRunner(tmp_path / 'logs', slots=2, say=said.append)


def test_a_job_waits_for_what_it_needs(runner, tmp_path):
    file = tmp_path / 'made'
    runner.run([
        Job('late', python(f'open({str(file)!r}).read()'), needs=['early']),
        Job('early', python(f'open({str(file)!r}, "w").write("x")'))
    ])
    assert set(runner.seconds) == {'early', 'late'}


def test_no_more_run_than_there_are_slots(runner, tmp_path):
    code = ('import os, time; d={!r}; p=os.path.join(d, str(os.getpid()));'
            'open(p, "w"); assert len(os.listdir(d)) <= 2; time.sleep(.3);'
            'os.remove(p)').format(str(tmp_path / 'running'))
    (tmp_path / 'running').mkdir()
    runner.run([Job(f'job{i}', python(code)) for i in range(5)])


def test_a_failure_is_told_and_stops_the_others(runner, said):
    jobs = [
        Job('long', python('import time; time.sleep(60)')),
        Job('bad', python('print("the reason"); raise SystemExit(3)')),
        Job('never', python('print()'), needs=['bad'])
    ]
    start = time.monotonic()
    with pytest.raises(JobFailed) as error:
        runner.run(jobs)
    assert time.monotonic() - start < 30
    assert 'bad failed (status 3)' in str(error.value)
    assert 'the reason' in str(error.value)
    assert runner.commands['bad'] in str(error.value)
    assert not any('never' in line for line in said)
    assert (runner.log_dir / 'bad.log').read_text() == 'the reason\n'


def test_others_go_on_until_too_many_have_failed(tmp_path, said):
    bad = [Job(f'bad{i}', python('raise SystemExit(3)')) for i in range(2)]
    good = [Job('never', python(''), needs=['bad0']),
            Job('good', python('')),
            Job('last', python(''), needs=['good'])]
    runner = JobRunner(tmp_path, say=said.append, failures=3, slots=1)
    with pytest.raises(JobFailed, match='bad0 failed'):
        runner.run(bad + good)
    assert {'bad0', 'bad1', 'good', 'last'} == set(runner.seconds)
    assert any('bad1' in line and 'status 3' in line for line in said)

    runner = JobRunner(tmp_path, say=said.append, failures=2, slots=1)
    with pytest.raises(JobFailed, match='bad1 failed'):
        runner.run(bad + good)
    assert set(runner.seconds) == {'bad0', 'bad1'}


@pytest.mark.parametrize('broken', ['command', 'finished'])
def test_an_error_around_a_job_is_its_failure(tmp_path, said, broken):
    """Or one bad run would end all others, whenever they are started."""
    def fail(job=None):
        if job is None or job.name == 'bad':
            raise ValueError('no such figure')

    bad = Job('bad', fail if broken == 'command' else python(''))
    runner = JobRunner(tmp_path, say=said.append, failures=2, slots=1,
                       finished=fail if broken == 'finished' else None)
    with pytest.raises(JobFailed, match='^bad .*no such figure') as error:
        runner.run([bad, Job('never', python(''), needs=['bad']),
                    Job('good', python(''))])
    assert isinstance(error.value.__cause__, ValueError)
    assert 'good' in runner.seconds and 'never' not in runner.seconds
    assert any('no such figure' in line for line in said)


@pytest.mark.parametrize('broken', ['full', 'folder', 'file above'])
def test_a_log_that_cannot_be_written_ends_its_job(tmp_path, said, broken):
    """Nobody would read what the job says, and it would wait for that."""
    log = tmp_path / 'logs' / 'a' / 'job.log'
    if broken == 'file above':
        (tmp_path / 'logs').write_text('')
    else:
        log.parent.mkdir(parents=True)
    if broken == 'full':
        log.symlink_to('/dev/full')
    elif broken == 'folder':
        log.mkdir()
    chatty = python('import signal; signal.alarm(10)\n'  # if nobody stops it
                    'while True: print("said " * 1000)')
    runner = JobRunner(tmp_path / 'logs', slots=1, say=said.append,
                       failures=2)
    with pytest.raises(JobFailed, match=f"a/job was stopped.*'{log}'") as told:
        runner.run([Job('a/job', chatty)])
    assert isinstance(told.value.__cause__, OSError)


def test_a_job_holds_what_its_runner_holds(tmp_path, said):
    """A lock is not free while a job lives that its runner left behind."""
    read, write = os.pipe()
    child = ('import os, subprocess, sys; subprocess.Popen([sys.executable, '
             f'"-S", "-c", "import time; time.sleep(1)"], pass_fds=[{write}], '
             'stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)')
    JobRunner(tmp_path, say=said.append, holds=[write]).run(
        [Job('parent', python(child))])
    os.close(write)
    start = time.monotonic()
    assert os.read(read, 1) == b''  # at the end of the last that holds it
    assert time.monotonic() - start > 0.2


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP,
                                    signal.SIGINT])
def test_a_runner_that_is_told_to_end_ends_its_jobs(tmp_path, number):
    pid = tmp_path / 'pid'
    child = python(f'import os, time; open({str(pid)!r}, "w").write('
                   'f"{os.getpid()} "); time.sleep(60)')
    code = ('from pathlib import Path;'
            'from projects.drawn_world.jobs import Job, JobRunner;'
            f'JobRunner(Path({str(tmp_path)!r})).run('
            f'[Job("child", {child!r})])')
    # What ignores a signal, as `nohup` makes the tests do, hands that on.
    runner = subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT
            else signal.SIG_DFL))
    while not (pid.exists() and pid.read_text()):
        assert runner.poll() is None, runner.communicate()
        time.sleep(0.1)
    runner.send_signal(number)
    runner.communicate(timeout=30)
    assert runner.returncode not in (0, None)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_commands_and_progress_are_told(runner, said):
    line = ('11/21 04:50:43 - mmengine - INFO - Epoch(train) [5][20/75]  '
            'lr: 5.4e-05  eta: 0:01:06  time: 1.57  loss: 0.6013  '
            'loss_cls: 0.3611')
    metrics = ('11/21 04:51:00 - mmengine - INFO - Epoch(val) [5][19/19]    '
               'accuracy/top1: 12.5000  data_time: 0.0128  time: 0.1494')
    assert describe(line) == 'epoch 5, step 20 of 75, loss 0.6013, ' \
        '0:01:06 to go'
    job = Job('probe', python(f'print({line!r}); print({metrics!r})'))
    runner.run([job])
    text = '\n'.join(said)
    assert f"$ {runner.commands['probe']}" in text
    assert 'accuracy/top1: 12.5' in text
    assert 'done in' in text


def test_progress_is_thinned(runner, said):
    line = 'Epoch(train) [1][{}/9]  eta: 0:01:06  loss: 0.6'
    job = Job('probe', python(''))
    runner._tails['probe'] = []
    for step in range(1, 10):
        runner._follow(job, line.format(step))
    assert len(said) == 1 and 'step 1 of 9' in said[0]


def test_nothing_starts_after_its_time(tmp_path, said):
    runner = JobRunner(tmp_path, slots=1, say=said.append,
                       until=time.monotonic() - 1)
    runner.run([Job('late', python('print()'))])
    assert not runner.seconds


def test_what_has_ended_well_is_passed_on(tmp_path, said):
    ended = []
    runner = JobRunner(tmp_path, say=said.append, finished=ended.append)
    made = tmp_path / 'made'
    jobs = [Job('first', python(f'open({str(made)!r}, "w").write("x")')),
            # its command is asked for when it starts, and no sooner
            Job('second', lambda: python(made.read_text() + '=1'), ['first'])]
    runner.run(jobs)
    assert ended == jobs


def test_names_may_have_folders(runner):
    runner.run([Job('arm/0/encoder', python('print("said")'))])
    log = runner.log_dir / 'arm' / '0' / 'encoder.log'
    assert log.read_text() == 'said\n'
