# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One table of several runs of the demo, as of several seeds."""
import argparse
import json
from pathlib import Path

from projects.drawn_world.results import compare_seeds, to_markdown
from qbheat_mm.cli import report_user_errors
from qbheat_mm.errors import UserError


def read_results(out: Path) -> dict:
    """What a run of the demo has written.

    Raises:
        UserError: If it is something else.
    """
    file = out / 'results.json'
    try:
        content = json.loads(file.read_text())
        if content['rows'] and 'seed' in content:
            return content
    except (ValueError, TypeError, KeyError):
        pass
    raise UserError(f"'{file}' is not what run_demo.py writes: run the demo "
                    'with --out there')


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'out', nargs='+', type=Path, help='what run_demo.py got as --out')
    table = compare_seeds(list(map(read_results, parser.parse_args().out)))
    print(f'{table.title}\n\n{to_markdown(table)}')


if __name__ == '__main__':
    report_user_errors(main)
