# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One table of several runs of the demo, as of several seeds."""
import argparse
import json
from pathlib import Path

from qbheat_mm.demo.results import compare_seeds, to_markdown


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'out', nargs='+', type=Path, help='what run_demo.py got as --out')
    files = [out / 'results.json' for out in parser.parse_args().out]
    table = compare_seeds([json.loads(file.read_text()) for file in files])
    print(f'{table.title}\n\n{to_markdown(table)}')


if __name__ == '__main__':
    main()
